"""Valid bodies of the routes of memory banks, each with its grade."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.server.body_shapes import (
    ITEM,
    RIGHT,
    UNSURE,
    WRONG,
    Shape,
    bank_id,
    either,
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
VECTOR_DB_ID = "registered-database"


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
    {"vector_db_id": bank_id, "embedding_model": text},
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

REGISTER = {
    "vector_db_id": VECTOR_DB_ID,
    "embedding_model": "offline",
    "embedding_dimension": 8,
    "provider_id": "faiss",
}
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


def _short(most: int, least: int = 0) -> Shape:
    return lambda value: RIGHT if isinstance(value, str) and least <= len(value) <= most else WRONG


def _chunked(value: Any) -> int:
    """Grade the lengths of chunks together."""
    lengths = [value.get(name) for name in ("chunk_size_in_tokens", "overlap_size_in_tokens")]
    if lengths[1] is None:
        return RIGHT
    tokens, overlap = (512 if lengths[0] is None else lengths[0]), lengths[1]
    if any(isinstance(each, bool) or not isinstance(each, int) for each in (tokens, overlap)):
        return UNSURE
    return RIGHT if overlap < tokens else WRONG


def _registers_bank(value: Any) -> int:
    grade = BANK(value)
    if not grade:
        return WRONG
    params = value["params"]
    if params.get("memory_bank_type") == "vector" and params.get("embedding_model") != "offline":
        grade = min(grade, UNSURE)  # another model is a name for the offline one
    return min(grade, _chunked(params)) if params.get("memory_bank_type") != "keyvalue" else grade


def _document_content(value: Any) -> int:
    """Grade a text, which may be empty, without images; an address is fetched."""
    if isinstance(value, dict) and isinstance(value.get("uri"), str):
        return UNSURE
    grade = either(text, ITEM, many(ITEM))(value)
    items = value if isinstance(value, list) else [value]
    texts = [item if isinstance(item, str) else item.get("text") for item in items] if grade else []
    return grade if grade and all(isinstance(each, str) for each in texts) else WRONG


def _document(value: Any) -> int:
    grade = DOCUMENT(value)
    mime_type = value.get("mime_type") if grade else None
    return min(grade, RIGHT if mime_type in (None, "", "text/plain", "text/markdown") else UNSURE)


def documents_grade(query: Mapping[str, list[str]]) -> int:
    """Return the grade of the query of a list of documents: one value each, an existing document to continue after."""
    names = [name for name in query if name in ("after", "limit", "order", "status")]
    if any(len(query[name]) > 1 for name in names):
        return WRONG
    given = {name: query[name][0] for name in names}
    limit = given.get("limit") or "1"
    is_right = (
        given.get("after", "") in ("", DOCUMENT_ID)
        and limit.isascii()
        and limit.isdecimal()
        and 1 <= int(limit) <= 100
        and given.get("order", "") in ("", "asc", "desc")
        and given.get("status", "") in ("", "completed")
    )
    return RIGHT if is_right else WRONG


BANK_ID, DOCUMENT_ID = "some-bank", "some-document"
LENGTHS = {
    "chunk_size_in_tokens": nullable(number(whole_from=1, whole_to=8_192)),
    "overlap_size_in_tokens": nullable(number(whole_from=0, whole_to=8_191)),
}
BANK = record(
    {
        "memory_bank_id": bank_id,
        "params": tagged(
            "memory_bank_type",
            {
                "vector": record({"embedding_model": text}, LENGTHS),
                "keyword": record({}, LENGTHS),
                "keyvalue": record({}),
                "graph": record({}, LENGTHS),
            },
        ),
    },
    {
        "provider_id": nullable(one_of("turnstone-memory", "meta-reference", "faiss", "sqlite-vec")),
        "provider_memory_bank_id": nullable(_same_name),
        "name": nullable(_short(256)),
        "metadata": nullable(mapping),
        "expires_after_s": nullable(number(whole_from=60, whole_to=315_360_000)),
    },
)
DOCUMENT = record(
    {"document_id": _short(1_024, 1), "content": _document_content},
    {"mime_type": nullable(_short(255)), "metadata": nullable(mapping)},
)
DOCUMENTS: Shape = record({"documents": many(_document)}, {"ttl_seconds": nullable(lambda _: WRONG)})
FILTER = {"type": "or", "filters": [{"type": "gte", "key": "page", "value": 1}]}
OF_KEYWORDS = record(
    {},
    {
        "max_chunks": nullable(COUNT),
        "score_threshold": nullable(_share),
        "mode": nullable(one_of("keyword", "hybrid")),
        "ranker": nullable(_ranker),
        "max_tokens": nullable(number(whole_from=1, whole_to=1_000_000)),
        "filters": lambda value: RIGHT if repr(value) in ("None", repr(FILTER)) else UNSURE,
        **dict.fromkeys(("keys", "entities", "depth"), nullable(lambda _: WRONG)),
    },
)
OF_BANK = record({"query": _content}, {"params": nullable(OF_KEYWORDS)})
RAG_DOCUMENTS: Shape = record(
    {"vector_db_id": text, "documents": many(_document)},
    {"chunk_size_in_tokens": nullable(number(whole_from=1, whole_to=8_192))},
)
SETTINGS_OF_RAG = record(
    {},
    {
        "query_generator_config": nullable(
            tagged(
                "type",
                {
                    "default": record({}, {"separator": nullable(text)}),
                    "llm": record({"model": text, "template": lambda value: min(text(value), UNSURE)}, {}),
                },
            )
        ),
        "max_tokens_in_context": nullable(number(whole_from=1, whole_to=1_000_000)),
        "max_chunks": nullable(COUNT),
        "chunk_template": nullable(
            lambda value: RIGHT if isinstance(value, str) and "{chunk.content}" in value else WRONG
        ),
        "mode": nullable(one_of("vector", "keyword", "hybrid")),
        "ranker": nullable(_ranker),
    },
)
RAG_QUERY: Shape = record(
    {"content": _content, "vector_db_ids": many(text)}, {"query_config": nullable(SETTINGS_OF_RAG)}
)
REGISTER_BANK = {
    "memory_bank_id": BANK_ID,
    "params": {"memory_bank_type": "keyword", "chunk_size_in_tokens": 64, "overlap_size_in_tokens": 8},
    "provider_id": "meta-reference",
    "name": "Some bank",
    "metadata": {"a": [1]},
    "expires_after_s": 3_600,
}
INSERTED_DOCUMENTS = {
    "documents": [
        {"document_id": DOCUMENT_ID, "content": "a heron", "mime_type": "text/plain", "metadata": {"page": 1}},
        {"document_id": "d", "content": [{"type": "text", "text": "granite"}], "metadata": {}},
    ]
}
BANK_QUERY = {
    "query": [{"type": "text", "text": "heron"}],
    "params": {
        "max_chunks": 2,
        "score_threshold": 0.1,
        "mode": "keyword",
        "ranker": {"type": "rrf", "impact_factor": 60},
        "max_tokens": 100,
        "filters": FILTER,
    },
}
QUERY_RAG = {
    "content": {"type": "text", "text": "heron"},
    "vector_db_ids": [VECTOR_DB_ID],
    "query_config": {
        "query_generator_config": {"type": "default", "separator": " "},
        "max_tokens_in_context": 400,
        "max_chunks": 3,
        "chunk_template": "{index}: {chunk.content} {metadata}",
        "mode": "hybrid",
        "ranker": {"type": "rrf", "impact_factor": 60},
    },
}
RAG_QUERY_PATH = "/v1/tool-runtime/rag-tool/query"  # the ids in its body are a list


def _in_bank(shape: Shape) -> Shape:
    return lambda value: min(record({"bank_id": text})(value), shape(value))


GRADES: Mapping[tuple[str, str], tuple[dict[str, Any], Shape]] = {
    ("POST", "/v1/vector-dbs"): (REGISTER, _registers),
    ("POST", "/v1/vector-io/insert"): (INSERT, INSERTED),
    ("POST", "/v1/vector-io/query"): (QUERY, QUERIED),
    ("POST", "/v1/memory-banks"): (REGISTER_BANK, _registers_bank),
    ("POST", "/v1/memory-banks/{memory_bank_id}/documents"): (INSERTED_DOCUMENTS, DOCUMENTS),
    ("POST", "/v1/memory-banks/{memory_bank_id}/query"): (BANK_QUERY, OF_BANK),
    ("POST", "/v1/tool-runtime/rag-tool/insert"): (
        {**INSERTED_DOCUMENTS, "vector_db_id": "@vector_db_id@", "chunk_size_in_tokens": 64},
        RAG_DOCUMENTS,
    ),
    ("POST", RAG_QUERY_PATH): (QUERY_RAG, RAG_QUERY),
    ("POST", "/memory-banks/register"): (REGISTER_BANK, _registers_bank),
    ("POST", "/memory-banks/unregister"): ({"memory_bank_id": "@memory_bank_id@"}, record({"memory_bank_id": text})),
    ("POST", "/memory/insert"): ({**INSERTED_DOCUMENTS, "bank_id": "@bank_id@"}, _in_bank(DOCUMENTS)),
    ("POST", "/memory/query"): ({**BANK_QUERY, "bank_id": "@bank_id@"}, _in_bank(OF_BANK)),
}
NAMED: Mapping[str, str] = {
    "/v1/vector-io/insert": "vector_db_id",
    "/v1/vector-io/query": "vector_db_id",
    "/v1/tool-runtime/rag-tool/insert": "vector_db_id",
    "/memory-banks/unregister": "memory_bank_id",
    "/memory/insert": "bank_id",
    "/memory/query": "bank_id",
}
READ = (
    ("GET", "/v1/vector-dbs"),
    ("GET", "/v1/vector-dbs/{vector_db_id}"),
    ("DELETE", "/v1/vector-dbs/{vector_db_id}"),
    ("GET", "/v1/memory-banks"),
    ("GET", "/v1/memory-banks/{memory_bank_id}"),
    ("DELETE", "/v1/memory-banks/{memory_bank_id}"),
    ("GET", "/v1/memory-banks/{memory_bank_id}/documents/{document_id}"),
    ("DELETE", "/v1/memory-banks/{memory_bank_id}/documents/{document_id}"),
    ("GET", "/memory-banks/list"),
)
