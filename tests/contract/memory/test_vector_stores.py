"""Vector stores over HTTP: made, changed, searched and deleted under both prefixes, and errors that name the field.

Covers: functions/vector_stores, dialects/openai/vector_stores
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clients.forms import OF_FORM, form_of
from tests.support.server.asgi_client import Answered, Raw, Served, served

STORES = "/v1/vector_stores"
INGESTED_WITHIN_S = 20.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("stores")) as serving:
        yield serving


def sent(server: Served, path: str, body: Any, *headers: tuple[bytes, bytes]) -> Answered:
    return server.client.send(Raw("POST", path.encode(), (json.dumps(body).encode(),), headers))


def made(server: Served, path: str, body: Any) -> dict[str, Any]:
    answer = sent(server, path, body)
    assert answer.status == 200, answer
    shown: dict[str, Any] = answer.json()
    return shown


def uploaded(server: Served, content: bytes, filename: str = "herons.txt") -> str:
    form = form_of({"purpose": "assistants"}, content, filename=filename)
    file_id: str = server.client.send(Raw("POST", b"/v1/files", (form,), OF_FORM)).json()["id"]
    return file_id


def ingested(server: Served) -> None:
    deadline = time.monotonic() + INGESTED_WITHIN_S
    while server.server.core.cleaning.due(lambda kind: kind == "ingest_document"):
        assert time.monotonic() < deadline, "an insertion does not end"
        time.sleep(0.005)


@pytest.mark.parametrize("prefix", ["/v1/openai/v1/vector_stores", STORES])
def test_a_store_is_made_changed_read_listed_and_deleted(server: Served, prefix: str) -> None:
    file_id = uploaded(server, b"Herons nest in colonies.")
    new = {"name": "birds", "description": "of the north", "metadata": {"a": "b"}, "file_ids": [file_id]}
    expiry = {"anchor": "last_active_at", "days": 7}
    store = made(server, prefix, {**new, "expires_after": expiry})
    ingested(server)
    shown = server.client.get(f"{prefix}/{store['id']}").json()
    assert shown == {
        "id": store["id"],
        "object": "vector_store",
        "created_at": store["created_at"],
        "name": "birds",
        "description": "of the north",
        "usage_bytes": 24,
        "file_counts": {"in_progress": 0, "completed": 1, "failed": 0, "cancelled": 0, "total": 1},
        "status": "completed",
        "expires_after": expiry,
        "expires_at": store["last_active_at"] + 7 * 86_400,
        "last_active_at": store["last_active_at"],
        "metadata": {"a": "b"},
    }
    assert store["id"].startswith("vs_")
    page = server.client.get(f"{prefix}?limit=1").json()
    assert (page["data"], page["first_id"], page["last_id"]) == ([shown], store["id"], store["id"])
    changed = made(server, f"{prefix}/{store['id']}", {"name": "waders", "expires_after": None})
    assert changed == {
        **shown,
        "name": "waders",
        "expires_after": None,
        "expires_at": None,
        "last_active_at": changed["last_active_at"],
    }
    assert changed["last_active_at"] >= shown["last_active_at"] >= shown["created_at"]
    assert server.client.get(f"{prefix}/{store['id']}").json() == changed
    deleted = server.client.send(Raw("DELETE", f"{prefix}/{store['id']}".encode()))
    assert deleted.json() == {"id": store["id"], "object": "vector_store.deleted", "deleted": True}
    refused = server.client.get(f"{prefix}/{store['id']}")
    assert (refused.status, refused.json()["error"]["code"]) == (404, "bank_not_found")
    assert server.client.get(f"/v1/files/{file_id}").status == 200


def test_a_store_is_a_memory_bank_and_a_bank_of_vectors_is_a_store(server: Served) -> None:
    store = made(server, STORES, {"name": "birds"})
    bank = server.client.get(f"/v1/memory-banks/{store['id']}").json()
    assert (bank["memory_bank_type"], bank["chunk_size_in_tokens"], bank["overlap_size_in_tokens"]) == (
        "vector",
        800,
        400,
    )
    assert server.client.get(f"/v1/vector-dbs/{store['id']}").status == 200
    made(server, "/v1/vector-dbs", {"vector_db_id": "shore", "embedding_model": "offline"})
    document = {"document_id": "d", "content": "A heron.", "metadata": {"page": 1, "of": [1]}}
    assert sent(server, "/v1/memory-banks/shore/documents", {"documents": [document]}).status in (200, 204)
    file = server.client.get(f"{STORES}/shore/files/d").json()
    assert (file["id"], file["status"], file["chunking_strategy"]) == ("d", "completed", {"type": "other"})
    (result,) = made(server, f"{STORES}/shore/search", {"query": "heron"})["data"]
    assert (result["file_id"], result["filename"], result["attributes"]) == ("d", "d", {"page": 1})


OF_CLIENT = ((b"x-llamastack-client-version", b"0.3.5"),)


@pytest.mark.parametrize(("prefix", "headers"), [("/v1/openai/v1/vector_stores", ()), (STORES, OF_CLIENT)])
def test_llama_stack_gets_files_inserted_and_missing_ones_refused(
    server: Served, prefix: str, headers: tuple[tuple[bytes, bytes], ...]
) -> None:
    def posted(path: str, body: Any) -> Any:
        answer = sent(server, path, body, *headers)
        assert answer.status == 200, answer
        return answer.json()

    one, other = uploaded(server, b"Herons nest."), uploaded(server, b"Terns dive.")
    store = posted(prefix, {"name": "birds", "file_ids": [one]})
    assert store["file_counts"] == {"in_progress": 0, "completed": 1, "failed": 0, "cancelled": 0, "total": 1}
    assert posted(f"{prefix}/{store['id']}/files", {"file_id": other})["status"] == "completed"
    refused = sent(server, prefix, {"name": "birds", "file_ids": [one, "file-gone"]}, *headers)
    assert (refused.status, refused.json()["error"]["code"]) == (404, "file_not_found")


def test_a_failed_file_has_its_reason_and_others_are_found(server: Served) -> None:
    good, empty = uploaded(server, b"Herons nest.", "herons.txt"), uploaded(server, b" \n", "empty.txt")
    store = made(server, STORES, {"file_ids": [good, empty]})["id"]
    ingested(server)
    failed = server.client.get(f"{STORES}/{store}/files?filter=failed").json()["data"]
    assert [(each["id"], each["last_error"]["code"], each["usage_bytes"]) for each in failed] == [
        (empty, "invalid_file", 0)
    ]
    assert "text" in failed[0]["last_error"]["message"]
    results = made(server, f"{STORES}/{store}/search", {"query": "Where do herons nest?"})
    assert results["object"] == "vector_store.search_results.page"
    assert (results["search_query"], results["has_more"], results["next_page"]) == (
        "Where do herons nest?",
        False,
        None,
    )
    (result,) = results["data"]
    assert result["content"] == [{"type": "text", "text": "Herons nest."}]
    assert (result["filename"], result["file_id"]) == ("herons.txt", good)
    assert 0 < result["score"] <= 1


def test_the_content_of_a_file_has_the_fields_of_both_clients(server: Served) -> None:
    file_id = uploaded(server, b"Herons nest.")
    store = made(server, STORES, {"file_ids": [file_id]})["id"]
    ingested(server)
    texts = [{"type": "text", "text": "Herons nest."}]
    assert server.client.get(f"{STORES}/{store}/files/{file_id}/content").json() == {
        "object": "vector_store.file_content.page",
        "file_id": file_id,
        "filename": "herons.txt",
        "attributes": {},
        "data": texts,
        "content": texts,
        "has_more": False,
        "next_page": None,
    }


def test_a_file_is_cut_as_requested_or_as_its_store_does(server: Served) -> None:
    words = " ".join(f"heron{number}" for number in range(400)).encode()
    own, of_store = uploaded(server, words), uploaded(server, words)
    lengths = {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 0}
    longer = {"max_chunk_size_tokens": 4_096, "chunk_overlap_tokens": 2_048}
    store = made(server, STORES, {"chunking_strategy": {"type": "static", "static": longer}})["id"]
    body = {"file_id": own, "chunking_strategy": {"type": "static", "static": lengths}}
    assert made(server, f"{STORES}/{store}/files", body)["chunking_strategy"]["static"] == lengths
    auto = made(server, f"{STORES}/{store}/files", {"file_id": of_store, "chunking_strategy": {"type": "auto"}})
    assert auto["chunking_strategy"]["static"] == longer
    ingested(server)
    numbers = [
        len(server.client.get(f"{STORES}/{store}/files/{each}/content").json()["data"]) for each in (own, of_store)
    ]
    assert numbers[0] > numbers[1] == 1


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("", {"expires_after": {"anchor": "last_active_at", "days": 0}}, "expires_after.days"),
        ("", {"expires_after": {"anchor": "created_at", "days": 1}}, "expires_after.anchor"),
        ("", {"metadata": {"a": 1}}, "metadata.a"),
        ("", {"metadata": {str(number): "" for number in range(17)}}, "metadata"),
        ("", {"file_ids": ["x"] * 501}, "file_ids"),
        ("", {"provider_id": "elsewhere"}, "provider_id"),
        ("", {"provider_vector_db_id": "mine"}, "provider_vector_db_id"),
        ("", {"embedding_model": "offline", "embedding_dimension": 3}, "embedding_dimension"),
        ("", {"embedding_dimensions": 384}, "embedding_dimensions"),
        ("/search", {"query": " "}, "query"),
        ("/search", {"query": ["a", ""]}, "query"),
        ("/search", {"query": [1]}, "query.0"),
        ("/search", {}, "query"),
        ("/search", {"query": "a", "max_num_results": 51}, "max_num_results"),
        ("/search", {"query": "a", "rewrite_query": True}, "rewrite_query"),
        ("/search", {"query": "a", "ranking_options": {"ranker": "best"}}, "ranking_options.ranker"),
        (
            "/search",
            {"query": "a", "ranking_options": {"ranker": "none"}, "search_mode": "hybrid"},
            "ranking_options.ranker",
        ),
        ("/search", {"query": "a", "ranking_options": {"score_threshold": 2}}, "ranking_options.score_threshold"),
        ("/search", {"query": "a", "filters": {"type": "near", "key": "a", "value": 1}}, "filters.type"),
        ("/files", {"file_id": "x", "attributes": {"a": []}}, "attributes.a"),
        ("/files", {"file_id": "x", "attributes": {"a": "b" * 513}}, "attributes.a"),
        (
            "/files",
            {
                "file_id": "x",
                "chunking_strategy": {
                    "type": "static",
                    "static": {"max_chunk_size_tokens": 99, "chunk_overlap_tokens": 0},
                },
            },
            "chunking_strategy.static.max_chunk_size_tokens",
        ),
        (
            "/files",
            {
                "file_id": "x",
                "chunking_strategy": {
                    "type": "static",
                    "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 51},
                },
            },
            "chunking_strategy.static",
        ),
        ("/file_batches", {}, None),
        ("/file_batches", {"file_ids": ["x"], "files": [{"file_id": "x"}]}, None),
        ("/file_batches", {"files": [{"file_id": "x"}], "attributes": {"a": 1}}, None),
    ],
)
def test_a_refusal_names_the_field(server: Served, path: str, body: dict[str, Any], field: str | None) -> None:
    store = f"{STORES}/{made(server, STORES, {})['id']}" if path else STORES
    answer = sent(server, store + path, body)
    error = answer.json()["error"]
    assert (answer.status, error["type"]) == (400, "invalid_request_error")
    assert error["param"] is field if field is None else error["param"].startswith(field), error


@pytest.mark.parametrize(
    "query", ["limit=101", "order=up", "filter=lost", "after=file-unknown", "before=x", "limit=1&limit=2"]
)
def test_a_page_that_there_is_not_is_refused_by_its_parameter(server: Served, query: str) -> None:
    store = made(server, STORES, {})["id"]
    answer = server.client.get(f"{STORES}/{store}/files?{query}")
    assert (answer.status, answer.json()["error"]["param"]) == (400, query.partition("=")[0])


def test_a_ranker_or_none_and_the_modes_order_the_same_results(server: Served) -> None:
    store = made(server, STORES, {"embedding_model": "offline"})["id"]
    body = {"files": [{"file_id": uploaded(server, text)} for text in (b"grey heron", b"granite", b"a grey day")]}
    batch = made(server, f"{STORES}/{store}/file_batches", body)
    assert (batch["object"], batch["file_counts"]["total"]) == ("vector_store.files_batch", 3)
    ingested(server)
    assert server.client.get(f"{STORES}/{store}/file_batches/{batch['id']}").json()["status"] == "completed"
    found = {}
    for ranker, mode in (
        ("auto", None),
        ("none", None),
        ("none", "vector"),
        ("rrf", "hybrid"),
        ("weighted", "keyword"),
    ):
        ranking = {"ranker": ranker, "score_threshold": 0.0}
        search = {"query": "grey heron", "search_mode": mode, "ranking_options": ranking, "max_num_results": 2}
        results = made(server, f"{STORES}/{store}/search", search)["data"]
        found[ranker, mode] = [(each["file_id"], each["score"]) for each in results]
        assert results[0]["content"][0]["text"] == "grey heron"
        assert len(results) <= 2
    assert found["none", None] == found["none", "vector"]


def test_a_repeated_request_with_its_key_makes_one_store_and_one_batch(server: Served) -> None:
    file_id = uploaded(server, b"Herons nest.")
    key = (b"idempotency-key", b"the key")
    stores = [sent(server, STORES, {"name": "a", "file_ids": [file_id]}, key).json()["id"] for _ in range(2)]
    assert len(set(stores)) == 1
    path = f"{STORES}/{stores[0]}/file_batches"
    assert len({sent(server, path, {"file_ids": [file_id]}, key).json()["id"] for _ in range(2)}) == 1
    assert sent(server, STORES, {"name": "b"}, key).status == 409
