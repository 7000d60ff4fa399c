"""Valid bodies of the routes of memory banks, each with its grade."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.server.body_shapes import (
    ENTRY_ID,
    ITEM,
    RIGHT,
    UNSURE,
    WRONG,
    Shape,
    either,
    identifier,
    many,
    mapping,
    nullable,
    number,
    one_of,
    record,
    tagged,
    text,
)

DIMENSIONS = 384


def _content(value: Any) -> int:
    """Grade a text: not empty, and without images."""
    grade = either(text, ITEM, many(ITEM))(value)
    items = value if isinstance(value, list) else [value]
    texts = [item if isinstance(item, str) else item.get("text") for item in items] if grade else []
    if not grade or not all(isinstance(each, str) for each in texts):
        return WRONG
    return grade if "".join(texts).strip() else WRONG


def _embedding(value: Any) -> int:
    """Grade a vector by the bounds of its numbers."""
    if not isinstance(value, list) or len(value) != DIMENSIONS:
        return WRONG
    numbers = [each for each in value if isinstance(each, int | float) and not isinstance(each, bool)]
    are_right = len(numbers) == DIMENSIONS and all(abs(each) <= 1e18 for each in numbers)
    return RIGHT if are_right and any(abs(each) >= 1e-18 for each in numbers) else WRONG


def _same_name(value: Any) -> int:
    return UNSURE if isinstance(value, str) else WRONG  # right if it is that of the database


def _registers(value: Any) -> int:
    grade = REGISTERED(value)
    if grade and isinstance(value.get("embedding_model"), str) and value["embedding_model"] != "offline":
        return min(grade, UNSURE)  # another model is a name for the offline one
    return grade


COUNT = number(whole_from=1, whole_to=1_000)
REGISTERED = record(
    {"vector_db_id": identifier, "embedding_model": text},
    {
        "embedding_dimension": nullable(number(whole_from=1, whole_to=8_192)),
        "provider_id": nullable(one_of("turnstone-memory", "faiss", "sqlite-vec")),
        "provider_vector_db_id": nullable(_same_name),
    },
)
CHUNK = record({"content": _content}, {"metadata": nullable(mapping), "embedding": nullable(_embedding)})
INSERTED: Shape = record({"vector_db_id": text, "chunks": many(CHUNK)}, {"ttl_seconds": nullable(lambda _: WRONG)})
RANKER = tagged(
    "type",
    {
        "rrf": record({}, {"impact_factor": nullable(number(above=0))}),
        "weighted": record({}, {"alpha": nullable(number())}),
    },
)


def _share(value: Any) -> int:
    grade = number()(value)
    return WRONG if isinstance(value, int | float) and not 0 <= value <= 1 else grade


def _ranker(value: Any) -> int:
    grade = RANKER(value)
    if not grade:
        return WRONG
    for name, most in (("impact_factor", 1e6), ("alpha", 1)):
        given = value.get(name) if name in RANKED.get(value.get("type"), ()) else None
        if isinstance(given, int | float) and not isinstance(given, bool) and not 0 <= given <= most:
            return WRONG
    return grade


RANKED = {"rrf": ("impact_factor",), "weighted": ("alpha",)}
PARAMS = record(
    {},
    {
        "max_chunks": nullable(COUNT),
        "score_threshold": nullable(_share),
        "mode": nullable(one_of("vector", "keyword", "hybrid")),
        "ranker": nullable(_ranker),
    },
)
QUERIED = record({"vector_db_id": text, "query": _content}, {"params": nullable(PARAMS)})

REGISTER = {"vector_db_id": ENTRY_ID, "embedding_model": "offline", "embedding_dimension": 8, "provider_id": "faiss"}
INSERT = {
    "vector_db_id": "@vector_db_id@",
    "chunks": [
        {"content": "a heron", "metadata": {"document_id": "d", "page": 1}},
        {"content": [{"type": "text", "text": "granite"}], "metadata": {}, "embedding": [0.5] * DIMENSIONS},
    ],
}
QUERY = {
    "vector_db_id": "@vector_db_id@",
    "query": {"type": "text", "text": "heron"},
    "params": {
        "max_chunks": 2,
        "score_threshold": 0.1,
        "mode": "hybrid",
        "ranker": {"type": "weighted", "alpha": 0.25},
    },
}
GRADES: Mapping[tuple[str, str], tuple[dict[str, Any], Shape]] = {
    ("POST", "/v1/vector-dbs"): (REGISTER, _registers),
    ("POST", "/v1/vector-io/insert"): (INSERT, INSERTED),
    ("POST", "/v1/vector-io/query"): (QUERY, QUERIED),
}
READ = (
    ("GET", "/v1/vector-dbs"),
    ("GET", "/v1/vector-dbs/{vector_db_id}"),
    ("DELETE", "/v1/vector-dbs/{vector_db_id}"),
)
