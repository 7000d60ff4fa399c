"""The first lines of a starting server: access, a request to try, and the state of its model servers.

Covers: functions/local
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fakes.models.openai_answers import HttpAnswer, listed
from tests.fakes.models.openai_server import ModelServer
from tests.fakes.web.web_server import WebAnswer, WebRequest, WebServer, json_answer
from tests.support.server.servers import HOST, ServerProcess, free_port, wait_until

KEY = "sk-0123456789abcdef"
WORDS_S = 15.0


@contextmanager
def started(folder: Path, **settings: object) -> Iterator[ServerProcess]:
    authorization = settings.pop("authorization", None)
    assert authorization is None or isinstance(authorization, str)
    with ServerProcess(folder, authorization=authorization, **settings) as server:
        yield server


def word(folder: Path, text: str, **settings: object) -> str:
    """Return the log of a server once it holds that text."""
    with started(folder, **settings) as server:
        wait_until(lambda: text in server.log, WORDS_S, f"{text!r} was not logged")
        assert KEY not in server.log
        return server.log


# ── the greeting ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "No authentication: all users and programs of this machine can use the server, and no other machine."),
        ({"processes": 2}, "No authentication: all users and programs of this machine"),
        ({"allow_open": True, "host": "0.0.0.0"}, "No authentication: every client that reaches port "),
        ({"allow_open": True}, "No authentication: every client that reaches this machine, and web pages"),
    ],
)
def test_without_authentication_the_greeting_warns_and_names_the_reachable_clients(
    tmp_path: Path, settings: dict[str, object], expected: str
) -> None:
    with started(tmp_path, **settings) as server:
        wait_until(lambda: "docs/guide/first-turn.md shows" in server.log, WORDS_S, "it did not greet")
        assert expected in server.log
        assert "TURNSTONE_AUTH=api_keys" in server.log


@pytest.mark.usefixtures("cold_starts")
def test_with_keys_the_greeting_names_the_command_that_creates_one(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, auth="api_keys")
    try:
        server.start()
        assert "Callers need an API key: `turnstone keys create NAME` creates one." in server.log
        assert "No authentication" not in server.log
    finally:
        server.kill()


def test_a_file_of_tools_only_leaves_the_offline_model_in_the_greeting(tmp_path: Path) -> None:
    (file := tmp_path / "tools.toml").write_text('[tools.code_interpreter]\nruns = "off"\n')
    with started(tmp_path, config=file) as server:
        assert ", offline model)" in server.log
        assert '"model": "offline"' in server.log


def test_the_greeting_tries_a_model_of_the_file(tmp_path: Path) -> None:
    (file := tmp_path / "models.toml").write_text(
        f'default_provider = "p"\n[providers.p]\ntype = "openai"\nurl = "http://{HOST}:{free_port()}/v1"\n'
        '[models.vectors]\nprovider = "p"\nembedding_dimension = 8\n[models.clever]\nprovider = "p"\n'
    )
    with started(tmp_path, config=file) as server:
        assert '"model": "clever"' in server.log
        assert f"models of {file}" in server.log


def test_the_greeting_shows_no_secrets_of_an_address(tmp_path: Path) -> None:
    with started(tmp_path, model_url=f"http://me:{KEY}@{HOST}:{free_port()}/v1?k={KEY}") as server:
        assert KEY not in server.log


# ── model servers ────────────────────────────────────────────────────────────────────────────────────────────────


def keyed(request: WebRequest) -> WebAnswer:
    if request.headers.get("authorization") != f"Bearer {KEY}":
        return json_answer({"error": f"{request.headers.get('authorization')} is wrong"}, 401)
    return json_answer({"data": [{"id": "m"}]})


def below_v1(request: WebRequest) -> WebAnswer:
    is_right = request.target == "/v1/models"
    return json_answer({"data": [{"id": "m"}]}) if is_right else json_answer({"error": "not found"}, 404)


def page(_: WebRequest) -> WebAnswer:
    return json_answer("hello")


def test_a_model_server_that_answers_is_logged_with_its_number_of_models(tmp_path: Path) -> None:
    with ModelServer(listed=listed("a", "b", "c")) as model:
        log = word(tmp_path, "lists 3 models", model_url=model.url)
        assert f"model server default at {model.url} lists 3 models" in log
        assert model.requests == []


def test_several_processes_send_one_request(tmp_path: Path) -> None:
    with WebServer(keyed) as model:
        url = f"http://{HOST}:{model.port}/v1"
        with started(tmp_path, model_url=url, model_api_key=KEY, processes=2) as server:
            wait_until(lambda: "lists 1 models" in server.log, WORDS_S, "nothing was logged")
            time.sleep(0.5)
            assert server.log.count("model server") == 1
            assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("answer", "settings", "expected"),
    [
        (keyed, {"model_api_key": KEY + "x"}, "it refuses the key; check TURNSTONE_MODEL_API_KEY"),
        (keyed, {}, "it requires a key; set TURNSTONE_MODEL_API_KEY"),
        (page, {}, "it does not answer as an OpenAI-compatible API; check TURNSTONE_MODEL_URL"),
    ],
)
def test_a_broken_model_server_is_logged_and_the_server_keeps_serving(
    tmp_path: Path, answer: object, settings: dict[str, object], expected: str
) -> None:
    with WebServer(answer) as model:  # type: ignore[arg-type]
        word(tmp_path, expected, model_url=f"http://{HOST}:{model.port}/v1", **settings)


def test_an_address_without_v1_is_completed(tmp_path: Path) -> None:
    with WebServer(below_v1) as model:
        url = f"http://{HOST}:{model.port}"
        word(tmp_path, f"its API is at {url}/v1: set TURNSTONE_MODEL_URL to that", model_url=f"{url}/")


def test_a_model_server_that_is_not_there_is_logged(tmp_path: Path) -> None:
    url = f"http://{HOST}:{free_port()}/v1"
    word(tmp_path, f"model server default at {url}: nothing answers there; is it running", model_url=url)


def test_a_model_server_that_never_answers_delays_nothing(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as silent:
        began = time.monotonic()
        with started(tmp_path, model_url=f"http://{HOST}:{silent.getsockname()[1]}/v1") as server:
            assert time.monotonic() - began < 5
            assert "no answer came" not in server.log
            wait_until(lambda: "no answer came within 5 s" in server.log, WORDS_S, "nothing was logged")


def test_models_of_a_file_are_checked_at_their_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    with WebServer(keyed) as right, WebServer(keyed) as wrong, ModelServer(listed=HttpAnswer(500, b"")) as broken:
        (file := tmp_path / "models.toml").write_text(
            'default_provider = "right"\n'
            f'[providers.right]\ntype = "openai"\nurl = "http://{HOST}:{right.port}/v1"\napi_key_env = "SOME_KEY"\n'
            f'[providers.wrong]\ntype = "openai"\nurl = "http://{HOST}:{wrong.port}/v1"\n'
            f'[providers.broken]\ntype = "openai"\nurl = "{broken.url}"\n[providers.none]\ntype = "offline"\n'
            '[models.m]\nprovider = "right"\n[models.n]\nprovider = "right"\nmodel = "at-right"\n'
        )
        log = word(tmp_path, "answers status 500", config=file)
        assert f"model server right does not list at-right, which {file} names" in log
        assert "model server wrong at" in log
        assert "it requires a key; set providers.wrong.api_key_env" in log
        assert "model server none" not in log


def test_the_offline_model_needs_no_check(tmp_path: Path) -> None:
    with started(tmp_path) as server:
        time.sleep(1)
        assert "model server" not in server.log
