"""Objects that a process keeps until its end are not scanned by the garbage collector.

Covers: edge/cold_start
"""

import gc
from collections.abc import Iterator

import pytest

from turnstone.edge.cold_start import for_good, undisturbed


@pytest.fixture
def collections() -> Iterator[list[str]]:
    """The phases of garbage collections that have begun or ended, in order."""
    noted: list[str] = []

    def note(phase: str, _: object) -> None:
        noted.append(phase)

    gc.callbacks.append(note)
    yield noted
    gc.callbacks.remove(note)
    gc.unfreeze()


def test_objects_loaded_for_good_cause_no_collection(collections: list[str]) -> None:
    with for_good():
        kept = [[number] for number in range(100_000)]
        with undisturbed():
            kept += [[number] for number in range(1_000)]
    later = [[number] for number in range(100)]
    assert (len(kept), len(later), collections, gc.isenabled()) == (101_000, 100, [], True)


def test_a_failed_load_leaves_the_collector_as_it_was(collections: list[str]) -> None:
    before = gc.get_freeze_count()
    with pytest.raises(ImportError), for_good():
        raise ImportError
    assert (gc.isenabled(), gc.get_freeze_count()) == (True, before)
