"""Threads of requests while they wait for a model: their pool may lend another one in the meantime."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import Protocol

_of_thread = local()


class Lender(Protocol):
    """Lends threads, and limits the number of those at work."""

    def set_aside(self) -> None:
        """Count the thread no longer: it waits."""

    def take_back(self) -> None:
        """Count the thread again, even above the limit: it works on."""


def note_lender(lender: Lender | None) -> None:
    """Report the waits of this thread to the lender from now on; None for no reports."""
    _of_thread.lender = lender


@contextmanager
def waiting_for_a_model() -> Iterator[None]:
    """Wait in this thread for a model; the waits of a process are limited by something else, such as slots."""
    lender: Lender | None = getattr(_of_thread, "lender", None)
    if lender is None:
        yield
        return
    _of_thread.lender = None  # a wait within the wait is none of its own
    lender.set_aside()
    try:
        yield
    finally:
        lender.take_back()
        _of_thread.lender = lender
