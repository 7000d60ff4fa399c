"""What a process keeps until its end is not looked through for garbage.

Covers: edge/cold_start
"""

import gc
from collections.abc import Iterator

import pytest

from turnstone.edge.cold_start import for_good, undisturbed


@pytest.fixture
def looks() -> Iterator[list[str]]:
    """The looks for garbage that have begun or ended, all in all."""
    noted: list[str] = []

    def note(phase: str, _: object) -> None:
        noted.append(phase)

    gc.callbacks.append(note)
    yield noted
    gc.callbacks.remove(note)
    gc.unfreeze()


def test_what_was_loaded_for_good_brings_about_no_look(looks: list[str]) -> None:
    with for_good():
        kept = [[number] for number in range(100_000)]
        with undisturbed():
            kept += [[number] for number in range(1_000)]
    later = [[number] for number in range(100)]
    assert (len(kept), len(later), looks, gc.isenabled()) == (101_000, 100, [], True)


def test_what_fails_to_load_leaves_the_collector_as_it_was(looks: list[str]) -> None:
    before = gc.get_freeze_count()
    with pytest.raises(ImportError), for_good():
        raise ImportError
    assert (gc.isenabled(), gc.get_freeze_count()) == (True, before)
