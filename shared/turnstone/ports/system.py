"""The clock, and the source of ids."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the aware UTC time. It may be set back or forward at any moment."""

    def monotonic_s(self) -> float:
        """Return the seconds of a monotonic clock; comparable within this process only."""


class IdGenerator(Protocol):
    def new_id(self) -> str:
        """Return a unique id, whose text sorts by its creation time."""

    def order_key(self, at: datetime, previous: str | None) -> str:
        """Return a UUIDv7 of that time, or of a millisecond after `previous` if that is later."""
