"""Times in records: the same text wherever the machine stands.

Covers: store/layout/frames
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from turnstone.store.layout.frames import stamp, time_of_attribute

MOMENT = datetime(2026, 11, 22, 1, 2, 3, 40, tzinfo=UTC)


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the machine's clock show the time of another zone."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-9, minutes=-30))])
def test_a_time_is_stored_as_utc_whatever_the_zones(zone: timezone, far_away: None) -> None:
    stored = stamp(MOMENT.astimezone(zone))
    assert (stored, time_of_attribute(stored)) == ("2026-11-22T01:02:03.000040Z", MOMENT)
