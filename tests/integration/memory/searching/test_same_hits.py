"""The same hits, scores and order over SQLite and DynamoDB, whatever the requests by which the chunks were inserted.

Covers: services/memory/searching, adapters/retrieval/scoring, domain/memory/ranking
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.cases import NIGHTLY
from tests.support.engine.banks import BANK, FIRST, done_jobs, found, manifest_of, registered
from tests.support.engine.either_store import made_over_dynamodb, made_over_sqlite
from tests.support.engine.harness import Server
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.memory.filters import parsed
from turnstone.domain.memory.insertions import GivenChunk
from turnstone.domain.memory.questions import Hit, ReciprocalRank, Weighted
from turnstone.domain.provider_data import NO_PROVIDER_DATA

pytestmark = pytest.mark.usefixtures("small_segments")

WORDS = [f"{first}{last}" for first in ("tern", "knot", "plover", "stint", "ruff", "å") for last in ("", "s", "wing")]
RANKERS = (Weighted(), Weighted(0.3), ReciprocalRank())
FILTERS = (
    None,
    {"type": "gte", "key": "page", "value": 12},
    {
        "type": "or",
        "filters": [{"type": "eq", "key": "page", "value": 3}, {"type": "nin", "key": "page", "value": [1]}],
    },
)


@pytest.fixture
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Server]]:
    """Yield a process over each of the two stores."""
    bench = request.getfixturevalue("bench_for_make")
    makers = made_over_sqlite(tmp_path), made_over_dynamodb(bench)
    yield [next(maker)() for maker in makers]
    for maker in makers:
        maker.close()


def filled(server: Server, at_once: int) -> None:
    """Insert chunks of which many have one text, and therefore one score: so many in a request."""
    registered(server)
    random = Random(7)
    texts = [" ".join(random.choices(WORDS, k=random.randint(1, 6))) for _ in range(60)]
    given = [GivenChunk(texts[number % 60], {"page": number % 20}, f"d{number}") for number in range(150)]
    for begin in range(0, len(given), at_once):
        some = given[begin : begin + at_once]
        server.core.inserting.insert_chunks(LOCAL_CALLER, BANK, some, NO_PROVIDER_DATA, FIRST)
    done_jobs(server)


def settings_of(random: Random) -> dict[str, Any]:
    return {
        "text": " ".join(random.choices(WORDS, k=random.randint(1, 5))),
        "mode": random.choice(("vector", "keyword", "hybrid")),
        "filters": None if (chosen := random.choice(FILTERS)) is None else parsed(chosen, ()),
        "ranker": random.choice(RANKERS),
    }


def is_in_order(hits: tuple[Hit, ...]) -> bool:
    ranks = [(-hit.score, hit.chunk.chunk_id) for hit in hits]
    return ranks == sorted(ranks)


@pytest.mark.parametrize("questions", [150, pytest.param(1_000, marks=NIGHTLY)])
def test_random_questions_have_the_same_hits_and_scores_over_either_store(stores: list[Server], questions: int) -> None:
    for server, at_once in zip(stores, (4, 9), strict=True):
        filled(server, at_once)
    assert len({tuple(segment.chunks for segment in manifest_of(server).segments) for server in stores}) == 2
    random, ties = Random(20), 0
    for number in range(questions):
        settings = settings_of(random)
        one, other = (found(server, **settings) for server in stores)
        shown = f"question {number}: {settings}"
        assert [hit.chunk.chunk_id for hit in one] == [hit.chunk.chunk_id for hit in other], shown
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], abs=1e-6), shown
        assert is_in_order(one), shown
        ties += len({hit.score for hit in one}) < len(one)
    assert ties > questions // 2, "too few questions have hits of one score"
