"""Banks of every provider answer alike over HTTP: in this server, in a real Postgres, and in S3 Vectors' double.

Covers: bootstrap/memory_providers, adapters/vectors/configured, functions/memory
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws
from pydantic_core import from_json, to_json

from tests.fakes.aws.vector_queries import answer_queries
from tests.support.clients.forms import encoded
from tests.support.server.asgi_client import Answered, Raw, Served, bearer, key_for, served
from tests.support.stores.postgres import PASSWORD, PostgresServer, postgres_server
from turnstone.adapters.aws.aws_clients import AwsClients
from turnstone.domain.access.caller import Caller
from turnstone.settings.config import InvalidFile

BUCKET = "some-vectors"
REGION = "eu-central-1"
FILE = f"""
[memory.postgres]
type = "pgvector"
url_env = "SHORE_DATABASE_URL"
schema = "shore"
timeout_seconds = 5

[memory.large]
type = "s3-vectors"
bucket = "{BUCKET}"
region = "{REGION}"
"""
PROVIDERS = ("turnstone-memory", "postgres", "large")
TEXTS = {"tern": "Terns dive for fish.", "knot": "Knots probe mud.", "rock": "Granite is a rock."}


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        AwsClients().client("s3vectors", REGION).create_vector_bucket(vectorBucketName=BUCKET)
        yield


def file_in(folder: Path, text: str = FILE) -> Path:
    file = folder / "operator.toml"
    file.write_text(text)
    return file


@pytest.fixture
def server(tmp_path: Path, postgres: PostgresServer, bucket: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("SHORE_DATABASE_URL", postgres.url())
    with served(tmp_path, config=file_in(tmp_path), auth="api_keys") as serving:
        yield serving


class Client:
    """A caller of a tenant."""

    def __init__(self, server: Served, tenant: str = "shore", name: str = "ann") -> None:
        self._server = server
        self._key = bearer(key_for(server, Caller(tenant=tenant, principal=name)))

    def send(self, method: str, path: str, body: object = None) -> Answered:
        sent, headers = encoded({} if body is None else body)
        parts, head = ((), ()) if body is None else ((sent,), headers)
        return self._server.client.send(Raw(method, path.encode(), parts, (*head, self._key)))

    def register(self, provider_id: str | None, bank: str = "birds") -> Answered:
        body = {"vector_db_id": bank, "embedding_model": "offline", "provider_id": provider_id}
        answer = self.send("POST", "/v1/vector-dbs", body)
        if provider_id == "large" and answer.status == 200:
            self.answer_queries()
        return answer

    def answer_queries(self) -> None:
        """Have the double answer the server's own client of S3 Vectors."""
        guarded: Any = self._server.server.core.foundation.ports.bank_providers.of("large")
        answer_queries(guarded._provider._client())

    def insert(self, name: str, content: str, bank: str = "birds", **metadata: Any) -> Answered:
        documents = [{"document_id": name, "content": content, "metadata": metadata}]
        return self.send("POST", f"/v1/memory-banks/{bank}/documents", {"documents": documents})

    def query(self, bank: str = "birds", query: str = "Which terns dive?", **params: Any) -> Answered:
        return self.send("POST", f"/v1/memory-banks/{bank}/query", {"query": query, "params": params})

    def found(self, **params: Any) -> list[tuple[str, str, Any, Any]]:
        answer = self.query(**{"mode": "vector", **params}).json()
        return [
            (each["document_id"], each["content"], each["metadata"], pytest.approx(score, abs=1e-5))
            for each, score in zip(answer["chunks"], answer["scores"], strict=True)
        ]


