"""The clock, and the source of ids."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the time, aware, in UTC. It may be set back or forward at any moment."""

    def monotonic_s(self) -> float:
        """Return seconds from some moment on, which pass evenly however the time is set; for this process only."""


class IdGenerator(Protocol):
    def new_id(self) -> str:
        """Return an id that no one has, whose text sorts by the time it was made."""

    def order_key(self, at: datetime, previous: str | None) -> str:
        """Return a UUIDv7 of that time, or of a millisecond after `previous` if that is later."""
