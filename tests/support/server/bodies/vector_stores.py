"""Valid bodies of the routes of vector stores, each with its grade."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.server.body_shapes import (
    RIGHT,
    UNSURE,
    WRONG,
    Shape,
    either,
    exact,
    many,
    never,
    nullable,
    number,
    one_of,
    tagged,
    text,
    within,
)
from tests.support.server.memory_bodies import DIMENSIONS, FILTER

VECTOR_STORES = "/v1/openai/v1/vector_stores"
STORE = f"{VECTOR_STORES}/{{vector_store_id}}"
STORE_FILES, FILE_BATCHES = f"{STORE}/files", f"{STORE}/file_batches"
STORE_FILE, FILE_BATCH = f"{STORE_FILES}/{{file_id}}", f"{FILE_BATCHES}/{{batch_id}}"
ADDING_FILES = (VECTOR_STORES, STORE_FILES, FILE_BATCHES)
STATUSES = ("in_progress", "completed", "failed", "cancelled")


def _short(most: int) -> Shape:
    return lambda value: RIGHT if isinstance(value, str) and len(value) <= most else WRONG


def _pairs(shape: Shape) -> Shape:
    def grade(value: Any) -> int:
        if not isinstance(value, dict) or len(value) > 16 or not all(0 < len(name) <= 64 for name in value):
            return WRONG
        return min([RIGHT, *map(shape, value.values())])

    return grade


def _whole(least: int, most: int) -> Shape:
    shape = number(whole_from=least, whole_to=most)
    return lambda value: WRONG if isinstance(value, str | bool) else shape(value)


def _scalar(value: Any) -> int:
    return RIGHT if isinstance(value, bool | int | float) else _short(512)(value)


def _lengths(value: Any) -> int:
    grade = LENGTHS(value)
    return grade if grade and value["chunk_overlap_tokens"] <= value["max_chunk_size_tokens"] / 2 else WRONG


def _model(value: Any) -> int:
    if value == "offline":
        return RIGHT
    return UNSURE if isinstance(value, str) and value else WRONG  # another model is a name for the offline one


def _searched(value: Any) -> int:
    return RIGHT if isinstance(value, str) and value.strip() else WRONG


def _not_rewritten(value: Any) -> int:
    if (value in (None, False) and not isinstance(value, int | float)) or value is False:
        return RIGHT
    return UNSURE if value in (0, "false") else WRONG


def _created(value: Any) -> int:
    grade = CREATED(value)
    is_default = grade and value.get("embedding_model") is None
    return min(grade, UNSURE) if is_default and value.get("embedding_dimension") is not None else grade


def _batch(value: Any) -> int:
    """Grade a batch: ids, or files with settings of their own."""
    grade = BATCH(value)
    if not grade:
        return WRONG
    given = {name for name, each in value.items() if each is not None}
    if len(given & {"file_ids", "files"}) != 1:
        return WRONG
    return WRONG if "files" in given and given != {"files"} else grade


LENGTHS = exact({"max_chunk_size_tokens": _whole(100, 4_096), "chunk_overlap_tokens": _whole(0, 2_048)})
CHUNKING = tagged(
    "type",
    {"auto": exact({"type": text}), "static": exact({"type": text, "static": _lengths})},
)
EXPIRY = exact({"anchor": one_of("last_active_at"), "days": _whole(1, 365)})
ATTRIBUTES, METADATA = _pairs(_scalar), _pairs(_short(512))
CREATED = exact(
    {},
    {
        "name": _short(256),
        "description": _short(512),
        "file_ids": many(text),
        "chunking_strategy": CHUNKING,
        "expires_after": EXPIRY,
        "metadata": METADATA,
        "embedding_model": _model,
        "embedding_dimension": lambda value: RIGHT if value == DIMENSIONS else WRONG,
        "provider_id": one_of("turnstone-memory", "faiss", "sqlite-vec"),
        "provider_vector_db_id": never,
    },
)
UPDATED = exact({}, {"name": _short(256), "expires_after": EXPIRY, "metadata": METADATA})
ADDED = exact({"file_id": text}, {"attributes": ATTRIBUTES, "chunking_strategy": CHUNKING})
BATCH = exact(
    {},
    {
        "file_ids": many(text, least=1),
        "files": many(ADDED, least=1),
        "attributes": ATTRIBUTES,
        "chunking_strategy": CHUNKING,
    },
)
RANKING = exact(
    {},
    {"ranker": one_of("auto", "default-2024-11-15", "none", "weighted", "rrf"), "score_threshold": within(0, 1)},
)
SEARCHED = exact(
    {"query": either(_searched, many(_searched, least=1))},
    {
        "filters": lambda value: RIGHT if repr(value) == repr(FILTER) else UNSURE,
        "max_num_results": _whole(1, 50),
        "ranking_options": RANKING,
        "rewrite_query": _not_rewritten,
        "search_mode": one_of("vector", "keyword", "hybrid"),
    },
)
STATIC = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 50}}
CREATE = {
    "name": "birds",
    "description": "of the north",
    "file_ids": ["@file_id@"],
    "chunking_strategy": STATIC,
    "expires_after": {"anchor": "last_active_at", "days": 7},
    "metadata": {"region": "north"},
    "embedding_model": "offline",
    "embedding_dimension": DIMENSIONS,
    "provider_id": "turnstone-memory",
}
UPDATE = {
    "name": "waders",
    "expires_after": {"anchor": "last_active_at", "days": 1},
    "metadata": {"region": "south"},
}
ADD = {"file_id": "@file_id@", "attributes": {"year": 2026, "kind": "heron"}, "chunking_strategy": {"type": "auto"}}
OF_SAME = {"file_ids": ["@file_id@"], "attributes": {"year": 2026}, "chunking_strategy": STATIC}
OF_SEVERAL = {"files": [ADD]}
SEARCH = {
    "query": ["heron", "colonies"],
    "filters": FILTER,
    "max_num_results": 5,
    "ranking_options": {"ranker": "rrf", "score_threshold": 0.1},
    "rewrite_query": False,
    "search_mode": "keyword",
}
# valid bodies of each route, their grade, and the id in them
GRADES: Mapping[tuple[str, str], tuple[Sequence[Any], Shape, tuple[str, ...]]] = {
    ("POST", VECTOR_STORES): ((CREATE,), _created, ("file_id",)),
    ("POST", STORE): ((UPDATE,), UPDATED, ()),
    ("POST", f"{STORE}/search"): ((SEARCH,), SEARCHED, ()),
    ("POST", STORE_FILES): ((ADD,), ADDED, ("file_id",)),
    ("POST", STORE_FILE): (
        ({"attributes": {"year": 2025, "is_seen": True}},),
        exact({"attributes": nullable(ATTRIBUTES)}),
        (),
    ),
    ("POST", FILE_BATCHES): ((OF_SAME, OF_SEVERAL), _batch, ("file_id",)),
}
READ = (
    ("GET", STORE),
    ("DELETE", STORE),
    ("GET", STORE_FILE),
    ("DELETE", STORE_FILE),
    ("GET", f"{STORE_FILE}/content"),
    ("GET", FILE_BATCH),
    ("POST", f"{FILE_BATCH}/cancel"),
)
LISTS = (("GET", VECTOR_STORES), ("GET", STORE_FILES), ("GET", f"{FILE_BATCH}/files"))


def list_grade(query: Mapping[str, list[str]]) -> int:
    """Grade the query of a list: one value each; a position that no entry has is wrong."""
    names = [name for name in query if name in ("after", "before", "limit", "order", "filter")]
    if any(len(query[name]) > 1 for name in names):
        return WRONG
    given = {name: query[name][0] for name in names if query[name][0]}
    limit = given.get("limit", "1")
    is_right = (
        not given.keys() & {"after", "before"}
        and limit.isascii()
        and limit.isdecimal()
        and 1 <= int(limit) <= 100
        and given.get("order", "asc") in ("asc", "desc")
        and given.get("filter", "failed") in STATUSES
    )
    return RIGHT if is_right else WRONG


def files_in(body: Any) -> set[str]:
    """Return the ids of files in a body of the right form."""
    of_files = [each["file_id"] for each in body.get("files") or ()]
    alone = [body["file_id"]] if "file_id" in body else []
    return {*alone, *of_files, *(body.get("file_ids") or ())}
