"""Fixtures that several modules here share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.aws.state_machine import Bench
from tests.support.aws.supervised import refuse_worker_call
from tests.support.cases import NIGHTLY
from tests.support.engine.either_store import Make, made_over_dynamodb, made_over_sqlite


@pytest.fixture(scope="module")
def bench_for_make() -> Iterator[Bench]:
    with Bench(refuse_worker_call) as bench:
        yield bench


@pytest.fixture(params=["sqlite", pytest.param("dynamodb", marks=NIGHTLY)])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Make processes over one store, on either of the two.

    DynamoDB's double takes ten times as long: in each run the golden transcripts and the contract tests use it instead.
    """
    if request.param == "sqlite":
        yield from made_over_sqlite(tmp_path)
    else:
        yield from made_over_dynamodb(request.getfixturevalue("bench_for_make"))
