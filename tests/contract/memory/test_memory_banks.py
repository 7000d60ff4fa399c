"""Memory banks of the four kinds over HTTP, with documents, under the paths of each generation of clients.

Covers: functions/memory, dialects/llama_stack/memory, services/memory/recalling,
services/memory/documents/document_sources
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.web.web_server import WebAnswer, WebServer
from tests.support.documents.made import DOCX, PDF, docx_with, paragraph, pdf_with
from tests.support.server.asgi_client import Answered, Raw, Served, served

EDGES = [
    {"subject": "Tern", "relation": "eats", "object": "Shrimp"},
    {"subject": "Shrimp", "relation": "eats", "object": "Alga", "text": "Shrimps graze on algae."},
]
KINDS: dict[str, dict[str, Any]] = {
    "vector": {"memory_bank_type": "vector", "embedding_model": "offline", "chunk_size_in_tokens": 64},
    "keyword": {"memory_bank_type": "keyword"},
    "keyvalue": {"memory_bank_type": "keyvalue"},
    "graph": {"memory_bank_type": "graph"},
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as serving:
        yield serving


def registered(server: Served, kind: str = "keyword", bank: str = "birds", **more: Any) -> Answered:
    return server.client.post("/v1/memory-banks", {"memory_bank_id": bank, "params": KINDS[kind], **more})


def document(document_id: str, content: Any, mime_type: str | None = None, **metadata: Any) -> dict[str, Any]:
    return {"document_id": document_id, "content": content, "mime_type": mime_type, "metadata": metadata}


def inserted(server: Served, *documents: dict[str, Any], bank: str = "birds") -> Answered:
    return server.client.post(f"/v1/memory-banks/{bank}/documents", {"documents": documents})


def queried(server: Served, query: str = "x", bank: str = "birds", **params: Any) -> Answered:
    return server.client.post(f"/v1/memory-banks/{bank}/query", {"query": query, "params": params})


def texts(answer: Answered) -> list[str]:
    assert answer.status == 200, answer.body
    return [chunk["content"] for chunk in answer.json()["chunks"]]


def deleted(server: Served, path: str) -> Answered:
    return server.client.send(Raw("DELETE", path.encode()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_bank_of_each_kind_is_registered_shown_and_deleted(server: Served, kind: str) -> None:
    more = {"name": "Birds", "metadata": {"shore": True}, "expires_after_s": 3600}
    shown = registered(server, kind, **more).json()
    is_chunked = kind != "keyvalue"
    tokens = 64 if kind == "vector" else 512
    assert shown == {
        "identifier": "birds",
        "provider_resource_id": "birds",
        "provider_id": "turnstone-memory",
        "type": "memory_bank",
        "memory_bank_type": kind,
        "embedding_model": "offline" if kind == "vector" else None,
        "embedding_dimension": 384 if kind == "vector" else None,
        "chunk_size_in_tokens": tokens if is_chunked else None,
        "overlap_size_in_tokens": tokens // 4 if is_chunked else None,
        **more,
        "created_at": shown["created_at"],
    }
    assert registered(server, kind, **more).json() == shown
    assert server.client.get("/v1/memory-banks").json() == {"data": [shown]}
    assert server.client.get("/v1/memory-banks/birds").json() == shown
    assert server.client.get("/v1/vector-dbs/birds").status == (200 if kind == "vector" else 404)
    assert server.client.post("/v1/vector-io/query", {"vector_db_id": "birds", "query": "a"}).status == (
        200 if kind == "vector" else 404
    )
    other = "graph" if kind != "graph" else "keyword"
    assert (registered(server, other).status, registered(server, other).json()["code"]) == (409, "already_registered")
    assert deleted(server, "/v1/memory-banks/birds").json() is None
    for refused in (
        server.client.get("/v1/memory-banks/birds"),
        deleted(server, "/v1/memory-banks/birds"),
        inserted(server, document("a", "b")),
        queried(server),
        server.client.get("/v1/memory-banks/birds/documents"),
    ):
        assert (refused.status, refused.json()["code"]) == (404, "bank_not_found")


@pytest.mark.parametrize("kind", ["vector", "keyword"])
def test_documents_are_inserted_listed_found_and_deleted(server: Served, kind: str) -> None:
    registered(server, kind)
    items = [{"type": "text", "text": "# Terns"}, {"type": "text", "text": "Terns dive for fish."}]
    given = (document("a", items, "text/markdown", year=2024), document("notes/b.md", "Knots probe mud.", page=1))
    assert inserted(server, *given).json() is None
    page = server.client.get("/v1/memory-banks/birds/documents?limit=1").json()
    assert page == {
        "object": "list",
        "has_more": True,
        "data": [
            {
                "document_id": "a",
                "status": "completed",
                "mime_type": "text/markdown",
                "metadata": {"year": 2024},
                "chunks": 1,
                "size_bytes": 28,
                "created_at": page["data"][0]["created_at"],
                "last_error": None,
                "progress": None,
                "file_id": None,
            }
        ],
    }
    rest = server.client.get("/v1/memory-banks/birds/documents?after=a&order=asc&status=completed").json()
    assert [each["document_id"] for each in rest["data"]] == ["notes/b.md"]
    found = queried(server, "Which birds probe mud?", max_chunks=1).json()
    assert found["chunks"] == [
        {
            "content": "Knots probe mud.",
            "document_id": "notes/b.md",
            "token_count": 4,
            "metadata": {"document_id": "notes/b.md", "page": 1},
        }
    ]
    assert 0 < found["scores"][0] <= 1
    assert server.client.get("/v1/memory-banks/birds/documents/notes/b.md").json()["chunks"] == 1
    assert deleted(server, "/v1/memory-banks/birds/documents/notes/b.md").json() is None
    assert texts(queried(server, "mud", mode="keyword")) == []
    refused = server.client.get("/v1/memory-banks/birds/documents/notes/b.md")
    assert (refused.status, refused.json()["code"]) == (404, "document_not_found")


def test_documents_are_found_by_the_route_of_chunks_with_their_metadata(server: Served) -> None:
    registered(server, "vector")
    inserted(server, document("a", "Terns dive.", year=2024))
    found = server.client.post("/v1/vector-io/query", {"vector_db_id": "birds", "query": "tern"}).json()
    assert [chunk["metadata"] for chunk in found["chunks"]] == [{"document_id": "a", "year": 2024}]


def test_filters_compare_metadata(server: Served) -> None:
    registered(server)
    inserted(server, *(document(f"d{year}", f"tern of {year}", year=year) for year in range(2020, 2026)))
    old = {"type": "lt", "key": "year", "value": 2022}
    nested = {
        "type": "or",
        "filters": [old, {"type": "and", "filters": [{"type": "in", "key": "year", "value": [2024]}]}],
    }
    found = texts(queried(server, "tern", filters=nested, max_chunks=10))
    assert sorted(found) == ["tern of 2020", "tern of 2021", "tern of 2024"]
    wrong = queried(server, "tern", filters={"type": "near", "key": "year", "value": 1})
    assert wrong.json()["error"]["detail"]["errors"][0]["loc"] == ["params", "filters", "type"]


def test_values_and_edges_are_queried(server: Served) -> None:
    registered(server, "keyvalue")
    values = [document("colour", "grey"), document("size", '{"cm": 35}', "application/json")]
    assert inserted(server, *values).status == 200
    assert texts(queried(server, keys=["size", "legs", "colour"])) == ['{"cm": 35}', "grey"]
    assert texts(queried(server, "", keys=["colour"])) == ["grey"]
    assert texts(queried(server, "its colour")) == ["grey"]
    assert len(texts(queried(server, keys=["size", "colour"], max_chunks=1))) == 1
    registered(server, "graph", "food")
    assert inserted(server, document("web", json.dumps(EDGES), "application/json"), bank="food").status == 200
    assert texts(queried(server, "What do terns eat?", "food", entities=["tern"], depth=2)) == [
        "Tern eats Shrimp.",
        "Shrimps graze on algae.",
    ]
    assert texts(queried(server, "What does a tern eat?", "food", depth=1, max_tokens=4)) == ["Tern eats Shrimp."]
    refused = inserted(server, document("text", "Terns eat shrimps."), bank="food")
    assert refused.json()["error"]["detail"]["errors"][0]["loc"] == ["documents", 0, "content"]


@pytest.mark.parametrize(
    ("kind", "params", "field"),
    [
        ("vector", {"keys": ["a"]}, "params.keys"),
        ("keyword", {"depth": 1}, "params.depth"),
        ("keyword", {"mode": "vector"}, "mode"),
        ("keyvalue", {"mode": "keyword"}, "params.mode"),
        ("graph", {"ranker": {"type": "rrf"}}, "params.ranker"),
        ("graph", {"depth": 4}, "params.depth"),
        ("graph", {"entities": ["a"] * 101}, "params.entities"),
        ("keyword", {"max_tokens": 0}, "params.max_tokens"),
    ],
)
def test_a_parameter_that_a_kind_has_not_is_refused_by_name(
    server: Served, kind: str, params: dict[str, Any], field: str
) -> None:
    registered(server, kind)
    answer = queried(server, **params)
    assert answer.status == 400
    loc = ".".join(map(str, answer.json()["error"]["detail"]["errors"][0]["loc"]))
    assert loc.endswith(field) or loc.startswith(field)


@pytest.mark.parametrize("most", range(1, 30, 3))
def test_a_limit_of_tokens_is_met(server: Served, most: int) -> None:
    registered(server)
    inserted(server, *(document(f"d{number}", f"tern {number} " * 3) for number in range(5)))
    chunks = queried(server, "tern", max_tokens=most, max_chunks=5).json()["chunks"]
    assert sum(chunk["token_count"] for chunk in chunks) == min(most // 6, 5) * 6


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"params": {"memory_bank_type": "vector"}}, "params.embedding_model"),
        ({"params": {"memory_bank_type": "tree"}}, "params"),
        ({"params": {**KINDS["keyword"], "chunk_size_in_tokens": 8, "overlap_size_in_tokens": 8}}, "overlap"),
        ({"params": {**KINDS["keyword"], "chunk_size_in_tokens": 0}}, "chunk_size_in_tokens"),
        ({"provider_id": "chroma"}, "provider_id"),
        ({"provider_memory_bank_id": "other"}, "provider_memory_bank_id"),
        ({"expires_after_s": 1}, "expires_after_s"),
        ({"memory_bank_id": ""}, "memory_bank_id"),
    ],
)
def test_a_wrong_registration_is_refused_by_name(server: Served, changed: dict[str, Any], field: str) -> None:
    answer = registered(server, **{"provider_id": "meta-reference", **changed})
    assert answer.status == 400
    assert field in ".".join(map(str, answer.json()["error"]["detail"]["errors"][0]["loc"]))


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"ttl_seconds": 5}, "ttl_seconds"),
        ({"documents": [{"content": "a"}]}, "documents.0.document_id"),
        ({"documents": [document("", "a")]}, "documents.0.document_id"),
        ({"documents": [document("a", {"type": "image", "image": {"data": "AA"}})]}, "documents.0.content"),
        ({"documents": [document("a", "b"), document("c", "d", "application/zip")]}, "documents.1.mime_type"),
        ({"documents": [document("a", "b"), document("c", "no base64", "application/pdf")]}, "documents.1.content"),
        ({"documents": [document("a", {"uri": "ftp://a.example/b"})]}, "documents.0.content"),
        ({"documents": [document("a", {"uri": "https://127.0.0.1/b"})]}, "documents.0.content"),
        ({"documents": [document("a", {"uri": "data:text/plain;base64,%%%"})]}, "documents.0.content"),
        ({"documents": [document("a", {"uri": "data:application/pdf,abc"})]}, "documents.0.content"),
        ({"documents": [document("a", {"uri": "data:text/plain;charset=rot13,abc"})]}, "documents.0.content"),
        ({"documents": [document("a", {"uri": "data:text/plain,%ff%fe%fd"})]}, "documents.0.content"),
    ],
)
def test_a_document_that_cannot_be_kept_is_refused_by_name(server: Served, changed: dict[str, Any], field: str) -> None:
    registered(server)
    answer = server.client.post("/v1/memory-banks/birds/documents", {"documents": [document("ok", "b")], **changed})
    assert answer.status == 400, answer.body
    assert ".".join(map(str, answer.json()["error"]["detail"]["errors"][0]["loc"])) == field
    assert server.client.get("/v1/memory-banks/birds/documents").json()["data"] == []


def encoded(body: bytes) -> str:
    return b64encode(body).decode()


@pytest.mark.parametrize(
    ("content", "mime_type", "recorded"),
    [
        (encoded(pdf_with("Terns dive.")), PDF, PDF),
        (f"data:{PDF};base64,{encoded(pdf_with('Terns dive.'))}", PDF, PDF),
        ({"uri": f"data:{PDF};base64,{encoded(pdf_with('Terns dive.'))}"}, None, PDF),
        (encoded(docx_with(paragraph("Terns dive."))), DOCX, DOCX),
        ({"uri": f"data:;base64,{encoded(docx_with(paragraph('Terns dive.')))}"}, None, DOCX),
        ({"uri": "data:text/html,%3Cp%3ETerns <b>dive</b>."}, None, "text/html"),
        ({"uri": f"data:text/plain;base64,{encoded('Terns dive.'.encode('utf-16'))}"}, "text/plain", "text/plain"),
    ],
)
def test_the_text_of_a_document_is_found(server: Served, content: Any, mime_type: str | None, recorded: str) -> None:
    registered(server)
    for _ in range(2):
        assert inserted(server, document("a", content, mime_type)).status == 200
        assert texts(queried(server, "terns")) == ["Terns dive."]
    assert server.client.get("/v1/memory-banks/birds/documents/a").json()["mime_type"] == recorded


def test_chunks_of_a_page_begin_with_the_headings_above_them(server: Served) -> None:
    registered(server)
    page = "<h1>Shore</h1><p>Wide.<h2>Terns</h2><p>They dive."
    inserted(server, document("a", {"uri": f"data:text/html;base64,{encoded(page.encode())}"}))
    assert texts(queried(server, "dive", max_chunks=1)) == ["Shore\n## Terns\n\nThey dive."]


def test_a_document_that_cannot_be_read_is_refused_with_the_reason(server: Served) -> None:
    registered(server)
    refused = inserted(server, document("ok", "b"), document("a", encoded(pdf_with("a")[:99]), PDF))
    (problem,) = refused.json()["error"]["detail"]["errors"]
    assert (refused.status, problem["loc"], "damaged" in problem["msg"]) == (400, ["documents", 1, "content"], True)


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=101", "limit=x", "order=up", "status=done", "after=x", "limit=1&limit=2"]
)
def test_a_wrong_list_of_documents_is_refused(server: Served, query: str) -> None:
    registered(server)
    answer = server.client.get(f"/v1/memory-banks/birds/documents?{query}")
    assert answer.status == 400
    assert query.partition("=")[0] in answer.body.decode()


def test_documents_come_from_data_urls_and_addresses(tmp_path: Path) -> None:
    page = WebAnswer(200, b"Stints \xe4 run.", "text/html; charset=iso-8859-1")
    with WebServer(lambda _: page) as site, served(tmp_path, fetch_allow=f"127.0.0.1:{site.port}") as server:
        registered(server)
        encoded = b64encode("Terns \u2013 dive.".encode("utf-16")).decode()
        given = (
            document("a", {"uri": f"data:text/plain;base64,{encoded}"}),
            document("b", {"uri": "data:,Knots%20probe."}),
            document("c", {"uri": site.url}),
        )
        assert inserted(server, *given).status == 200
        assert texts(queried(server, "dive", mode="keyword")) == ["Terns \u2013 dive."]
        assert texts(queried(server, "probe", mode="keyword")) == ["Knots probe."]
        assert texts(queried(server, "stints", mode="keyword")) == ["Stints \u00e4 run."]
        listed = server.client.get("/v1/memory-banks/birds/documents").json()["data"]
        assert [each["mime_type"] for each in listed] == ["text/plain", "text/plain", "text/html"]


@pytest.mark.parametrize("prefix", ["", "/alpha"])
def test_the_paths_before_v1_are_the_same_banks(server: Served, prefix: str) -> None:
    body = {"memory_bank_id": "birds", "params": KINDS["keyword"]}
    shown = server.client.post(f"{prefix}/memory-banks/register", body).json()
    assert server.client.get(f"{prefix}/memory-banks/list").json() == [shown]
    assert server.client.get(f"{prefix}/memory-banks/get?memory_bank_id=birds").json() == shown
    assert server.client.get("/v1/memory-banks").json() == {"data": [shown]}
    for number, path in enumerate((f"{prefix}/memory/insert", "/v1/memory/insert")):
        given = [document(f"d{number}", f"tern {number}")]
        assert server.client.post(path, {"bank_id": "birds", "documents": given}).json() is None
    for path in (f"{prefix}/memory/query", "/v1/memory/query"):
        answer = server.client.post(path, {"bank_id": "birds", "query": "tern", "params": {"max_chunks": 1}})
        assert len(texts(answer)) == 1
    unregistered = server.client.post(f"{prefix}/memory-banks/unregister", {"memory_bank_id": "birds"})
    assert unregistered.json() is None
    assert server.client.get(f"{prefix}/memory-banks/get?memory_bank_id=birds").status == 404
    assert server.client.get(f"{prefix}/memory-banks/get").status == 400


def test_a_repeated_insertion_with_its_key_is_made_once(server: Served) -> None:
    registered(server)
    for text, status in (("tern", 200), ("tern", 200), ("knot", 409)):
        body = json.dumps({"documents": [document("a", text)]}).encode()
        headers = ((b"content-type", b"application/json"), (b"idempotency-key", b"k"))
        raw = Raw("POST", b"/v1/memory-banks/birds/documents", (body,), headers)
        assert server.client.send(raw).status == status
    assert texts(queried(server, "tern")) == ["tern"]
