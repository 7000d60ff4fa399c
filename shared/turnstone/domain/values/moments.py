"""Moments on two clocks, for cache lifetimes; and strictly increasing moments."""

from datetime import datetime, timedelta
from typing import NamedTuple

LEAST = timedelta(microseconds=1)


class Moment(NamedTuple):
    """A moment on the wall clock, which may be set, and on a monotonic one, which may stop in a frozen process.

    Attributes:
        at: on the wall clock.
        passed_s: seconds on the monotonic clock.
    """

    at: datetime
    passed_s: float

    def is_within(self, duration: timedelta, now: "Moment") -> bool:
        """Return whether less than that time has passed since this moment, on both clocks."""
        return now.passed_s - self.passed_s < duration.total_seconds() and now.at - self.at < duration


def strictly_after(now: datetime, *earlier: datetime) -> datetime:
    """Return now, or the first moment after all the earlier ones if the clock stands still or was set back."""
    return max((now, *(at + LEAST for at in earlier)))
