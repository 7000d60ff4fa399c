"""The log of a real server: one line for a request, one warning for a failed turn, nothing secret.

Covers: edge/logs
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.fakes.models.openai_answers import Pause, error_answer, text_answer
from tests.fakes.models.openai_server import ModelServer
from tests.support.server.servers import ROOT, ServerProcess, free_port, server_command, server_environment, wait_until

PATIENCE_S = 20.0
TEXT_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO|WARNING|ERROR|CRITICAL) (\[\d+\] )?\S.*")
WORDS = "are-these-words-secret"
KEY = "sk-of-the-operator-0123456789"
PROVIDER_TEXT = "the-model-server-repeats-a-secret"


@contextmanager
def served(folder: Path, **settings: object) -> Iterator[tuple[ServerProcess, httpx.Client]]:
    with ServerProcess(folder, **settings) as server, httpx.Client(base_url=server.url, timeout=PATIENCE_S) as client:
        yield server, client


def opened(client: httpx.Client, model: str = "instant") -> str:
    """Return the path of a new session of a new agent."""
    agent = client.post("/v1/agents", json={"agent_config": {"model": model, "instructions": ""}}).json()
    path = f"/v1/agents/{agent['agent_id']}/session"
    return f"{path}/{client.post(path, json={'session_name': 'first'}).json()['session_id']}"


def ids_in(path: str) -> dict[str, str]:
    _, _, _, agent_id, _, session_id = path.split("/")
    return {"agent_id": agent_id, "session_id": session_id}


def question(words: str = WORDS, *, stream: bool = True) -> dict[str, Any]:
    return {"stream": stream, "messages": [{"role": "user", "content": words}]}


def lines_of(server: ServerProcess) -> list[dict[str, Any]]:
    """Return the lines of the log as objects; what the server prints on standard output is left out."""
    return [json.loads(line) for line in server.log.splitlines() if line.startswith("{")]


def lines_so_far(server: ServerProcess, client: httpx.Client) -> list[dict[str, Any]]:
    """Return the lines of all answered requests: a line is written after its answer, and before the next one."""
    client.get("/v1/version")
    return lines_of(server)


def printed(server: ServerProcess) -> str:
    return "\n".join(line for line in server.log.splitlines() if not line.startswith("{"))


def failed_turn(client: httpx.Client, path: str) -> dict[str, str]:
    """Stream a turn that fails; return the ids of agent, session and turn."""
    answer = client.post(f"{path}/turn", json=question())
    return {**ids_in(path), "turn_id": re.findall(r'"turn_id": ?"([^"]+)"', answer.text)[0]}


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_failed_turn_is_one_warning_with_its_cause_and_no_secret(tmp_path: Path, form: str) -> None:
    with (
        ModelServer(lambda _: error_answer(500, f"{PROVIDER_TEXT} {WORDS} {KEY}")) as model,
        served(tmp_path, model_url=model.url, model_api_key=KEY, log_format=form) as (server, client),
    ):
        ids = failed_turn(client, opened(client))
        warnings = [line for line in server.log.splitlines() if "WARNING" in line]
    (warning,) = warnings
    assert ids["turn_id"] in warning
    assert "turn failed" in warning
    assert all(text in warning for text in (*ids.values(), "model_failed", "default", "500", "local", model.url))
    assert not [secret for secret in (WORDS, KEY, PROVIDER_TEXT) if secret in server.log]


def test_lines_are_json_objects_with_stable_names(tmp_path: Path) -> None:
    with (
        ModelServer(lambda _: error_answer(503, "busy")) as model,
        served(tmp_path, model_url=model.url, log_format="json", log_level="info") as (server, client),
    ):
        path = opened(client)
        ids = failed_turn(client, path)
        lines = lines_so_far(server, client)
    for line in lines:
        assert {"timestamp", "level", "logger", "message"} <= line.keys()
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["timestamp"])
    (warning,) = [line for line in lines if line["message"].startswith("turn failed")]
    assert warning["level"] == "WARNING"
    fields = {name: warning[name] for name in ("tenant", "kind", "provider", "provider_status", "error", *ids)}
    assert fields == {
        "tenant": "local",
        "kind": "model_failed",
        "provider": "default",
        "provider_status": 503,
        "error": "ModelFailed",
        **ids,
    }
    requests = [line for line in lines if line.get("route", "").endswith("/turn")]
    (request,) = requests
    assert {name: request[name] for name in ("method", "status", "tenant", "principal", *ids)} == {
        "method": "POST",
        "status": 200,
        "tenant": "local",
        "principal": "local",
        **ids,
    }
    assert request["took_ms"] > 0
    assert request["request_id"]


def test_each_request_is_one_line_and_its_id_is_in_the_answer(tmp_path: Path) -> None:
    with served(tmp_path, log_format="json") as (server, client):
        session = opened(client)
        answers = [
            client.request("GET", session),
            client.request("GET", f"{session}/turn/none"),
            client.request("GET", "/v1/nothing-of-this-name"),
            client.request("PUT", "/v1/agents"),
            client.request("POST", "/v1/agents", json={"agent_config": 7}),
            client.request("POST", "/v1/openai/v1/moderations", json={}),
            client.request("GET", "/v1/version"),
        ]
        lines = lines_so_far(server, client)
    assert [answer.status_code for answer in answers] == [200, 404, 404, 405, 400, 501, 200]
    for answer in answers:
        (line,) = [line for line in lines if line.get("request_id") == answer.headers["x-request-id"]]
        assert line["status"] == answer.status_code
        assert line["level"] == "INFO"
    refused = [(line["status"], line.get("error")) for line in lines if line.get("status", 0) >= 400]
    assert refused == [(404, "NotFound"), (404, None), (405, None), (400, "InvalidBody"), (501, "NotServed")]


def test_ids_in_bodies_and_answers_are_in_the_line(tmp_path: Path) -> None:
    with served(tmp_path, log_format="json") as (server, client):
        agent = client.post("/v1/agents", json={"agent_config": {"model": "offline", "instructions": ""}}).json()
        created = {"agent_id": agent["agent_id"], "session_name": "s"}
        session = client.post("/agents/session/create", json=created).json()
        client.post("/v1/openai/v1/chat/completions", json={**question(stream=False), "model": "offline"})
        lines = lines_so_far(server, client)
    by_route = {line["route"]: line for line in lines if "route" in line}
    assert by_route["/v1/agents"]["agent_id"] == agent["agent_id"]
    assert by_route["/agents/session/create"]["agent_id"] == agent["agent_id"]
    assert by_route["/agents/session/create"]["session_id"] == session["session_id"]
    assert by_route["/v1/openai/v1/chat/completions"]["model"] == "offline"
    assert WORDS not in server.log


HOSTILE = 'x\r\n2026-01-01T00:00:00.000Z WARNING forged \u2028\x85\x1b[31m\u202e status=200 "quoted" \x00' + "y" * 5_000


@pytest.mark.parametrize("form", ["json", "text"])
def test_text_of_a_request_can_forge_no_line(tmp_path: Path, form: str) -> None:
    with served(tmp_path, log_format=form) as (server, client):
        client.request("GET", f"/v1/agents/{quote(HOSTILE, safe='')}")
        client.request("GET", f"/{quote(HOSTILE, safe='')}")
        client.request("POST", "/agents/session/create", json={"agent_id": HOSTILE, "session_name": HOSTILE})
        client.request("POST", "/v1/openai/v1/embeddings", json={"model": HOSTILE, "input": "x"})
        client.get("/v1/version")
        greeting, _, log = server.log.partition("stays in")
    lines = log.split("\n")[1:-1]
    assert len(log.splitlines()) == len(lines) + 1, "a character that ends lines was left in"
    for line in lines:
        assert line.isascii() or line.isprintable()
        assert len(line) < 2_000
        if not line:
            continue  # the greeting ends so
        assert TEXT_LINE.fullmatch(line) if form == "text" else json.loads(line)
    assert not [line for line in lines if line.startswith("2026-01-01")]
    assert greeting


def test_a_fallback_and_an_open_circuit_are_logged_with_their_cause(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text(
        f"""
        default_provider = "good"
        [providers.good]
        type = "openai"
        url = "GOOD"
        [providers.gone]
        type = "openai"
        url = "http://user:pass@127.0.0.1:{free_port()}/v1"
        [models.careful]
        provider = "gone"
        model = "instant"
        fallbacks = [{{provider = "good", model = "instant"}}]
        """
    )
    with ModelServer() as model:
        file = tmp_path / "models.toml"
        file.write_text(file.read_text().replace("GOOD", model.url))
        with served(tmp_path, config=file, log_format="json") as (server, client):
            session = opened(client, "careful")
            for _ in range(4):
                client.post(f"{session}/turn", json=question("hello", stream=False))
            lines = lines_of(server)
    fallbacks = [line for line in lines if line["message"].startswith("provider failed, falling back")]
    assert [line["provider"] for line in fallbacks] == ["gone"] * 3
    assert {line["session_id"] for line in fallbacks} == {session.rpartition("/")[2]}
    assert all(line["agent_id"] and line["turn_id"] for line in fallbacks)
    assert {(line["level"], line["error"], line["cause"]) for line in fallbacks} == {
        ("WARNING", "ModelFailed", "NewConnectionError")
    }
    (resting,) = [line for line in lines if "rests" in line["message"]]
    assert (resting["level"], resting["provider"], resting["model"]) == ("WARNING", "gone", "instant")
    assert "user:pass" not in server.log
    assert not [line for line in lines if line["message"].startswith("turn failed")]


def test_an_idle_server_is_silent(tmp_path: Path) -> None:
    with served(tmp_path, lease_seconds=0.3, log_format="json") as (server, client):
        client.request("GET", "/v1/version")
        wait_until(lambda: '"GET /v1/version' in server.log, 5, "the request was not logged")  # after its answer
        before = len(server.log)
        time.sleep(2)
        assert server.log[before:] == ""


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [("log_level", "loud", "DEBUG, INFO, WARNING or ERROR"), ("log_format", "xml", "text or json")],
)
def test_a_wrong_setting_stops_the_start_and_names_its_values(
    tmp_path: Path, name: str, value: str, named: str
) -> None:
    environment = server_environment({"data_dir": tmp_path, "port": 0, name: value})
    ended = subprocess.run(server_command(), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 1
    assert f"TURNSTONE_{name.upper()}" in ended.stderr
    assert named in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_level_above_leaves_requests_out(tmp_path: Path) -> None:
    with (
        ModelServer(lambda _: error_answer(500, "no")) as model,
        served(tmp_path, model_url=model.url, log_level="WARNING", log_format="json") as (server, client),
    ):
        failed_turn(client, opened(client))
        assert {line["level"] for line in lines_of(server)} == {"WARNING"}


def test_a_turn_whose_process_was_killed_repeatedly_is_one_warning(tmp_path: Path) -> None:
    with (
        ModelServer(lambda _: (*text_answer("…")[:1], Pause(60.0))) as model,
        served(tmp_path, model_url=model.url, lease_seconds=0.3, log_format="json") as (server, client),
    ):
        path = opened(client)
        with client.stream("POST", f"{path}/turn", json=question()):
            pass
        for _ in range(5):
            seen = len(model.requests)
            server.kill()
            server.start()
            wait_until(
                lambda seen=seen: len(model.requests) > seen or "turn failed" in server.log,
                PATIENCE_S,
                "the turn was not taken over",
            )
        wait_until(lambda: "turn failed" in server.log, PATIENCE_S, "no warning")
        time.sleep(1)
        (warning,) = [line for line in lines_of(server) if line["message"].startswith("turn failed")]
    assert (warning["kind"], warning["level"], warning["cause"]) == ("ended", "WARNING", "process gone")
    assert WORDS not in server.log


def test_lines_of_several_processes_have_one_form_and_the_process_id(tmp_path: Path) -> None:
    with served(tmp_path, processes=2, log_format="json") as (server, client):
        opened(client)
        server.terminate(signal.SIGTERM)
        server.wait(PATIENCE_S)
        lines = lines_of(server)
        assert "WARNING" not in printed(server)
    assert len({line["process"] for line in lines}) >= 1
    assert all(isinstance(line["process"], int) for line in lines)