def lived(client: Client, bank: str) -> list[Any]:
    """Insert, replace, change, search and drop documents and chunks of a bank; return all that was found."""
    seen: list[Any] = []
    of = {"bank": bank}
    for name, text in TEXTS.items():
        assert client.insert(name, text, **of, size=len(text), kind="bird").json() is None
    seen.append(client.found(**of))
    assert client.insert("rock", "Basalt is a rock that terns avoid.", **of, kind="stone").json() is None
    seen.append(client.found(**of))
    stones = {"type": "eq", "key": "kind", "value": "stone"}
    seen.append(client.found(**of, filters=stones))
    client.insert("tern", TEXTS["tern"], **of, kind="stone")
    seen.append(client.found(**of, filters=stones))
    chunks = [{"content": f"Fish {number} swims.", "metadata": {"document_id": "fish"}} for number in range(3)]
    assert client.send("POST", "/v1/vector-io/insert", {"vector_db_id": bank, "chunks": chunks}).json() is None
    query = {"vector_db_id": bank, "query": "Which fish swims?", "params": {"mode": "vector"}}
    seen.append([each["content"] for each in client.send("POST", "/v1/vector-io/query", query).json()["chunks"]])
    assert client.send("DELETE", f"/v1/memory-banks/{bank}/documents/tern").json() is None
    seen.append(client.found(**of))
    page = client.send("GET", f"/v1/memory-banks/{bank}/documents").json()
    seen.append([(each["document_id"], each["status"], each["chunks"]) for each in page["data"]])
    return seen


def test_banks_of_all_providers_answer_alike(server: Served) -> None:
    client = Client(server)
    every = []
    for number, provider_id in enumerate(PROVIDERS):
        assert client.register(provider_id, f"bank{number}").json()["provider_id"] == provider_id
        every.append(lived(client, f"bank{number}"))
    own, postgres, large = every
    assert own[0][0][0] == "tern"
    assert len(own[3]) == 2
    assert postgres == own
    assert large == own
    for number, _ in enumerate(PROVIDERS):
        assert client.send("DELETE", f"/v1/memory-banks/bank{number}").json() is None
        refused = client.query(f"bank{number}")
        assert (refused.status, refused.json()["code"]) == (404, "bank_not_found")


def test_searches_without_a_mode_use_what_each_provider_has_and_a_requested_one_is_refused_by_its_field(
    server: Served,
) -> None:
    client = Client(server)
    text = "Which terns dive?"
    searches: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("/v1/vector_stores/{bank}/search", "search_mode", {"query": text}),
        ("/v1/vector-io/query", "params.mode", {"query": text, "vector_db_id": "{bank}"}),
        ("/v1/tool-runtime/rag-tool/query", "query_config.mode", {"content": text, "vector_db_ids": ["{bank}"]}),
    )
    for number, provider_id in enumerate(PROVIDERS):
        bank = f"bank{number}"
        client.register(provider_id, bank)
        client.insert("tern", TEXTS["tern"], bank)
        for path, field, body in searches:
            given = from_json(to_json(body).replace(b"{bank}", bank.encode()))
            found = client.send("POST", path.format(bank=bank), given)
            assert (found.status, TEXTS["tern"] in found.body.decode()) == (200, True), (provider_id, path)
            *outer, last = field.split(".")
            requested = {**given, **({outer[0]: {last: "hybrid"}} if outer else {last: "hybrid"})}
            answer = client.send("POST", path.format(bank=bank), requested)
            is_own = provider_id == "turnstone-memory"
            assert (answer.status, is_own or answer.refusal().startswith(field)) == (200 if is_own else 400, True)


@pytest.mark.parametrize("provider_id", PROVIDERS[1:])
def test_tenants_with_banks_of_one_name_at_one_provider_see_their_own(server: Served, provider_id: str) -> None:
    one, other = Client(server), Client(server, "inland")
    for client, text in ((one, "Secret terns."), (other, "Public terns.")):
        client.register(provider_id)
        client.insert("d", text)
    assert [text for _, text, *_ in one.found()] == ["Secret terns."]
    assert [text for _, text, *_ in other.found()] == ["Public terns."]
    one.send("DELETE", "/v1/vector-dbs/birds")
    cleaning = server.server.core.cleaning
    for job in cleaning.due():
        cleaning.run_for(job, timedelta(seconds=10))
    assert [text for _, text, *_ in other.found()] == ["Public terns."]
    one.register(provider_id)
    assert one.found() == []


