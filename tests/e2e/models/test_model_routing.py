"""Routing by an operator's file that maps models to providers, as callers see it.

Covers: services/models/routing, adapters/models/provider_health, adapters/models/listed_models, bootstrap/catalogue
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import HttpAnswer, listed
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.plain_client import PlainClient
from tests.support.server.servers import HOST, ServerProcess, free_port

OWN_KEY = "sk-callers-own-0123456789"
FILE = """
default_provider = "small"

[providers.small]
type = "openai"
url = "{small}"
api_key_env = "SMALL_KEY"

[providers.large]
type = "openai"
url = "{large}"

[providers.gone]
type = "openai"
url = "{gone}"

[models.clever]
provider = "large"
model = "words-50"
aliases = ["the/clever-one"]
context_tokens = 8000
prices = {{input = 0.5, output = 1.5}}

[models.careful]
provider = "gone"
model = "instant"
fallbacks = [{{provider = "large"}}, {{provider = "small"}}]
"""


@dataclass
class World:
    server: ServerProcess
    client: PlainClient
    small: ModelServer
    large: ModelServer

    def models_called(self) -> tuple[list[str], list[str]]:
        """Return the models that each server was called with."""
        return tuple([body["model"] for body in each.requests] for each in (self.small, self.large))  # type: ignore[return-value] # two


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with ExitStack() as stack:
        small = stack.enter_context(ModelServer(listed=listed("instant")))
        large = stack.enter_context(ModelServer())
        gone = f"http://{HOST}:{free_port()}/v1"
        file = tmp_path / "models.toml"
        file.write_text(FILE.format(small=small.url, large=large.url, gone=gone))
        monkeypatch.setenv("SMALL_KEY", "sk-of-the-operator")
        server = stack.enter_context(ServerProcess(tmp_path, config=file))
        yield World(server, stack.enter_context(PlainClient(server.url)), small, large)


def turn(world: World, model: str, **headers: str) -> dict[str, Any]:
    path = world.client.open_session(model)
    answer = world.client.post(f"{path}/turn", {"messages": [{"role": "user", "content": "hi"}]}, **headers)
    assert answer.status_code == 200, answer.text
    turn: dict[str, Any] = answer.json()
    return turn


def test_each_model_is_called_at_the_provider_in_the_file(world: World) -> None:
    for model in ("clever", "the/clever-one", "instant"):
        assert turn(world, model)["output_message"]["content"]
    assert world.models_called() == (["instant"], ["words-50", "words-50"])
    assert world.small.headers[0]["authorization"] == "Bearer sk-of-the-operator"
    assert "authorization" not in world.large.headers[0]
    models = {model["identifier"]: model for model in world.client.get("/v1/models")["data"]}
    assert list(models) == ["instant", "static", "clever", "the/clever-one", "careful"]
    assert (models["the/clever-one"]["provider_id"], models["clever"]["metadata"]) == (
        "large",
        {"context_tokens": 8000, "prices": {"input": 0.5, "output": 1.5}},
    )
    providers = {each["provider_id"]: each["provider_type"] for each in world.client.get("/v1/providers")["data"]}
    assert {name: providers[name] for name in ("small", "large")} == dict.fromkeys(
        ("small", "large"), "remote::openai-compatible"
    )


def test_a_registered_model_is_called_at_its_provider_at_once(world: World) -> None:
    mine = {"model_id": "mine", "provider_id": "large", "provider_model_id": "words-50"}
    turn(world, "mine")  # not registered yet: its name is passed on unchanged
    assert world.client.post("/v1/models", mine).status_code == 200
    assert turn(world, "mine")["output_message"]["content"].startswith("word")
    assert world.models_called() == (["mine"], ["words-50"])


def test_when_a_provider_is_unreachable_the_next_one_answers_and_the_step_names_it(world: World) -> None:
    answered = turn(world, "careful")
    (step,) = answered["steps"]
    assert step["answered_by"] == {"provider_id": "large", "model": "instant"}
    assert world.models_called() == ([], ["instant"])
    assert "answered_by" not in turn(world, "clever")["steps"][0]


@pytest.mark.parametrize("header", ["X_LlamaStack_Provider_Data", "X_LlamaStack_ProviderData"])
def test_a_callers_own_key_is_used_for_its_request_and_not_stored(world: World, header: str, tmp_path: Path) -> None:
    turn(world, "instant", **{header: json.dumps({"small_api_key": OWN_KEY, "tavily_search_api_key": "t"})})
    turn(world, "instant")
    used = [headers["authorization"] for headers in world.small.headers]
    assert used == [f"Bearer {OWN_KEY}", "Bearer sk-of-the-operator"]
    kept = [
        path for path in world.server.data_dir.rglob("*") if path.is_file() and OWN_KEY.encode() in path.read_bytes()
    ]
    assert (kept, OWN_KEY in world.server.log) == ([], False)


def test_provider_data_that_is_no_json_object_is_refused_and_not_repeated(world: World) -> None:
    path = world.client.open_session("instant")
    body = {"messages": [{"role": "user", "content": "hi"}]}
    for sent in ("{", "[1]", f'"{OWN_KEY}"'):
        answer = world.client.post(f"{path}/turn", body, X_LlamaStack_Provider_Data=sent)
        (problem,) = answer.json()["error"]["detail"]["errors"]
        assert (answer.status_code, problem["loc"]) == (400, ["x-llamastack-provider-data"])
        assert OWN_KEY not in answer.text


def test_a_closed_registry_refuses_unknown_models_when_an_agent_is_made(tmp_path: Path) -> None:
    with ModelServer() as model, ExitStack() as stack:
        file = tmp_path / "models.toml"
        file.write_text(
            f'registry = "closed"\n[providers.p]\ntype = "openai"\nurl = "{model.url}"\n'
            '[models.instant]\nprovider = "p"\n'
        )
        server = stack.enter_context(ServerProcess(tmp_path, config=file))
        client = stack.enter_context(PlainClient(server.url))
        unknown = {"agent_config": {"model": "unknown", "instructions": ""}}
        answer = client.post("/v1/agents", unknown)
        (problem,) = answer.json()["error"]["detail"]["errors"]
        assert (answer.status_code, problem["loc"]) == (400, ["agent_config", "model"])
        assert [entry["identifier"] for entry in client.get("/v1/models")["data"]] == ["static", "instant"]
        registered = {"model_id": "unknown", "provider_id": "p", "provider_model_id": "instant"}
        assert client.post("/v1/models", registered).status_code == 200
        assert client.post("/v1/agents", unknown).status_code == 200
        assert client.post("/v1/models", {**registered, "model_id": "instant"}).status_code == 200
        assert (
            client.post("/v1/models", {**registered, "model_id": "instant", "provider_model_id": "x"}).status_code
            == 400
        )


def test_a_provider_that_failed_repeatedly_is_skipped(tmp_path: Path) -> None:
    overloaded = HttpAnswer(500, {"error": {"message": "overloaded"}})
    with ModelServer(lambda _: overloaded) as failing, ModelServer() as healthy, ExitStack() as stack:
        file = tmp_path / "models.toml"
        file.write_text(
            f'default_provider = "a"\n[providers.a]\ntype = "openai"\nurl = "{failing.url}"\n'
            f'[providers.b]\ntype = "openai"\nurl = "{healthy.url}"\n'
            '[models.instant]\nprovider = "a"\nfallbacks = [{provider = "b"}]\n'
        )
        server = stack.enter_context(ServerProcess(tmp_path, config=file))
        client = stack.enter_context(PlainClient(server.url))
        for _ in range(6):
            path = client.open_session("instant")
            answer = client.post(f"{path}/turn", {"messages": [{"role": "user", "content": "hi"}]})
            assert answer.json()["steps"][0]["answered_by"]["provider_id"] == "b"
        assert (len(failing.requests), len(healthy.requests)) == (3, 6)
