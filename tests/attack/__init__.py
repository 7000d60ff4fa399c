"""Attacks on a real server: `make attack` runs each at full size, `tests/e2e/server/test_attacks.py` at a small one.

A module of this folder is one attack. It declares `ATTACK`, an `Attack` whose `run` starts the server it needs, attacks
it and yields a `Finding` for each bar.
"""