def test_providers_are_chosen_by_name_and_their_limits_refused_by_name(server: Served) -> None:
    client = Client(server)
    unknown = client.register("typo")
    assert unknown.status == 400
    problem = "this server has no provider 'typo'; it has: turnstone-memory, large, postgres"
    assert unknown.refusal().endswith(problem)
    assert client.register("faiss").json()["provider_id"] == "turnstone-memory"
    assert client.register("postgres", "other").json()["provider_id"] == "postgres"
    graph = {"memory_bank_id": "g", "params": {"memory_bank_type": "graph"}, "provider_id": "postgres"}
    refused = client.send("POST", "/v1/memory-banks", graph)
    assert (refused.status, "stores banks of vectors only" in refused.refusal()) == (400, True)
    for params in ({"mode": "keyword"}, {"mode": "hybrid"}, {"ranker": {"type": "rrf"}}):
        refused = client.query("other", **params)
        assert (refused.status, next(iter(params)) in refused.refusal()) == (400, True)
    client.register("large", "vectors")
    for params in ({"max_chunks": 101}, {"filters": {"type": "lt", "key": "a", "value": "x"}}):
        refused = client.query("vectors", **params)
        assert (refused.status, "'large'" in refused.refusal()) == (400, True)


def test_a_database_that_is_down_is_named_and_its_password_is_not(
    server: Served, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(server)
    client.register("postgres")
    client.register("turnstone-memory", "own")
    client.insert("tern", TEXTS["tern"])
    postgres.stop()
    try:
        with caplog.at_level(logging.DEBUG):
            answers = [client.insert("tern", TEXTS["rock"]), client.query(), client.register("postgres", "new")]
            codes = [(each.status, each.json()["code"]) for each in answers]
            assert codes == [(502, "memory_provider_failed")] * 3
            assert all("'postgres'" in each.refusal() for each in answers)
        shown = client.send("GET", "/v1/providers")
        for text in (caplog.text, shown.body.decode(), *(each.body.decode() for each in answers)):
            assert PASSWORD not in text
        assert client.insert("tern", TEXTS["tern"], "own").status == 200
        assert client.send("GET", "/v1/memory-banks/birds/documents/tern").json()["status"] == "completed"
    finally:
        postgres.start()


def test_a_bank_whose_provider_left_the_file_keeps_its_content(
    tmp_path: Path, postgres: PostgresServer, bucket: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHORE_DATABASE_URL", postgres.url())
    file = file_in(tmp_path)
    with served(tmp_path / "data", config=file, auth="api_keys") as server:
        Client(server).register("postgres")
        Client(server).insert("tern", TEXTS["tern"])
    file.write_text("")
    with served(tmp_path / "data", config=file, auth="api_keys") as server:
        for refused in (Client(server).query(), Client(server).insert("a", "b")):
            assert (refused.status, refused.json()["code"]) == (503, "memory_provider_missing")
            assert "'postgres'" in refused.refusal()
    file.write_text(FILE)
    with served(tmp_path / "data", config=file, auth="api_keys") as server:
        assert [name for name, *_ in Client(server).found()] == ["tern"]


def test_kinds_of_banks_go_to_the_provider_of_the_file(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHORE_DATABASE_URL", postgres.url())
    text = FILE.replace("timeout_seconds = 5", 'kinds = ["vector"]') + '\n[memory.plain]\ntype = "embedded"\n'
    text += 'kinds = ["keyvalue"]\n'
    with served(tmp_path, config=file_in(tmp_path, text), auth="api_keys") as server:
        client = Client(server)
        assert client.register(None).json()["provider_id"] == "postgres"
        values = {"memory_bank_id": "values", "params": {"memory_bank_type": "keyvalue"}}
        assert client.send("POST", "/v1/memory-banks", values).json()["provider_id"] == "plain"
        assert client.insert("a", "b", "values").status == 200
        assert client.query("values", "a").json()["chunks"][0]["content"] == "b"


def test_a_start_without_the_variable_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHORE_DATABASE_URL", raising=False)
    problem = r"memory.postgres.url_env: SHORE_DATABASE_URL is not set"
    with pytest.raises(InvalidFile, match=problem), served(tmp_path, config=file_in(tmp_path)):
        pass


def test_no_start_loads_a_client_of_a_provider(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from turnstone.bootstrap.places.local import LocalServer\n"
        "from turnstone.settings.local_settings import LocalSettings\n"
        f"LocalServer(LocalSettings(data_dir=Path({str(tmp_path)!r}), config=Path({str(file_in(tmp_path))!r})))\n"
        "print([name for name in ('psycopg', 'botocore', 'boto3') if name in sys.modules])"
    )
    environment = {"SHORE_DATABASE_URL": "postgresql://user:secret@nowhere/db", "PATH": "/usr/bin:/bin"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert ran.stdout.strip() == "[]"
