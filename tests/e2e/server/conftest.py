"""Servers of these tests start as a user's do: their starts, signals and processes are what is tested."""

import pytest


@pytest.fixture(autouse=True)
def _as_a_user_starts_them(cold_starts: None) -> None:
    """Start each server as a new Python."""
