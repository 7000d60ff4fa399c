"""Jail a Python process from within before it runs untrusted code; standard library and Linux only."""
