"""Moments by two clocks, for what a process may take for known for a while; and moments that come in order."""

from datetime import datetime, timedelta
from typing import NamedTuple

LEAST = timedelta(microseconds=1)


class Moment(NamedTuple):
    """A moment by the wall clock, which may be set, and by one that nobody sets but that may stop in a frozen process.

    Attributes:
        at: by the wall clock.
        passed_s: seconds by the other one, from some moment on.
    """

    at: datetime
    passed_s: float

    def is_within(self, duration: timedelta, now: "Moment") -> bool:
        """Tell whether this moment is less than that long ago by both clocks."""
        return now.passed_s - self.passed_s < duration.total_seconds() and now.at - self.at < duration


def strictly_after(now: datetime, *earlier: datetime) -> datetime:
    """Return now, or the first moment after all the earlier ones where the clock stands still or was set back."""
    return max((now, *(at + LEAST for at in earlier)))
