"""Limits of requests to memory: what would keep a processor busy is refused by its field, before any work.

Covers: dialects/llama_stack/memory, dialects/openai/vector_stores/searches, domain/memory/questions,
services/threads/insertion_slots
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.server.asgi_client import Answered, Raw, Served, served
from turnstone.services.threads.insertion_slots import SLOTS
from turnstone.services.threads.slots import QUEUE_BYTES

LONGEST = 32_768
BUSY_S = 5.0
NOTED = {"vector_db_id": "birds"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("limits")) as serving:
        for kind in ("vector", "keyword", "keyvalue", "graph"):
            params = {"memory_bank_type": kind} | ({"embedding_model": "offline"} if kind == "vector" else {})
            name = "birds" if kind == "vector" else kind
            made = sent(serving, "/v1/memory-banks", {"memory_bank_id": name, "params": params})
            assert made.status == 200, made.body
        yield serving


def sent(server: Served, path: str, body: Any) -> Answered:
    return server.client.send(Raw("POST", path.encode(), (json.dumps(body).encode(),)))


def question(length: int) -> str:
    """Return a text of that many characters, of different words."""
    return " ".join(f"heron{number}" for number in range(length // 6))[:length]


@pytest.mark.parametrize(
    ("path", "field", "more"),
    [
        ("/v1/vector-io/query", "query", NOTED),
        ("/v1/tool-runtime/rag-tool/query", "content", {"vector_db_ids": ["birds"]}),
        ("/v1/memory-banks/birds/query", "query", {}),
        ("/v1/memory-banks/keyword/query", "query", {}),
        ("/v1/memory-banks/keyvalue/query", "query", {}),
        ("/v1/memory-banks/graph/query", "query", {}),
        ("/v1/vector_stores/birds/search", "query", {}),
    ],
)
def test_a_question_beyond_the_limit_is_refused_by_its_field(
    server: Served, path: str, field: str, more: dict[str, Any]
) -> None:
    assert sent(server, path, {field: question(LONGEST), **more}).status == 200
    refused = sent(server, path, {field: question(LONGEST + 1), **more})
    assert refused.status == 400
    assert f"{field}: must have at most 32,768 characters, not 32,769" in refused.body.decode()


def test_several_questions_have_the_limit_together(server: Served) -> None:
    halves = [question(LONGEST // 2), question(LONGEST // 2)]
    assert sent(server, "/v1/vector_stores/birds/search", {"query": halves}).status == 200
    refused = sent(server, "/v1/vector_stores/birds/search", {"query": [*halves, "x"]})
    assert (refused.status, refused.json()["error"]["param"]) == (400, "query")


@pytest.mark.parametrize(
    "character",
    [
        "\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}",
        "\N{SQUARE ERA NAME HEISEI}",
        "a\N{COMBINING GRAVE ACCENT}",
        "é ",
    ],
)
def test_a_question_that_grows_when_it_is_normalized_does_not_keep_the_server_busy(
    server: Served, character: str
) -> None:
    begun = time.monotonic()
    body = {"query": character * (LONGEST // len(character))}
    answer = sent(server, "/v1/vector_stores/birds/search", body)
    assert answer.status == 200, answer.body
    assert time.monotonic() - begun < BUSY_S


def test_the_limit_is_documented(server: Served) -> None:
    shapes = server.client.get("/openapi.json").json()["components"]["schemas"]
    for shape, field in (("QueryChunks", "query"), ("QueryRag", "content"), ("QueryMemoryBank", "query")):
        assert "32,768 characters" in shapes[shape]["properties"][field]["description"]
    assert f'"maxLength": {LONGEST}' in json.dumps(shapes["SearchVectorStore"]["properties"]["query"])


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/v1/memory-banks/keyvalue/documents", {}),
        ("/memory/insert", {"bank_id": "keyvalue"}),
        ("/v1/tool-runtime/rag-tool/insert", {"vector_db_id": "birds"}),
    ],
)
def test_documents_beyond_the_limit_are_refused_before_the_first_is_inserted(
    server: Served, path: str, more: dict[str, Any]
) -> None:
    documents = [{"document_id": "same", "content": "A tern.", "metadata": {}}] * 1_001
    refused = sent(server, path, {"documents": documents, **more})
    assert refused.status == 400
    assert refused.json()["error"]["detail"]["errors"] == [
        {"loc": ["documents"], "msg": "List should have at most 1000 items, not 1001", "type": "too_long"}
    ]
    document = f"/v1/memory-banks/{more.get('vector_db_id', 'keyvalue')}/documents/same"
    assert server.client.send(Raw("GET", document.encode())).status == 404
    assert sent(server, path, {"documents": documents[1:], **more}).status == 200
    assert server.client.send(Raw("DELETE", document.encode())).status == 200


def test_an_insertion_without_a_slot_is_refused_at_once_where_many_wait(server: Served) -> None:
    slots = server.server.core.memory_services.insertion_slots
    document = {"document_id": "long", "content": "heron " * 20_000, "mime_type": "text/plain", "metadata": {}}
    left = threading.Event()

    def wait() -> None:
        with slots.taken("local", QUEUE_BYTES):
            left.wait(BUSY_S)

    with ExitStack() as stack:
        thread = threading.Thread(target=wait)
        stack.callback(thread.join)
        stack.callback(left.set)
        for _ in range(SLOTS):
            stack.enter_context(slots.taken("local", QUEUE_BYTES))
        thread.start()
        begun = time.monotonic()
        while not slots.waiting and time.monotonic() < begun + BUSY_S:
            time.sleep(0.001)
        for path, body in (
            ("/v1/memory-banks/keyword/documents", {"documents": [document]}),
            ("/v1/tool-runtime/rag-tool/insert", {"vector_db_id": "keyword", "documents": [document]}),
            ("/v1/vector-io/insert", {**NOTED, "chunks": [{"content": document["content"]}]}),
        ):
            refused = sent(server, path, body)
            assert (refused.status, refused.headers["retry-after"]) == (503, "20"), refused.body
            assert "large texts" in refused.body.decode()
        small = {"documents": [{**document, "content": "heron"}]}
        assert sent(server, "/v1/memory-banks/keyword/documents", small).status == 200
        assert time.monotonic() - begun < BUSY_S
    assert sent(server, "/v1/memory-banks/keyword/documents", {"documents": [document]}).status == 200
