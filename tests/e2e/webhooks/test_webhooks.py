"""Webhooks of a server as a process: the command, OpenAI's client as receiver, redirects, and a killed server.

Covers: functions/command/webhooks, functions/tenant, services/webhooks, domain/webhooks
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.fakes.web.web_server import WebAnswer, WebRequest, WebServer
from tests.support.clients.client_script import run_script
from tests.support.clients.plain_client import PlainClient
from tests.support.clients.terminal import chat_environment
from tests.support.engine.either_store import made_over_sqlite
from tests.support.engine.responses import responded
from tests.support.engine.webhooks import create, receiver_of, run_due
from tests.support.needs import need_clients
from tests.support.server.servers import ServerProcess, wait_until
from tests.support.starts.commands import run_command

pytestmark = pytest.mark.timeout(180)
HELLO = {"messages": [{"role": "user", "content": "hello"}]}
WITHIN_S = 60.0
OTHER_SECRET = "whsec_" + "c2VjcmV0" * 5


class Receiver:
    """Answers with these statuses in order, and 204 afterwards; one that waits answers nothing until it is released."""

    def __init__(self, *answers: WebAnswer) -> None:
        self._answers = list(answers)
        self.waits_for: Event | None = None

    def __call__(self, _: WebRequest) -> WebAnswer:
        if self.waits_for is not None:
            self.waits_for.wait(WITHIN_S)
        return self._answers.pop(0) if self._answers else WebAnswer(204, media_type=None)


@contextmanager
def served(folder: Path, receiver: Receiver) -> Iterator[tuple[ServerProcess, WebServer]]:
    with (
        WebServer(receiver) as web,
        ServerProcess(folder, fetch_allow=f"127.0.0.1:{web.port}", lease_seconds=1) as server,
    ):
        try:
            yield server, web
        finally:
            if receiver.waits_for is not None:
                receiver.waits_for.set()


def ended(server: ServerProcess, *arguments: str) -> tuple[int, str, str]:
    """Return exit status, output and errors of the command."""
    done = run_command("webhooks", *arguments, environment=chat_environment(server.url))
    return done.returncode, done.stdout, done.stderr


def as_json(server: ServerProcess, *arguments: str) -> Any:
    status, out, err = ended(server, *arguments, "--json")
    assert (status, err) == (0, ""), (status, err)
    return json.loads(out)


def turn(server: ServerProcess) -> None:
    with PlainClient(server.url) as client:
        path = client.open_session("offline")
        assert client.post(f"{path}/turn", HELLO).status_code == 200


def test_the_command_manages_webhooks_and_their_deliveries(tmp_path: Path) -> None:
    with served(tmp_path, Receiver()) as (server, web):
        status, out, _ = ended(server, "add", f"{web.url}/hook", "--event", "turn.completed", "--description", "desk")
        assert status == 0
        line, secret = out.splitlines()
        webhook_id = line.rpartition("id=")[2]
        assert secret.startswith("secret: whsec_")
        (listed,) = as_json(server, "list")
        assert (listed["webhook_id"], listed["description"]) == (webhook_id, "desk")
        assert secret.removeprefix("secret: ") not in json.dumps(listed) + server.log
        turn(server)
        wait_until(lambda: bool(web.requests), WITHIN_S, "no event came")
        wait_until(
            lambda: as_json(server, "deliveries", webhook_id)[0]["status"] == "delivered", WITHIN_S, "it stays pending"
        )
        (delivery,) = as_json(server, "deliveries", webhook_id, "--limit", "1")
        status, out, _ = ended(server, "resend", webhook_id, delivery["delivery_id"])
        assert (status, out.split()[:2]) == (0, ["turn.completed", "pending"])
        wait_until(lambda: len(web.requests) == 2, WITHIN_S, "it was not sent again")
        first, second = web.requests
        assert first.headers["webhook-id"] == second.headers["webhook-id"] == delivery["event_id"]
        assert ended(server, "remove", webhook_id, "none")[:2] == (1, f"removed {webhook_id}\n")
        assert as_json(server, "list") == []
        turn(server)
        status, _, err = ended(server, "deliveries", webhook_id)
        assert (status, "not found" in err) == (1, True)
    assert len(web.requests) == 2


def test_openais_client_verifies_each_request(tmp_path: Path) -> None:
    need_clients("openai")
    with served(tmp_path, Receiver()) as (server, web):
        secret = as_json(server, "add", f"{web.url}/hook")["secret"]
        turn(server)
        wait_until(lambda: bool(web.requests), WITHIN_S, "no event came")
        sent = [{"headers": dict(request.headers), "body": request.body.decode()} for request in web.requests]
    seen = verified(tmp_path, secret, sent)
    ((_, event_type, event_id, data),) = seen["events"]
    assert (event_type, event_id) == ("turn.completed", sent[0]["headers"]["webhook-id"])
    assert set(data) == {"agent_id", "session_id", "turn_id"}
    assert seen["refused"] == [True] * 4


def test_openais_client_reads_the_event_of_a_response(tmp_path: Path) -> None:
    need_clients("openai")
    for make in made_over_sqlite(tmp_path):
        server = make("Done.")
        server.clock.at = datetime.now(UTC)  # type: ignore[attr-defined]  # a receiver refuses old requests
        _, secret = create(server)
        response = responded(server, background=True)
        run_due(server)
        (request,) = receiver_of(server).received
    seen = verified(tmp_path, secret, [{"headers": dict(request.headers), "body": request.body.decode()}])
    ((kind, event_type, _, data),) = seen["events"]
    assert (kind, event_type) == ("ResponseCompletedWebhookEvent", "response.completed")
    assert data == {"id": response["id"]}


def test_a_response_in_the_background_sends_its_event_and_one_within_its_request_none(tmp_path: Path) -> None:
    body = {"model": "offline", "input": "hello"}
    with served(tmp_path, Receiver()) as (server, web), PlainClient(server.url) as client:
        as_json(server, "add", f"{web.url}/hook", "--event", "response.completed")
        assert client.post("/v1/responses", body).json()["status"] == "completed"
        response = client.post("/v1/responses", {**body, "background": True}).json()
        assert response["status"] == "queued"
        wait_until(lambda: bool(web.requests), WITHIN_S, "no event came")
    (event,) = [json.loads(request.body) for request in web.requests]
    assert (event["type"], event["data"]) == ("response.completed", {"id": response["id"]})


def verified(folder: Path, secret: str, requests: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the report of OpenAI's client about the requests."""
    path = folder / "requests.json"
    path.write_text(json.dumps(requests))
    return run_script("openai", "openai_webhooks", secret, OTHER_SECRET, str(path))


