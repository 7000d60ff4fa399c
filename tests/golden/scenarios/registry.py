"""The scenarios that are written by hand, by their names."""

from __future__ import annotations

from collections.abc import Callable

from tests.golden.play import STORES, Scenario
from tests.golden.world import World

Act = Callable[[World], object]
WRITTEN: dict[str, Scenario] = {}


def scenario(
    *stands_for: str,
    has_small_records: bool = False,
    only: tuple[str, ...] = STORES,
    fails_by: tuple[str, ...] = (),
) -> Callable[[Act], Act]:
    """Make a function a scenario, named by its module and itself; `stands_for` names the tests it writes down."""

    def register(act: Act) -> Act:
        name = f"{act.__module__.rpartition('.')[2]}/{act.__name__}"
        WRITTEN[name] = Scenario(name, act, stands_for, has_small_records, only, fails_by)
        return act

    return register
