"""The choice of the segments of a memory bank to merge, and of those to rewrite.

Covers: services/memory/merging, store/memory/bank_records
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from turnstone.services.memory import merging
from turnstone.store.memory.contents import SegmentEntry


@pytest.fixture(autouse=True)
def merges_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MERGED", 3)
    monkeypatch.setattr(merging, "SMALLEST", 2)
    monkeypatch.setattr(merging, "LARGE", 18)
    monkeypatch.setattr(merging, "LARGEST", 54)
    monkeypatch.setattr(merging, "MOST_DROPPED", 5)


def listed(*sizes: tuple[int, int, int]) -> list[SegmentEntry]:
    """Return segments of so many chunks, replaced ones, and dropped documents."""
    return [
        SegmentEntry(str(at), chunks, tuple(f"{at} {number}" for number in range(dropped)), replaced)
        for at, (chunks, replaced, dropped) in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "run"),
    [
        ([], 0),
        ([6, 6], 0),
        ([6, 6, 6], 3),
        ([18, 6, 6], 0),
        ([18, 18, 6], 0),
        ([18, 18, 12], 3),
        ([18, 18, 6, 6, 6], 3),
        ([60, 18, 6], 0),
    ],
)
def test_segments_of_a_size_are_merged(sizes: list[int], run: int) -> None:
    found = merging.mergeable([SegmentEntry(str(size), size) for size in sizes])
    assert found == range(len(sizes) - run, len(sizes)) if run else not found


@pytest.mark.parametrize(
    ("sizes", "run"),
    [
        ([], []),
        ([(50, 25, 0), (50, 0, 0)], []),
        ([(50, 26, 0), (50, 0, 0)], [0]),
        ([(50, 0, 0), (50, 50, 0), (50, 0, 0)], [1]),
        ([(50, 40, 0), (50, 40, 0), (50, 0, 0)], [0, 1]),
        ([(6, 0, 0), (18, 0, 0), (50, 40, 0), (9, 0, 0), (19, 0, 0)], [0, 1, 2, 3]),
        ([(18, 0, 0), (18, 0, 0), (50, 26, 0), (12, 0, 0), (1, 0, 0)], [1, 2, 3]),
        ([(50, 0, 0), (0, 0, 0), (50, 0, 0)], [1]),
        ([(50, 0, 0), (0, 0, 2), (50, 0, 0)], []),
        ([(50, 1, 0), (50, 0, 5), (50, 0, 0)], []),
        ([(50, 1, 0), (50, 0, 6), (50, 1, 0)], [0]),
    ],
)
def test_segments_are_rewritten_of_which_most_was_replaced(
    sizes: Sequence[tuple[int, int, int]], run: list[int]
) -> None:
    assert list(merging.reclaimable(listed(*sizes))) == run


def test_a_list_is_rewritten_until_little_of_each_segment_was_replaced() -> None:
    segments = listed((50, 30, 1), (50, 50, 2), (9, 0, 0), (50, 49, 4), (0, 0, 0), (50, 1, 0), (18, 18, 0))
    while run := merging.reclaimable(segments):
        rewritten = SegmentEntry("new", sum(segments[at].living for at in run))
        segments[run.start : run.stop] = [rewritten] if rewritten.chunks else []
    assert [segment.chunks for segment in segments] == [30, 50]