def test_a_failing_receiver_gets_the_event_again_and_a_redirect_is_not_followed(tmp_path: Path) -> None:
    with WebServer(Receiver()) as other:
        moved = WebAnswer(307, headers={"Location": f"{other.url}/stolen"})
        with served(tmp_path, Receiver(moved)) as (server, web):
            webhook_id = as_json(server, "add", f"{web.url}/hook")["webhook_id"]
            turn(server)
            wait_until(lambda: len(web.requests) == 2, WITHIN_S, "the event did not come again")
            wait_until(
                lambda: as_json(server, "deliveries", webhook_id)[0]["status"] == "delivered", WITHIN_S, "it is pending"
            )
            (delivery,) = as_json(server, "deliveries", webhook_id)
    assert not other.requests
    assert "redirect" in delivery["tries"][0]["error"]
    assert [done["status"] for done in delivery["tries"]] == [None, 204]


def test_a_server_that_is_killed_during_a_request_sends_the_event_after_its_restart(tmp_path: Path) -> None:
    receiver = Receiver()
    receiver.waits_for = Event()
    with served(tmp_path, receiver) as (server, web):
        as_json(server, "add", f"{web.url}/hook")
        turn(server)
        wait_until(lambda: bool(web.requests), WITHIN_S, "no event came")
        server.kill()
        receiver.waits_for.set()
        server.start()
        wait_until(lambda: len(web.requests) == 2, WITHIN_S, "the event did not come again")
        first, second = web.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body


def test_private_urls_and_unusable_arguments_are_refused(tmp_path: Path) -> None:
    with served(tmp_path, Receiver()) as (server, _):
        status, _, err = ended(server, "add", "http://10.0.0.1/hook")
        assert (status, "url" in err) == (1, True), err
        assert ended(server, "add", "https://hooks.example/", "--event", "turn.started")[0] == 2
        assert ended(server, "deliveries", "none", "--limit", "0")[0] == 2
        assert as_json(server, "list") == []
