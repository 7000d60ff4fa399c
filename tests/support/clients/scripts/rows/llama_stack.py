"""The rows of the table for Python's `llama-stack-client`. Arguments: see `scenario.py`."""

from importlib import import_module

from scenario import run

for subject in ("agents", "registry", "models", "agent_class"):
    import_module(f"llama_stack_{subject}")  # adds its rows
run()
