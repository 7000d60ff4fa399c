"""Ids that clients choose: refused with a reason, or usable by every route that names them.

Covers: dialects/llama_stack/memory/identifiers, functions/memory, functions/vector_stores
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.server.asgi_client import Answered, Raw, Served, served

REFUSED_BANKS = ["a/b", "/a", "a/", "a?b", "a#b", "a%41", "a\\b", ".", "..", " ", "a b", "a\n"]
BANKS = ["a.b", "...", "a:b::c", "a;b=c&d+e", "a@b,c$d!", "høns-鳥", "(a)[b]{c}|^`<>\"'*~"]
REFUSED_DOCUMENTS = [".", "..", "a/../b", "./a", "a/.", "a\n", "a\nb", "\0", "a\x7f"]
DOCUMENTS = [
    "https://a.example/b//c?d=e#f",
    "/a",
    "a/",
    "docs/a b.md",
    "a%2Fb",
    "...",
    "a\\b",
    "documents",
    "query",
    "鳥",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("ids")) as serving:
        yield serving


def sent(server: Served, method: str, path: str, body: Any = None) -> Answered:
    return server.client.send(Raw(method, path.encode(), () if body is None else (json.dumps(body).encode(),)))


def of_bank(name: str) -> dict[str, Any]:
    return {"memory_bank_id": name, "params": {"memory_bank_type": "vector", "embedding_model": "offline"}}


@pytest.mark.parametrize("name", REFUSED_BANKS)
def test_a_bank_that_a_path_could_not_name_is_refused_with_a_reason(server: Served, name: str) -> None:
    for path, body in (
        ("/v1/vector-dbs", {"vector_db_id": name, "embedding_model": "offline"}),
        ("/v1/memory-banks", of_bank(name)),
        ("/memory-banks/register", of_bank(name)),
    ):
        refused = sent(server, "POST", path, body)
        assert (refused.status, refused.json()["error"]["detail"]["errors"][0]["loc"][0]) == (400, next(iter(body)))
        assert "must not" in refused.refusal()


@pytest.mark.parametrize("name", BANKS)
def test_every_route_finds_a_bank_of_any_other_name(server: Served, name: str) -> None:
    assert sent(server, "POST", "/v1/memory-banks", of_bank(name)).status == 200
    document = {"document_id": "terns", "content": "Terns dive.", "metadata": {}}
    bank, store = f"/v1/memory-banks/{quote(name, safe='')}", f"/v1/vector_stores/{quote(name, safe='')}"
    answers = {
        "insert": sent(server, "POST", f"{bank}/documents", {"documents": [document]}),
        "query": sent(server, "POST", f"{bank}/query", {"query": "terns"}),
        "documents": sent(server, "GET", f"{bank}/documents"),
        "document": sent(server, "GET", f"{bank}/documents/terns"),
        "bank": sent(server, "GET", bank),
        "database": sent(server, "GET", f"/v1/vector-dbs/{quote(name, safe='')}"),
        "store": sent(server, "GET", store),
        "store files": sent(server, "GET", f"{store}/files"),
        "store search": sent(server, "POST", f"{store}/search", {"query": "terns"}),
        "older": sent(server, "GET", f"/memory-banks/get?memory_bank_id={quote(name, safe='')}"),
    }
    assert {of: answer.status for of, answer in answers.items() if answer.status != 200} == {}
    assert "Terns dive." in answers["store search"].body.decode()
    assert sent(server, "DELETE", bank).status == 200
    assert sent(server, "GET", bank).status == 404


@pytest.mark.parametrize("kind", ["keyword", "keyvalue"])
def test_every_route_finds_a_document_of_any_accepted_id(server: Served, kind: str) -> None:
    body = {"memory_bank_id": kind, "params": {"memory_bank_type": kind}}
    assert sent(server, "POST", "/v1/memory-banks", body).status == 200
    path = f"/v1/memory-banks/{kind}/documents"
    for document_id in DOCUMENTS:
        given = {"documents": [{"document_id": document_id, "content": "Terns dive.", "metadata": {}}]}
        assert sent(server, "POST", path, given).status == 200, document_id
        one = f"{path}/{quote(document_id, safe='')}"
        assert sent(server, "GET", one).json()["document_id"] == document_id
        assert sent(server, "DELETE", one).status == 200, document_id
        assert sent(server, "GET", one).status == 404
    assert sent(server, "GET", path).json()["data"] == []


@pytest.mark.parametrize("document_id", REFUSED_DOCUMENTS)
def test_a_document_that_a_path_would_lose_is_refused_with_a_reason(server: Served, document_id: str) -> None:
    sent(server, "POST", "/v1/memory-banks", {"memory_bank_id": "shore", "params": {"memory_bank_type": "keyword"}})
    document = {"document_id": document_id, "content": "Terns dive.", "metadata": {}}
    for path, more in (
        ("/v1/memory-banks/shore/documents", {}),
        ("/memory/insert", {"bank_id": "shore"}),
        ("/v1/tool-runtime/rag-tool/insert", {"vector_db_id": "shore"}),
    ):
        refused = sent(server, "POST", path, {"documents": [document], **more})
        assert refused.status == 400
        assert refused.json()["error"]["detail"]["errors"][0]["loc"] == ["documents", 0, "document_id"]
    assert sent(server, "GET", "/v1/memory-banks/shore/documents").json()["data"] == []
