"""Vector databases over HTTP: registered, filled, searched and deleted.

Covers: functions/memory, dialects/llama_stack/memory, services/memory
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.server.asgi_client import Answered, Raw, Served, served

FACTS = ("The heron waits in shallow water.", "Granite is an igneous rock.", "Herons nest in colonies near water.")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as serving:
        yield serving


def registered(server: Served, name: str = "birds", **more: Any) -> Answered:
    return server.client.post("/v1/vector-dbs", {"vector_db_id": name, "embedding_model": "offline", **more})


def inserted(server: Served, *chunks: str | dict[str, Any], bank: str = "birds") -> Answered:
    given = [{"content": each, "metadata": {}} if isinstance(each, str) else each for each in chunks]
    return server.client.post("/v1/vector-io/insert", {"vector_db_id": bank, "chunks": given})


def found(server: Served, query: str, bank: str = "birds", **params: Any) -> list[str]:
    answer = server.client.post("/v1/vector-io/query", {"vector_db_id": bank, "query": query, "params": params})
    assert answer.status == 200, answer
    body = answer.json()
    scores = body["scores"]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    assert len(scores) == len(body["chunks"])
    return [chunk["content"] for chunk in body["chunks"]]


def deleted(server: Served, name: str = "birds") -> Answered:
    return server.client.send(Raw("DELETE", f"/v1/vector-dbs/{name}".encode()))


def test_a_database_is_registered_filled_searched_and_deleted(server: Served) -> None:
    answer = registered(server, embedding_dimension=384, provider_id="faiss")
    dimension = answer.json()["embedding_dimension"]
    shown = {
        "identifier": "birds",
        "provider_resource_id": "birds",
        "provider_id": "turnstone-memory",
        "type": "vector_db",
        "embedding_model": "offline",
        "embedding_dimension": dimension,
    }
    assert answer.json() == shown
    assert dimension > 1
    assert registered(server).json() == shown
    assert server.client.get("/v1/vector-dbs/birds").json() == shown
    assert server.client.get("/v1/vector-dbs").json() == {"data": [shown]}
    assert inserted(server, *FACTS).json() is None
    assert found(server, "In which colonies do herons nest?", mode="keyword", max_chunks=2) == [FACTS[2], FACTS[0]]
    assert deleted(server).json() is None
    assert server.client.get("/v1/vector-dbs").json() == {"data": []}
    for refused in (deleted(server), server.client.get("/v1/vector-dbs/birds"), inserted(server, "a")):
        assert (refused.status, refused.json()["code"]) == (404, "bank_not_found")


def test_a_database_made_again_under_its_name_is_empty(server: Served) -> None:
    registered(server)
    inserted(server, *FACTS)
    deleted(server)
    registered(server)
    assert found(server, "heron") == []
    inserted(server, "a heron again")
    assert found(server, "heron") == ["a heron again"]


@pytest.mark.parametrize("mode", ["vector", "keyword", "hybrid"])
@pytest.mark.parametrize("ranker", [None, {"type": "rrf", "impact_factor": 10}, {"type": "weighted", "alpha": 0.9}])
def test_every_mode_finds_with_every_ranker(server: Served, mode: str, ranker: Any) -> None:
    registered(server)
    inserted(server, *FACTS)
    assert found(server, "igneous rock", mode=mode, ranker=ranker, max_chunks=1) == [FACTS[1]]


def test_hits_below_the_threshold_are_left_out(server: Served) -> None:
    registered(server)
    inserted(server, *FACTS)
    assert found(server, "igneous rock", mode="keyword", score_threshold=0.9) == [FACTS[1]]
    assert len(found(server, "igneous rock in water", mode="keyword", score_threshold=0)) == 3


def test_a_filter_omits_what_does_not_meet_it(server: Served) -> None:
    registered(server)
    heron, _, herons = FACTS
    inserted(server, {"content": heron, "metadata": {"year": 2024}}, {"content": herons, "metadata": {"year": 2026}})
    assert found(server, "heron water", filters={"type": "gte", "key": "year", "value": 2025}) == [herons]
    assert len(found(server, "heron water", max_tokens=10)) == 1
    params = {"filters": {"type": "like", "key": "year", "value": 2025}}
    answer = server.client.post("/v1/vector-io/query", {"vector_db_id": "birds", "query": "heron", "params": params})
    assert answer.status == 400
    assert "params.filters.type: must be one of eq" in answer.refusal()


def test_a_chunk_replaces_the_one_of_its_text_and_document(server: Served) -> None:
    registered(server)
    for page in (1, 2):
        chunk = {"content": FACTS[0], "metadata": {"document_id": "d", "page": page}}
        assert inserted(server, chunk, chunk, {**chunk, "metadata": {"document_id": "e"}}).status == 200
    body = {"vector_db_id": "birds", "query": "heron"}
    chunks = server.client.post("/v1/vector-io/query", body).json()["chunks"]
    assert sorted(chunks, key=str) == [
        {"content": FACTS[0], "metadata": {"document_id": "d", "page": 2}, "embedding": None},
        {"content": FACTS[0], "metadata": {"document_id": "e"}, "embedding": None},
    ]


def test_vectors_of_the_client_are_searched(server: Served) -> None:
    dimension = registered(server).json()["embedding_dimension"]
    question = server.client.post("/v1/inference/embeddings", {"model_id": "offline", "contents": ["granite"]})
    near = question.json()["embeddings"][0]
    chunks = [
        {"content": "near", "metadata": {}, "embedding": near},
        {"content": "far", "metadata": {}, "embedding": [-number for number in near]},
    ]
    assert len(near) == dimension
    assert inserted(server, *chunks).status == 200
    assert found(server, "granite", mode="vector") == ["near"]


@pytest.mark.parametrize(
    ("vector", "problem"),
    [
        (lambda dimension: [1.0] * (dimension - 1), "must have"),
        (lambda dimension: [0.0] * dimension, "must not be zero"),
        (lambda dimension: [1e300] * dimension, "must be of numbers between"),
        (lambda dimension: ["1.0"] * dimension, ""),
        (lambda dimension: [True] * dimension, ""),
    ],
)
def test_an_unusable_vector_is_refused_by_its_chunk(server: Served, vector: Any, problem: str) -> None:
    dimension = registered(server).json()["embedding_dimension"]
    bad = {"content": "bad", "metadata": {}, "embedding": vector(dimension)}
    answer = inserted(server, "good", bad)
    assert answer.status == 400
    assert problem in answer.body.decode()
    (wrong,) = answer.json()["error"]["detail"]["errors"]
    assert wrong["loc"][:3] == ["chunks", 1, "embedding"]
    assert found(server, "good") == []


@pytest.mark.parametrize(("word", "shown"), [("NaN", "JSON"), ("-Infinity", "JSON"), ("1e999", "finite")])
def test_a_vector_that_is_not_finite_is_refused(server: Served, word: str, shown: str) -> None:
    vector = ",".join([word] * registered(server).json()["embedding_dimension"])
    chunk = f'{{"content": "bad", "metadata": {{}}, "embedding": [{vector}]}}'
    body = f'{{"vector_db_id": "birds", "chunks": [{chunk}]}}'.encode()
    answer = server.client.send(
        Raw("POST", b"/v1/vector-io/insert", (body,), ((b"content-type", b"application/json"),))
    )
    assert answer.status == 400
    (wrong,) = answer.json()["error"]["detail"]["errors"]
    assert shown in wrong["msg"]
    assert wrong["loc"] == ([] if shown == "JSON" else ["chunks", 0, "embedding", 0])
    assert found(server, "bad") == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"chunks": [{"content": "a", "metadata": {}}], "ttl_seconds": 5}, "ttl_seconds"),
        ({"chunks": [{"content": " ", "metadata": {}}]}, "chunks.0.content"),
        (
            {"chunks": [{"content": {"type": "image", "image": {"url": {"uri": "https://a.b/c"}}}, "metadata": {}}]},
            "chunks.0.content",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(server: Served, body: dict[str, Any], field: str) -> None:
    registered(server)
    answer = server.client.post("/v1/vector-io/insert", {"vector_db_id": "birds", **body})
    assert answer.status == 400
    assert field in answer.body.decode()


def test_another_definition_under_a_name_is_refused(server: Served) -> None:
    registered(server)
    server.client.post(
        "/v1/models", {"model_id": "other", "model_type": "embedding", "metadata": {"embedding_dimension": 9}}
    )
    assert registered(server, embedding_model="other").status == 409
    assert registered(server, "third", provider_id="chromadb").status == 400
    assert registered(server, "third", provider_vector_db_id="elsewhere").status == 400


def test_chunks_survive_the_server(tmp_path: Path) -> None:
    with served(tmp_path) as before:
        registered(before)
        inserted(before, *FACTS)
        first = found(before, "heron water")
    with served(tmp_path) as after:
        assert found(after, "heron water") == first


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/vector-dbs", {"vector_db_id": "new", "embedding_model": "ghost"}),
        (
            "/v1/memory-banks",
            {"memory_bank_id": "new", "params": {"memory_bank_type": "vector", "embedding_model": "ghost"}},
        ),
        ("/v1/vector_stores", {"name": "new", "embedding_model": "ghost"}),
    ],
)
def test_an_unknown_embedding_model_is_refused_with_the_names_of_others(
    server: Served, path: str, body: dict[str, Any]
) -> None:
    own = {"model_id": "own", "model_type": "embedding", "metadata": {"embedding_dimension": 384}}
    assert server.client.post("/v1/models", own).status == 200
    refused = server.client.post(path, body)
    assert refused.status == 400
    message = refused.body.decode()
    assert "embedding_model: this server has no embedding model 'ghost'; choose one of " in message
    assert "offline, own" in message
    assert server.client.get("/v1/memory-banks").json()["data"] == []
    for model in ("offline", "own", "hashed-words"):
        assert registered(server, model, embedding_model=model).status == 200
