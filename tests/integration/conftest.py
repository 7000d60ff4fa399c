"""Fixtures that several modules here share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.either_store import Make, made_over_dynamodb, made_over_sqlite
from tests.machine import Bench
from tests.supervised import nobody


@pytest.fixture(scope="module")
def bench_for_make() -> Iterator[Bench]:
    with Bench(nobody) as bench:
        yield bench


@pytest.fixture(params=["sqlite", "dynamodb"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Make processes over one store, on either of the two."""
    if request.param == "sqlite":
        yield from made_over_sqlite(tmp_path)
    else:
        yield from made_over_dynamodb(request.getfixturevalue("bench_for_make"))
