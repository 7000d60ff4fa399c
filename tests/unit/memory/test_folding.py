"""The choice of the segments of a memory bank to merge.

Covers: services/memory/folding
"""

from __future__ import annotations

import pytest

from turnstone.services.memory import merging
from turnstone.store.memory.contents import SegmentEntry


@pytest.fixture(autouse=True)
def merges_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MERGED", 3)
    monkeypatch.setattr(merging, "SMALLEST", 2)


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
