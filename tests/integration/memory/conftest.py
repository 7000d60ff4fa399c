"""Memory banks over both stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engine.either_store import Make, made_over_dynamodb, made_over_sqlite
from turnstone.services.memory import folding, merging


@pytest.fixture(params=["sqlite", "dynamodb"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Make processes over one store: the conformance suite, over both stores in each run."""
    if request.param == "sqlite":
        yield from made_over_sqlite(tmp_path)
    else:
        yield from made_over_dynamodb(request.getfixturevalue("bench_for_make"))


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fold and merge after a few chunks, as a large bank does after thousands."""
    monkeypatch.setattr(folding, "FOLDED_FROM", 6)
    monkeypatch.setattr(folding, "ONE_IN", 2)
    monkeypatch.setattr(merging, "MERGED", 3)
    monkeypatch.setattr(merging, "SMALLEST", 2)
