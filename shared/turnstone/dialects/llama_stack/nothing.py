"""The answer of Llama Stack that is null; a file of its own, because loading a root model takes long.

Source: the methods of `llama-stack-client` 0.2.12 that return None.
"""

from pydantic import ConfigDict, RootModel


class Nothing(RootModel[None]):
    """Done, and there is nothing to tell of it."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    root: None = None
