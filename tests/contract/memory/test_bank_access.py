"""Banks of another tenant, or of another owner, are missing by every route, whatever store they are in.

Callers are those of signed tokens.

Covers: services/memory/banks, services/memory/turns/lending, adapters/tokens/jwt_tokens, functions/memory,
functions/vector_stores
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.fakes.web.issuer import AUDIENCE, ISSUER, Issuer
from tests.support.server.asgi_client import Answered, Raw, Served, bearer, served
from tests.support.stores.postgres import PostgresServer, postgres_server

FILE = """
[memory.postgres]
type = "pgvector"
url_env = "SHORE_DATABASE_URL"
"""
DOCUMENT = "a-document"


class BankRequest(NamedTuple):
    """A request, and the status of its refusal.

    Attributes:
        text: in the answer, where the status is 200 and the answer itself is the refusal.
    """

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    status: int = 404
    text: str = ""


def requests_naming(bank: str, document: str) -> list[BankRequest]:
    """Return requests of all kinds to the bank and one of its documents."""
    banks, stores, databases = f"/v1/memory-banks/{bank}", f"/v1/vector_stores/{bank}", f"/v1/vector-dbs/{bank}"
    chunk = {"content": "x", "metadata": {}}
    given = {"document_id": document, "content": "x", "metadata": {}}
    rag = {"name": "builtin::rag", "args": {"vector_db_ids": [bank]}}
    agent = {"agent_config": {"model": "offline", "instructions": "", "toolgroups": [rag]}}
    search = {"tool_name": "knowledge_search", "kwargs": {"query": "tern", "vector_db_ids": [bank]}}
    return [
        *(BankRequest("GET", path) for path in (banks, databases, stores, f"{banks}/documents", f"{stores}/files")),
        BankRequest("GET", f"{banks}/documents/{document}"),
        BankRequest("GET", f"{stores}/files/{document}"),
        BankRequest("GET", f"{stores}/files/{document}/content"),
        BankRequest("GET", f"/memory-banks/get?memory_bank_id={bank}"),
        BankRequest("POST", f"{banks}/query", {"query": "tern"}),
        BankRequest("POST", f"{banks}/documents", {"documents": [given]}),
        BankRequest("POST", "/v1/vector-io/query", {"vector_db_id": bank, "query": "tern"}),
        BankRequest("POST", "/v1/vector-io/insert", {"vector_db_id": bank, "chunks": [chunk]}),
        BankRequest("POST", "/v1/tool-runtime/rag-tool/query", {"vector_db_ids": [bank], "content": "tern"}),
        BankRequest(
            "POST",
            "/v1/tool-runtime/rag-tool/insert",
            {"vector_db_id": bank, "documents": [given], "chunk_size_in_tokens": 9},
        ),
        BankRequest("POST", f"{stores}/search", {"query": "tern"}),
        BankRequest("POST", f"{stores}/files", {"file_id": document}),
        BankRequest("POST", f"{stores}/files/{document}", {"attributes": {}}),
        BankRequest("POST", "/memory/query", {"bank_id": bank, "query": "tern"}),
        BankRequest("POST", "/memory/insert", {"bank_id": bank, "documents": [given]}),
        BankRequest("POST", "/memory-banks/unregister", {"memory_bank_id": bank}),
        BankRequest("POST", "/v1/agents", agent, status=400),
        BankRequest("POST", "/v1/tool-runtime/invoke", search, status=200, text=f"no memory bank '{bank}'"),
        BankRequest("DELETE", f"{banks}/documents/{document}"),
        BankRequest("DELETE", f"{stores}/files/{document}"),
        *(BankRequest("DELETE", path) for path in (stores, databases, banks)),
    ]


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as issuer:
        issuer.add("one")
        yield issuer


@pytest.fixture
def server(
    tmp_path: Path, postgres: PostgresServer, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    monkeypatch.setenv("SHORE_DATABASE_URL", postgres.url())
    file = tmp_path / "operator.toml"
    file.write_text(FILE)
    settings = {
        "jwt_jwks_url": issuer.url,
        "jwt_issuer": ISSUER,
        "jwt_audience": AUDIENCE,
        "jwt_claims": "tenant=org,teams=groups",
    }
    with served(tmp_path, config=file, auth="jwt", **settings) as serving:
        yield serving


def sent(server: Served, token: str, method: str, path: str, body: Any = None) -> Answered:
    parts = () if body is None else (json.dumps(body).encode(),)
    return server.client.send(Raw(method, path.encode(), parts, (bearer(token),)))


def shown(answer: Answered, bank: str) -> tuple[int, str]:
    """Return the answer without the name of the bank, which the caller sent."""
    return answer.status, answer.body.decode().replace(bank, "BANK")


@pytest.mark.parametrize("provider_id", ["turnstone-memory", "postgres"])
def test_a_hidden_bank_is_missing_by_every_route(server: Served, issuer: Issuer, provider_id: str) -> None:
    ann = issuer.token("one", groups=["birds"])
    bank = {"vector_db_id": "birds", "embedding_model": "offline", "provider_id": provider_id}
    assert sent(server, ann, "POST", "/v1/vector-dbs", bank).status == 200
    given = {"documents": [{"document_id": DOCUMENT, "content": "Secret terns.", "metadata": {}}]}
    assert sent(server, ann, "POST", "/v1/memory-banks/birds/documents", given).status == 200
    for stranger in (
        issuer.token("one", org="inland", groups=["birds"]),
        issuer.token("one", sub="bob", groups=["boats"]),
    ):
        for hidden, missing in zip(requests_naming("birds", DOCUMENT), requests_naming("nests", DOCUMENT), strict=True):
            of_hidden = sent(server, stranger, *hidden[:3])
            assert (of_hidden.status, hidden.text in of_hidden.body.decode()) == (hidden.status, True), hidden
            assert shown(of_hidden, "birds") == shown(sent(server, stranger, *missing[:3]), "nests"), hidden
        for path in ("/v1/memory-banks", "/v1/vector-dbs", "/v1/vector_stores", "/memory-banks/list"):
            assert "birds" not in sent(server, stranger, "GET", path).body.decode()
    found = sent(server, ann, "POST", "/v1/memory-banks/birds/query", {"query": "terns"}).json()
    assert [chunk["content"] for chunk in found["chunks"]] == ["Secret terns."]


def test_a_token_of_another_issuer_or_of_the_past_reads_no_bank(server: Served, issuer: Issuer) -> None:
    ann = issuer.token("one")
    bank = {"vector_db_id": "birds", "embedding_model": "offline"}
    assert sent(server, ann, "POST", "/v1/vector-dbs", bank).status == 200
    for token in (issuer.token("one", iss="https://other.example"), issuer.token("one", exp=1), f"{ann[:-4]}AAAA"):
        for request in requests_naming("birds", DOCUMENT):
            assert sent(server, token, *request[:3]).status == 401, request
