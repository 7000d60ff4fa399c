"""A chat's requests: their headers and bodies, the errors of refusals, and how a lost stream is resumed.

Covers: functions/command/client, functions/command/chat/session, functions/command/wire,
  settings/client_settings
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from functions.command.chat.session import ChatSession
from functions.command.client import Client, CommandFailed, ConnectionLost, NoServer, NotUnderstood, Refused
from functions.command.wire import StreamEvent
from turnstone.settings.client_settings import ClientSettings

KEY = "key-0123456789"
STREAM = "text/event-stream; charset=utf-8"


@dataclass
class Reply:
    """A reply to one request; one that is cut hangs up before its end."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    is_cut: bool = False


@dataclass
class Received:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Loopback:
    """A server that answers one request after the other from a list."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.received: list[Received] = []
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("content-length", 0))
                body = json.loads(self.rfile.read(length)) if length else None
                headers = {name.lower(): value for name, value in self.headers.items()}
                loopback.received.append(Received(self.command, self.path, headers, body))
                reply = loopback.replies.pop(0)
                self.close_connection = True
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(reply.body) + reply.is_cut))
                self.end_headers()
                self.wfile.write(reply.body)

            do_GET = do_POST = answer

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Loopback:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server


@pytest.fixture
def client(loopback: Loopback) -> Iterator[Client]:
    made = Client(ClientSettings(url=f"{loopback.url}/v1/", api_key=KEY), {"x_api_key": "süß"})
    yield made
    made.close()


@pytest.fixture
def session(client: Client) -> ChatSession:
    return ChatSession(client, "a/1", "s", {}, on_loss=lambda: None)


def stream(*events: dict[str, Any], first: int | None = None, is_cut: bool = False) -> Reply:
    """Return an answer of these events, numbered from `first` on if it is given."""
    body = ""
    for number, event in enumerate(events, first or 0):
        payload = event if "error" in event else {"event": {"payload": event}}
        body += (f"id: {number}\n" if first else "") + f"data: {json.dumps(payload)}\n\n"
    return Reply(body.encode(), headers={"content-type": STREAM}, is_cut=is_cut)


def state(status: str) -> Reply:
    return Reply(b'{"steps": []}', headers={"x-turn-status": status, "x-turn-tokens": "7"})


START = {"event_type": "turn_start", "turn_id": "t"}
STEP = {"event_type": "step_start", "step_type": "inference", "step_id": "s", "metadata": {}}
END = {"event_type": "turn_complete", "turn": {}}
WAITS = {"event_type": "turn_awaiting_input", "turn": {}}


def kinds(events: Iterator[StreamEvent]) -> list[str]:
    return [event.kind or f"error: {event.error}" for event in events]


# ── headers and bodies of requests ───────────────────────────────────────────────────────────────────────────────


def test_the_key_goes_with_every_request_and_provider_data_with_turns_only(
    loopback: Loopback, client: Client, session: ChatSession
) -> None:
    loopback.replies = [Reply(b"{}"), stream(START, END)]
    client.get("/models")
    list(session.begin("hello"))
    get, turn = loopback.received
    assert (get.path, turn.path) == ("/v1/models", "/v1/agents/a%2F1/session/s/turn")
    assert get.headers["authorization"] == turn.headers["authorization"] == f"Bearer {KEY}"
    assert "x-llamastack-provider-data" not in get.headers
    assert json.loads(turn.headers["x-llamastack-provider-data"]) == {"x_api_key": "süß"}
    assert turn.body == {"messages": [{"role": "user", "content": "hello"}], "stream": True}
    assert KEY not in repr(ClientSettings(api_key=KEY))


def test_a_request_whose_connection_breaks_is_sent_once_more_under_its_key(loopback: Loopback, client: Client) -> None:
    loopback.replies = [Reply(b"{", is_cut=True), Reply(b'{"agent_id": "a"}')]
    assert client.post("/agents", {}) == {"agent_id": "a"}
    first, second = (request.headers["idempotency-key"] for request in loopback.received)
    assert first == second
    loopback.replies = [Reply(b"{", is_cut=True)] * 2
    with pytest.raises(ConnectionLost):
        client.post("/agents", {})
    assert loopback.received[-1].headers["idempotency-key"] != first


# ── errors of refusals ───────────────────────────────────────────────────────────────────────────────────────────

PROBLEMS = b'{"error": {"detail": {"errors": [{"loc": ["agent_config", "model"], "msg": "Field required"}]}}}'


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (
            Reply(b'{"detail": "this route wants a key", "code": "unauthenticated"}', 401),
            Refused,
            "this route wants a key. The server does not accept the key of --api-key or TURNSTONE_API_KEY",
        ),
        (
            Reply(b'{"detail": "send them", "code": "tool_credentials_missing"}', 401),
            Refused,
            "send them. Send credentials of the toolgroup's server with --provider-data.",
        ),
        (
            Reply(b'{"detail": "a turn runs.", "code": "turn_running"}', 409),
            Refused,
            "a turn runs. Wait until it has ended",
        ),
        (Reply(b'{"detail": "the key is used", "code": "idempotency_key_reused"}', 409), Refused, "the key is used."),
        (Reply(b'{"detail": "no agent \'a\'"}', 404), Refused, "no agent 'a'."),
        (Reply(PROBLEMS, 400), Refused, "agent_config.model: Field required."),
        (Reply(b"<html>", 404), NotUnderstood, "status 404"),
        (Reply(b"<html>", 200), NotUnderstood, "status 200"),
        (Reply(b"[]", 200), NotUnderstood, "status 200"),
        (Reply(b"", 307, {"location": "http://127.0.0.1:1/"}), NotUnderstood, "status 307"),
        (Reply(b"Bad Gateway", 502), ConnectionLost, "was lost"),
    ],
)
def test_a_refusal_has_its_reason_and_a_remedy(
    loopback: Loopback, client: Client, reply: Reply, kind: type[CommandFailed], message: str
) -> None:
    loopback.replies = [reply]
    with pytest.raises(kind) as refused:
        client.get("/models")
    assert message in str(refused.value)
    assert KEY not in str(refused.value)
    assert len(loopback.received) == 1


def test_an_error_for_a_missing_key_names_the_option_and_the_variable(loopback: Loopback) -> None:
    loopback.replies = [Reply(b'{"detail": "this route wants a key", "code": "unauthenticated"}', 401)]
    client = Client(ClientSettings(url=loopback.url))
    with pytest.raises(Refused, match=r"wants a key\. Name a key with TURNSTONE_API_KEY or --api-key"):
        client.get("/models")
    client.close()


# ── streams that are lost ────────────────────────────────────────────────────────────────────────────────────────


def test_a_lost_stream_is_resumed_behind_the_last_received_event(loopback: Loopback, session: ChatSession) -> None:
    losses: list[None] = []
    session.on_loss = lambda: losses.append(None)
    again = stream(STEP, first=None, is_cut=True)  # the repeated event has no number
    loopback.replies = [stream(START, STEP, is_cut=True), again, stream(END, first=3)]
    assert kinds(session.begin("hello")) == ["turn_start", "step_start", "step_start", "turn_complete"]
    posted, *followed = loopback.received
    assert [received.path for received in followed] == [f"{posted.path}/t/events"] * 2
    assert [received.headers["last-event-id"] for received in followed] == ["2", "2"]
    assert len(losses) == 2
    assert session.received.number == 3


def test_numbers_continue_over_a_pause(loopback: Loopback, session: ChatSession) -> None:
    loopback.replies = [stream(START, WAITS), stream(STEP, is_cut=True), stream(END, first=4)]
    assert kinds(session.begin("hello")) == ["turn_start", "turn_awaiting_input"]
    assert kinds(session.resume([])) == ["step_start", "turn_complete"]
    assert loopback.received[-1].headers["last-event-id"] == "3"


def test_a_turn_without_a_received_event_is_requested_again_under_its_key(
    loopback: Loopback, session: ChatSession
) -> None:
    loopback.replies = [stream(is_cut=True), Reply(b"gateway", 504), stream(START, END)]
    assert kinds(session.begin("hello")) == ["turn_start", "turn_complete"]
    assert [request.method for request in loopback.received] == ["POST"] * 3
    assert len({request.headers["idempotency-key"] for request in loopback.received}) == 1


def test_an_error_ends_a_turn_only_if_the_turn_has_ended(loopback: Loopback, session: ChatSession) -> None:
    stops, fails = {"error": {"message": "the server is shutting down"}}, {"error": {"message": "the model failed"}}
    replies = [stream(START, stops), state("in_progress"), stream(STEP, fails, first=2), state("failed")]
    loopback.replies = [*replies, state("failed")]
    assert kinds(session.begin("hello")) == ["turn_start", "step_start", "error: the model failed"]
    assert session.state().status == "failed"
    assert loopback.replies == []


def test_a_running_turn_is_cancelled_and_an_ended_one_is_not(loopback: Loopback, session: ChatSession) -> None:
    turns = {"turns": [{"turn_id": "t", "input_messages": [{"role": "user", "content": "hello"}]}]}
    loopback.replies = [Reply(b'{"detail": "x"}', 409), Reply(json.dumps(turns).encode())]
    with pytest.raises(Refused):
        list(session.begin("good morning"))
    assert not session.cancel()  # another client's turn

    loopback.replies = [Reply(b'{"detail": "x"}', 409), Reply(json.dumps(turns).encode())]
    loopback.replies += [state("in_progress"), Reply(b"{}")]
    with pytest.raises(Refused):
        list(session.begin("hello"))
    assert session.cancel()  # before its first event, so that its id is not yet received
    assert (loopback.received[-1].method, loopback.received[-1].path.rpartition("/t/")[2]) == ("POST", "cancel")

    loopback.replies = [state("completed")]
    assert not session.cancel()
    assert loopback.received[-1].method == "GET"


def test_a_refused_connection_is_an_error_at_once() -> None:
    with Loopback() as loopback:
        url = loopback.url
    client = Client(ClientSettings(url=url))
    with pytest.raises(NoServer, match="turnstone serve"):
        list(ChatSession(client, "a", "s", {}, on_loss=lambda: None).begin("hello"))
    client.close()


# ── results of tools that run here ───────────────────────────────────────────────────────────────────────────────


class Away(Client):
    """A client whose server is away for the first requests."""

    def __init__(self, settings: ClientSettings, problems: list[CommandFailed]) -> None:
        super().__init__(settings)
        self.problems = problems

    def posted(self, path: str, body: Any, key: str) -> Iterator[StreamEvent]:
        if self.problems:
            raise self.problems.pop(0)
        return super().posted(path, body, key)


@pytest.mark.parametrize("problem", [NoServer("http://h"), Refused(503, "it starts"), ConnectionLost("http://h")])
def test_the_results_of_tools_wait_for_a_server_that_is_away(loopback: Loopback, problem: CommandFailed) -> None:
    client = Away(ClientSettings(url=loopback.url), [problem] * 3)
    losses: list[None] = []
    session = ChatSession(client, "a", "s", {}, on_loss=lambda: losses.append(None))
    session.received.turn_id = "t"
    loopback.replies = [stream(STEP, END)]
    assert kinds(session.resume([{"call_id": "c"}])) == ["step_start", "turn_complete"]
    (resumed,) = loopback.received
    assert resumed.body == {"tool_responses": [{"call_id": "c"}], "stream": True}
    assert len(losses) == 1
    client.close()


@pytest.mark.parametrize("problem", [NoServer("http://h"), Refused(503, "it starts")])
def test_a_message_does_not_wait_for_a_server_that_is_not_there(loopback: Loopback, problem: CommandFailed) -> None:
    client = Away(ClientSettings(url=loopback.url), [problem])
    session = ChatSession(client, "a", "s", {}, on_loss=lambda: pytest.fail("nothing was lost"))
    with pytest.raises(type(problem)):
        list(session.begin("hello"))
    client.close()


def test_results_do_not_wait_for_a_server_longer_than_two_minutes(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functions.command.chat.session.REJOIN_S", 0.3)
    client = Away(ClientSettings(url=loopback.url), [NoServer("http://h")] * 100)
    session = ChatSession(client, "a", "s", {}, on_loss=lambda: None)
    with pytest.raises(CommandFailed, match=r"could not be restored within 0\.3 s"):
        list(session.resume([]))
    client.close()
