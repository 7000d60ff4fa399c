"""The edge of a Lambda: the same routes behind API Gateway's events and behind the Lambda Web Adapter.

Covers: edge/gateway, edge/worker, http/server/app, http/envelopes
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, quote

import pytest

import turnstone.bootstrap.places.aws
import turnstone.bootstrap.services.turns
from functions.local.routes import ROUTES
from tests.fakes.models.scripted import Scripted, ScriptedReply, call
from tests.support.aws.aws_events import Context
from tests.support.engine.harness import Harness, Held, client_tool, eventually
from tests.support.server.asgi_client import AsgiClient, Raw, scope_of
from turnstone.adapters.machine.system import SystemClock
from turnstone.bootstrap.core import Core
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import ModelFailed
from turnstone.domain.errors.codes import ErrorCode
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.turns.turns import TurnStatus
from turnstone.edge.gateway import MOST_ANSWER_BYTES, TOO_LARGE, LambdaHandler
from turnstone.edge.worker import TurnWorker
from turnstone.http.dialects import OPENAI
from turnstone.http.envelopes import DETAIL
from turnstone.http.origins.cross_origin import EXPOSED
from turnstone.http.replies import Reply
from turnstone.http.request import Request
from turnstone.http.route import Route
from turnstone.http.server.app import NO_PATH
from turnstone.http.server.hosting import CONTEXT_HEADER, LAMBDA_HEADER, BehindAdapter

ANN = {"accountId": "111111111111", "userArn": "arn:aws:iam::111111111111:user/ann"}
AMY = {"accountId": "111111111111", "userArn": "arn:aws:iam::111111111111:user/amy"}
BOB = {"accountId": "222222222222", "userArn": "arn:aws:iam::222222222222:user/bob"}
NOBODY: dict[str, Any] = {
    "no identity": {"requestId": "r"},
    "identity null": {"requestId": "r", "identity": None},
    "identity empty": {"identity": {}},
    "identity a text": {"identity": "ann"},
    "account null": {"identity": {**ANN, "accountId": None}},
    "account empty": {"identity": {**ANN, "accountId": ""}},
    "account a number": {"identity": {**ANN, "accountId": 111111111111}},
    "ARN missing": {"identity": {"accountId": ANN["accountId"]}},
    "ARN a list": {"identity": {**ANN, "userArn": [ANN["userArn"]]}},
    "context null": None,
    "context a text": "ann",
}
SIGHT = call("look", "l")
DICE = {"dice": {"roll": lambda arguments: "4"}}
BEFORE_HAND_OVER_MS = 60_000
LONG_MS = 900_000
CONFIG = AgentConfig(model="scripted", instructions="", toolgroups=("dice",), client_tools=(client_tool(),))
AGENT = {"agent_config": CONFIG.model_dump(mode="json", exclude_none=True)}


@dataclass(frozen=True)
class Answered:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The payloads of a stream, without pings."""
        lines = [line for line in self.body.decode().splitlines() if line.startswith("data: ")]
        return [json.loads(line.removeprefix("data: ")) for line in lines]


class Deployment:
    """A Lambda whose records are in a database here."""

    def __init__(self, server: Harness) -> None:
        self.server = server
        self.handler = LambdaHandler("another module", *ROUTES)


class Door:
    """One way to send a request to the routes of a deployment."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment

    def fetch(
        self,
        method: str,
        path: str,
        body: object = None,
        identity: Any = ANN,
        left_ms: int = LONG_MS,
        headers: Mapping[str, str] | None = None,
        resource: str | None = None,
    ) -> Answered:
        """Send a request whose caller has this identity; `path` is as the client writes it, query included.

        Args:
            resource: the one that the gateway chose, None for one that takes every path.
        """
        context = {"requestId": "request-7", "accountId": "999999999999", "identity": identity}
        if resource is not None:
            context["resourcePath"] = resource
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return self.send(method, path, sent, context, left_ms, headers or {})

    def send(
        self, method: str, path: str, body: bytes, context: Any, left_ms: int, headers: Mapping[str, str]
    ) -> Answered:
        raise NotImplementedError

    def agent(self, identity: Any = ANN) -> str:
        return str(self.fetch("POST", "/v1/agents", AGENT, identity).json["agent_id"])

    def session(self, identity: Any = ANN) -> str:
        """Return the path of a new session of a new agent."""
        path = f"/v1/agents/{self.agent(identity)}/session"
        return f"{path}/{self.fetch('POST', path, {'session_name': 's'}, identity).json['session_id']}"


class Gateway(Door):
    """As API Gateway calls the function."""

    def send(
        self, method: str, path: str, body: bytes, context: Any, left_ms: int, headers: Mapping[str, str]
    ) -> Answered:
        event = event_of(method, path, body, context, headers)
        return answered(self.deployment.handler(event, Context(left_ms)))


class Adapter(Door):
    """As the Lambda Web Adapter calls the web server in the function."""

    def __init__(self, deployment: Deployment) -> None:
        super().__init__(deployment)
        self._client: AsgiClient | None = None

    def send(
        self, method: str, path: str, body: bytes, context: Any, left_ms: int, headers: Mapping[str, str]
    ) -> Answered:
        raw = self.request(method, path, body, context, left_ms, headers)
        answer = self.client.send(raw)
        return Answered(answer.status, answer.headers, answer.body)

    @property
    def client(self) -> AsgiClient:
        if self._client is None:
            self._client = AsgiClient(self.deployment.handler.app(BehindAdapter()))  # type: ignore[arg-type] # ASGI is ASGI
        return self._client

    def request(
        self, method: str, path: str, body: bytes, context: Any, left_ms: int, headers: Mapping[str, str]
    ) -> Raw:
        deadline = {"deadline": round(time.time() * 1_000) + left_ms}
        sent = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        added = [(CONTEXT_HEADER, json.dumps(context).encode()), (LAMBDA_HEADER, json.dumps(deadline).encode())]
        return Raw(method, path.encode(), (body,), (*sent, *added))

    def close(self) -> None:
        if self._client is not None:
            self._client._loop.close()


def event_of(method: str, path: str, body: bytes, context: Any, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the proxy event of a REST API."""
    target, _, query = path.partition("?")
    values = parse_qs(query, keep_blank_values=True)
    return {
        "resource": "/{proxy+}",
        "path": target,
        "httpMethod": method,
        "headers": dict(headers) or None,
        "multiValueHeaders": {name: [value] for name, value in headers.items()} or None,
        "queryStringParameters": {name: found[-1] for name, found in values.items()} or None,
        "multiValueQueryStringParameters": values or None,
        "pathParameters": None,
        "stageVariables": None,
        "requestContext": context,
        "body": body.decode() if body else None,
        "isBase64Encoded": False,
    }


def answered(answer: Mapping[str, Any]) -> Answered:
    """Return the response that API Gateway sends for a function's answer."""
    assert set(answer) == {"statusCode", "headers", "multiValueHeaders", "body", "isBase64Encoded"}
    text = json.loads(json.dumps(answer))["body"]
    body = base64.b64decode(text) if answer["isBase64Encoded"] else text.encode()
    return Answered(answer["statusCode"], answer["headers"], body)


pytestmark = pytest.mark.usefixtures("in_a_lambda")
MakeDeployment = Callable[..., Deployment]


@pytest.fixture
def deployment_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeDeployment]:
    """Make a deployment whose model has this script."""
    monkeypatch.setenv("TURNSTONE_TABLE", "turns")
    monkeypatch.setenv("TURNSTONE_BUCKET", "payloads")
    monkeypatch.setattr(turnstone.bootstrap.services.turns, "FOLLOW_S", 0.02)
    servers: list[Harness] = []

    def make(*script: Scripted) -> Deployment:
        server = on_lambda(Harness(tmp_path, script, DICE, clock=SystemClock()))  # type: ignore[arg-type]
        servers.append(server)
        monkeypatch.setattr(turnstone.bootstrap.places.aws, "build_lambda_core", lambda _: server.core)
        return Deployment(server)

    yield make
    for server in servers:
        server.close()


def on_lambda(server: Harness) -> Harness:
    server.core = Core(server.core.foundation.ports, server.core.foundation.settings, is_on_lambda=True).load()
    server.turns, server.reader = server.core.turns, server.core.reader
    return server


OpenDoor = Callable[..., Door]


@pytest.fixture(params=[Gateway, Adapter])
def door_to(request: pytest.FixtureRequest, deployment_of: MakeDeployment) -> Iterator[OpenDoor]:
    """Open a door, of either kind, to a deployment whose model has this script."""
    doors: list[Door] = []

    def open_door(*script: Scripted) -> Door:
        doors.append(request.param(deployment_of(*script)))
        return doors[-1]

    yield open_door
    for door in doors:
        if isinstance(door, Adapter):
            door.close()


def turn_body(words: str = "hello", *, stream: bool = False) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": words}], "stream": stream}


def responses(content: str = "seen") -> dict[str, Any]:
    return {"tool_responses": [{"call_id": "l", "tool_name": "look", "content": content}]}


# ---- the caller


@pytest.mark.parametrize("context", NOBODY.values(), ids=NOBODY)
def test_a_request_without_an_identity_is_refused_and_nothing_is_stored(door_to: OpenDoor, context: Any) -> None:
    door = door_to("never")
    path = door.session()
    before = door.deployment.server.dump()
    requests = [("POST", "/v1/agents", AGENT), ("POST", f"{path}/turn", turn_body()), ("GET", path, None)]
    for method, target, body in requests:
        sent = json.dumps(body).encode() if body else b""
        answer = door.send(method, target, sent, context, LONG_MS, {})
        assert (answer.status, answer.headers["x-should-retry"]) == (401, "false")
        assert "no identity" in answer.json["detail"]
    assert before == door.deployment.server.dump()
    assert not door.deployment.server.inference.requests


def test_an_event_without_a_context_is_refused(deployment_of: MakeDeployment) -> None:
    event = event_of("GET", "/v1/version", b"", {}, {})
    del event["requestContext"]
    with pytest.raises(RuntimeError):  # if not even its kind is recognised
        deployment_of().handler({"path": "/v1/health"}, Context())
    assert deployment_of().handler(event, Context())["statusCode"] == 401


@pytest.mark.parametrize("header", [b"", b"no json", b"\xff", b"[]"])
def test_a_context_that_is_not_json_is_refused(deployment_of: MakeDeployment, header: bytes) -> None:
    door = Adapter(deployment_of())
    before = door.deployment.server.dump()
    raw = Raw("POST", b"/v1/agents", (json.dumps(AGENT).encode(),), ((CONTEXT_HEADER, header),))
    assert door.client.send(raw).status == 401
    assert before == door.deployment.server.dump()
    door.close()


def test_a_context_beside_a_clients_own_is_refused(deployment_of: MakeDeployment) -> None:
    door = Adapter(deployment_of())
    forged = json.dumps({"identity": BOB})
    context = {"identity": ANN}
    for name in (CONTEXT_HEADER.decode(), "X-Amzn-Request-Context"):
        assert (
            door.send("POST", "/v1/agents", json.dumps(AGENT).encode(), context, LONG_MS, {name: forged}).status == 401
        )
    door.close()


def test_a_request_without_an_identity_is_refused_before_its_body_is_read(deployment_of: MakeDeployment) -> None:
    door = Adapter(deployment_of())
    raw = door.request("POST", "/v1/agents", b"", {"identity": {}}, LONG_MS, {})
    sent: list[Mapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        raise AssertionError("the body is read")

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    door.client._loop.run_until_complete(door.client.app(scope_of(raw), receive, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 401
    door.close()


def test_forged_headers_have_no_effect_on_the_gateways_function(deployment_of: MakeDeployment) -> None:
    door = Gateway(deployment_of())
    path = f"/v1/agents/{door.agent(ANN)}"
    forged = {"x-amzn-request-context": json.dumps({"identity": ANN}), "x-amzn-lambda-context": '{"deadline": 0}'}
    assert door.fetch("GET", path, identity=BOB, headers=forged).status == 404
    assert door.fetch("GET", path, identity={}, headers=forged).status == 401
    assert door.fetch("GET", path, identity=ANN, headers=forged).status == 200


def test_two_accounts_see_nothing_of_each_other(door_to: OpenDoor) -> None:
    door = door_to("hello", SIGHT)
    path = door.session(ANN)
    ended = door.fetch("POST", f"{path}/turn", turn_body()).json
    waiting = door.fetch("POST", f"{path}/turn", turn_body()).json
    agent_id, session_id = path.split("/")[3], path.split("/")[5]
    foreign_ids = [agent_id, session_id, ended["turn_id"], waiting["turn_id"], ended["steps"][0]["step_id"]]
    foreign: list[tuple[str, str, object]] = [
        ("GET", f"/v1/agents/{agent_id}", None),
        ("POST", f"/v1/agents/{agent_id}/session", {"session_name": "s"}),
        ("GET", path, None),
        ("POST", f"{path}/turn", turn_body()),
        ("GET", f"{path}/turn/{ended['turn_id']}", None),
        ("GET", f"{path}/turn/{ended['turn_id']}/step/{ended['steps'][0]['step_id']}", None),
        ("POST", f"{path}/turn/{waiting['turn_id']}/resume", responses()),
    ]
    before = door.deployment.server.dump()
    for method, target, body in foreign:
        answer = door.fetch(method, target, body, BOB)
        missing = target
        for number, identifier in enumerate(foreign_ids):
            missing = missing.replace(identifier, str(number) * len(identifier))
        other = door.fetch(method, missing, body, BOB)
        text = answer.body.decode()
        for number, identifier in enumerate(foreign_ids):
            text = text.replace(identifier, str(number) * len(identifier))
        assert (answer.status, text) == (404, other.body.decode()), target
        assert {**answer.headers, "content-length": ""} == {**other.headers, "content-length": ""}
    assert before == door.deployment.server.dump()
    assert door.fetch("GET", path).status == 200
    assert door.fetch("GET", path, identity=AMY).status == 200


def test_an_idempotency_key_is_its_callers_own(door_to: OpenDoor) -> None:
    door = door_to()
    key = {"Idempotency-Key": "k"}
    made = [
        door.fetch("POST", "/v1/agents", AGENT, identity, headers=key).json["agent_id"]
        for identity in (ANN, ANN, AMY, BOB)
    ]
    assert made[0] == made[1]
    assert len(set(made)) == 3


# ---- paths, queries, bodies


PREFIXES = ("", "/live", "/base/path", "/v1", "/live/v1", "/v1/v1", "/v1/agents", "/alpha", "/agents", "/letta")


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_before_the_resource_is_not_part_of_the_path(door_to: OpenDoor, prefix: str) -> None:
    door = door_to()
    agent_id = door.agent()
    found = door.fetch("GET", f"{prefix}/v1/agents/{agent_id}", resource="/v1/agents/{agent_id}")
    assert found.json["agent_id"] == agent_id
    for path in ("/v1/health", "/alpha/health"):
        assert door.fetch("GET", f"{prefix}{path}", resource=path).json == {"status": "OK"}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_an_alias_leads_to_the_route_of_its_path(door_to: OpenDoor, prefix: str) -> None:
    door = door_to("one")
    agents, sessions = "/v1alpha/agents", "/v1alpha/agents/{agent_id}/session"
    agent_id = door.fetch("POST", prefix + agents, AGENT, resource=agents).json["agent_id"]
    path = f"{prefix}{agents}/{agent_id}/session"
    session = f"{path}/{door.fetch('POST', path, {'session_name': 's'}, resource=sessions).json['session_id']}"
    turn = door.fetch("POST", f"{session}/turn", turn_body(), resource=sessions + "/{session_id}/turn").json
    assert turn["output_message"]["content"] == "one"
    assert door.fetch("GET", session, resource=sessions + "/{session_id}").json["turns"] == [turn]
    assert door.fetch("GET", f"{prefix}/openapi.json", resource="/openapi.json").json["openapi"] == "3.1.0"


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_before_a_path_of_september_2024_is_not_part_of_it(door_to: OpenDoor, prefix: str) -> None:
    door = door_to("one")

    def post(path: str, body: object) -> Answered:
        return door.fetch("POST", prefix + path, body, resource=path)

    agent = post("/agents/create", AGENT).json
    session = {**agent, **post("/agents/session/create", {**agent, "session_name": "s"}).json}
    turn = post("/agents/turn/create", {**session, **turn_body()}).json
    assert turn["output_message"]["content"] == "one"
    assert post("/agents/turn/get", {**agent, "turn_id": turn["turn_id"]}).json == turn
    assert post("/agents/session/get", session).json["turns"] == [turn]
    assert post("/agents/session/delete", session).status == 200


FOREIGN = ("/peer", "/x", "/live", "/letta/v1/x")


@pytest.mark.parametrize("resource", [None, "/{path+}", "/letta/v1/agents", "/letta/{proxy+}", "/other"])
@pytest.mark.parametrize("prefix", FOREIGN)
def test_a_path_is_not_taken_for_one_that_it_ends_with(door_to: OpenDoor, prefix: str, resource: str | None) -> None:
    """The gateway alone decides on the prefix; a path of another dialect belongs to that dialect."""
    for path in ("/v1/agents", "/v1/health", "/agents/turn/get", "/docs", "/v1alpha/agents"):
        answer = door_to().fetch("GET", prefix + path, resource=resource)
        assert (answer.status, answer.json["detail"]) == (404, NO_PATH), path


def test_the_document_names_the_authentication_that_the_gateway_requires(door_to: OpenDoor) -> None:
    assert door_to().fetch("GET", "/openapi.json").json["security"] == [{"sigv4": []}]


@pytest.mark.parametrize("name", ["meta/llama/8b", "v1/health", "docs", "x/v1alpha/y", "openapi.json"])
def test_a_name_may_hold_slashes(door_to: OpenDoor, name: str) -> None:
    door = door_to()
    models = "/v1/models"
    assert door.fetch("POST", "/live" + models, {"model_id": name}, resource=models).status == 200
    for written in (name, quote(name, safe="")):
        answer = door.fetch("GET", f"/live{models}/{written}", resource=models + "/{model_id+}")
        assert answer.json["identifier"] == name


def test_a_repetition_is_recognised_behind_another_prefix(door_to: OpenDoor) -> None:
    door = door_to()
    key = {"Idempotency-Key": "k"}
    prefixes = ("", "/live")
    answers = [
        door.fetch("POST", f"{prefix}/v1/agents", AGENT, headers=key, resource="/v1/agents") for prefix in prefixes
    ]
    made = {answer.json["agent_id"] for answer in answers}
    assert len(made) == 1


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/nothing", "/live/v1/nothing", "/v1/agents/a/b", "/health", "/v2/health"]
)
def test_a_path_without_a_route_is_not_found(door_to: OpenDoor, path: str) -> None:
    answer = door_to().fetch("GET", path)
    assert (answer.status, answer.json["detail"]) == (404, NO_PATH)


@pytest.mark.parametrize("prefix", ["", "/live"])
@pytest.mark.parametrize("agent_id", ["/v1/health", "x/v1/health", "x/v1/agents", "v1/agents/x"])
def test_the_version_within_an_id_does_not_begin_the_path(door_to: OpenDoor, prefix: str, agent_id: str) -> None:
    path = f"{prefix}/v1/agents/{quote(agent_id, safe='')}"
    answer = door_to().fetch("GET", path, resource="/v1/agents/{agent_id}")
    assert (answer.status, answer.json["detail"]) == (404, NO_PATH)


@pytest.mark.parametrize("agent_id", ["v1", "a b", "Zoë", "50%", "%2F", "a+b", "a|b:c#d", "文"])
def test_an_id_is_decoded_once(door_to: OpenDoor, agent_id: str) -> None:
    path = f"/live/v1/agents/{quote(agent_id, safe='')}"
    answer = door_to().fetch("GET", path, resource="/v1/agents/{agent_id}")
    assert (answer.status, answer.json) == (404, {"detail": f"agent {agent_id!r} not found", "code": "agent_not_found"})


def test_a_name_that_stands_several_times_in_a_query_has_several_values(door_to: OpenDoor) -> None:
    door = door_to("one", "two", "three")
    path = door.session()
    turns = [door.fetch("POST", f"{path}/turn", turn_body()).json["turn_id"] for _ in range(3)]
    answer = door.fetch("GET", f"{path}?turn_ids={turns[0]}&turn_ids={quote(turns[2])}")
    assert [turn["turn_id"] for turn in answer.json["turns"]] == [turns[0], turns[2]]
    assert len(door.fetch("GET", path).json["turns"]) == 3
    odd = door.fetch("GET", f"{path}?turn_ids=a%26turn_ids%3D{turns[0]}&other=%C3%A9+x")
    assert turns[0] not in [turn["turn_id"] for turn in odd.json.get("turns", [])]


def test_a_method_that_a_path_does_not_have_is_refused(door_to: OpenDoor) -> None:
    assert door_to().fetch("DELETE", "/v1/agents").status == 405


@pytest.mark.parametrize("name", ["agent of Zoë 文 😀", 'line\nfeed "quoted"'])
def test_texts_are_stored_and_returned_unchanged(door_to: OpenDoor, name: str) -> None:
    door = door_to(f"you said {name}")
    path = door.session()
    turn = door.fetch("POST", f"{path}/turn", turn_body(name)).json
    assert turn["input_messages"][0]["content"] == name
    assert turn["output_message"]["content"] == f"you said {name}"
    assert door.fetch("GET", f"{path}/turn/{turn['turn_id']}").json == turn


def test_a_body_may_come_in_base64(deployment_of: MakeDeployment) -> None:
    door = Gateway(deployment_of())
    event = event_of("POST", "/v1/agents", b"", {"identity": ANN}, {})
    event |= {"body": base64.b64encode(json.dumps(AGENT).encode()).decode(), "isBase64Encoded": True}
    assert answered(door.deployment.handler(event, Context())).status == 200
    event["body"] = base64.b64encode(b"\xff\xfe\x00").decode()
    assert answered(door.deployment.handler(event, Context())).status == 400


@pytest.mark.parametrize("absent", ["null", "missing", "empty"])
def test_an_event_may_lack_optional_fields(deployment_of: MakeDeployment, absent: str) -> None:
    door = Gateway(deployment_of())
    event = event_of("GET", "/v1/health", b"", {"identity": ANN}, {})
    for name in ("headers", "multiValueHeaders", "queryStringParameters", "multiValueQueryStringParameters", "body"):
        match absent:
            case "null":
                event[name] = None
            case "missing":
                del event[name]
            case _:
                event[name] = "" if name == "body" else {}
    assert answered(door.deployment.handler(event, Context())).status == 200
    event |= {"httpMethod": "POST", "path": "/v1/agents"}
    assert answered(door.deployment.handler(event, Context())).status == 400


def test_headers_are_found_whatever_their_case_and_wherever_they_stand(deployment_of: MakeDeployment) -> None:
    door = Gateway(deployment_of())
    made = set()
    for headers, several in (
        ({"idempotency-KEY": "k"}, None),
        (None, {"Idempotency-Key": ["k"]}),
        ({"Idempotency-Key": "k"}, {"Idempotency-Key": ["k"]}),
    ):
        event = event_of("POST", "/v1/agents", json.dumps(AGENT).encode(), {"identity": ANN}, {})
        event |= {"headers": headers, "multiValueHeaders": several}
        made.add(answered(door.deployment.handler(event, Context())).json["agent_id"])
    assert len(made) == 1


def test_a_body_that_is_too_large_is_refused(door_to: OpenDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTONE_MAX_BODY_BYTES", "1000")
    assert door_to().fetch("POST", "/v1/agents", b"x" * 1_001).status == 413


# ---- how much a function can answer


def text_route(text: str) -> Route:
    def endpoint(_: Request) -> Reply:
        return Reply(json.dumps(text, ensure_ascii=False).encode())

    return Route("GET", "/v1/text", endpoint, AgentConfig)


def as_the_runtime_sends(answer: Mapping[str, Any]) -> bytes:
    """Return the bytes that Lambda counts. Source: the marshaller of awslambdaric for Python 3.12 and later."""
    return json.dumps(answer, ensure_ascii=False).encode()


LAMBDA_LIMIT_BYTES = 6 * 1024 * 1024
FITTING = MOST_ANSWER_BYTES - 1_000


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("x" * FITTING, True),
        ("x" * LAMBDA_LIMIT_BYTES, False),
        ("文" * (FITTING // 3), True),
        ("文" * (LAMBDA_LIMIT_BYTES // 3), False),
        ("é" * (FITTING // 2), True),
        ("😀" * (FITTING // 4), True),
        ("😀" * (LAMBDA_LIMIT_BYTES // 4), False),
        ('"' * (FITTING // 4), True),
        ('"' * (LAMBDA_LIMIT_BYTES // 4), False),
        ("\n" * (FITTING // 3), True),
        ("\x01" * (LAMBDA_LIMIT_BYTES // 7), False),
    ],
    ids=[
        *("plain", "plain, over", "CJK", "CJK, over", "accents", "emoji", "emoji, over"),
        *("quotes", "quotes, over", "line feeds", "control characters, over"),
    ],
)
def test_an_answer_is_passed_on_whole_or_refused_as_too_large(
    deployment_of: MakeDeployment, text: str, fits: bool
) -> None:
    deployment = deployment_of()
    deployment.handler = LambdaHandler("another module", text_route(text))
    answer = deployment.handler(event_of("GET", "/v1/text", b"", {"identity": ANN}, {}), Context())
    assert len(as_the_runtime_sends(answer)) <= LAMBDA_LIMIT_BYTES
    received = answered(answer)
    if fits:
        assert (received.status, received.json == text) == (200, True)
    else:
        assert (received.status, received.headers["x-should-retry"]) == (500, "false")
        assert ("6 MB" in received.json["detail"], received.json["code"]) == (True, "answer_too_large")


@pytest.mark.parametrize("path", ["/v1/openai/v1/long", "/v1/long"])
def test_an_answer_that_is_too_large_is_refused_in_the_envelope_of_its_route(
    deployment_of: MakeDeployment, path: str
) -> None:
    def endpoint(_: Request) -> Reply:
        return Reply(b'"' + b"x" * LAMBDA_LIMIT_BYTES + b'"')

    deployment = deployment_of()
    openai = Route("GET", "/v1/openai/v1/long", endpoint, AgentConfig, dialect=OPENAI)
    deployment.handler = LambdaHandler("another module", Route("GET", "/v1/long", endpoint, AgentConfig), openai)
    received = answered(deployment.handler(event_of("GET", path, b"", {"identity": ANN}, {}), Context()))
    envelope = OPENAI.envelope if "openai" in path else DETAIL
    refusal = envelope.refusal(500, TOO_LARGE, ErrorCode.ANSWER_TOO_LARGE)
    assert (received.status, received.json) == (500, json.loads(refusal))


ORIGIN = "https://app.example"


@pytest.fixture
def listed_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTONE_CORS_ORIGINS", ORIGIN)


def of_page(answer: Answered) -> bool:
    """Return whether a page of the listed origin reads the answer."""
    marks = (answer.headers.get("access-control-allow-origin"), answer.headers.get("access-control-expose-headers"))
    assert marks in ((None, None), (ORIGIN, EXPOSED))
    return marks[0] is not None


def test_pages_of_listed_origins_read_the_answers_of_functions(door_to: OpenDoor, listed_origin: None) -> None:
    there = door_to(ScriptedReply(texts=("hello",)))
    path = there.session()
    page = {"origin": ORIGIN}
    assert of_page(there.fetch("GET", path, headers=page))
    assert of_page(there.fetch("GET", f"{path}x", headers=page))
    assert of_page(there.fetch("POST", f"{path}/turn", turn_body(), headers=page))
    assert not of_page(there.fetch("GET", path))
    assert not of_page(there.fetch("GET", path, headers={"origin": "https://evil.example"}))
    requested = {**page, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    answered = there.fetch("OPTIONS", f"{path}/turn", headers=requested, identity=None)
    assert (answered.status, answered.headers["access-control-allow-headers"]) == (204, "authorization")


def test_a_page_reads_that_an_answer_is_too_large(deployment_of: MakeDeployment, listed_origin: None) -> None:
    deployment = deployment_of()
    deployment.handler = LambdaHandler("another module", text_route("x" * LAMBDA_LIMIT_BYTES))
    event = event_of("GET", "/v1/text", b"", {"identity": ANN}, {"origin": ORIGIN})
    received = answered(deployment.handler(event, Context()))
    assert (received.status, received.headers["vary"], of_page(received)) == (500, "Origin", True)


def test_a_turn_too_large_for_a_function_is_refused_there_and_streamed_elsewhere(deployment_of: MakeDeployment) -> None:
    deployment = deployment_of(ScriptedReply(texts=("x" * LAMBDA_LIMIT_BYTES,)))
    gateway, adapter = Gateway(deployment), Adapter(deployment)
    path = gateway.session()
    answer = gateway.fetch("POST", f"{path}/turn", turn_body())
    assert (answer.status, answer.headers["x-should-retry"]) == (500, "false")
    (turn,) = adapter.fetch("GET", path).json["turns"]
    assert len(turn["output_message"]["content"]) == LAMBDA_LIMIT_BYTES
    assert gateway.fetch("GET", f"{path}/turn/{turn['turn_id']}").status == 500
    assert adapter.fetch("GET", f"{path}/turn/{turn['turn_id']}").status == 200
    adapter.close()


# ---- logs


def logged(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_each_request_is_one_line_of_json_without_contents(
    door_to: OpenDoor, capsys: pytest.CaptureFixture[str]
) -> None:
    door = door_to("an answer of secret words", ScriptedReply(error=ModelFailed("broken")))
    headers = {"Idempotency-Key": "secret-key", "Authorization": "secret-signature"}
    path = door.session()
    logged(capsys)
    requests: list[tuple[str, str, Any, Any, int]] = [
        ("POST", f"{path}/turn", turn_body("secret question", stream=True), ANN, 200),
        ("POST", f"{path}/turn", turn_body("secret question two"), ANN, 502),
        ("POST", f"{path}/turn", {"messages": "secret mistake"}, ANN, 400),
        ("POST", f"{path}/turn", b'{"secret', ANN, 400),
        ("GET", f"{path}/turn/some-id?turn_ids=secret", None, ANN, 404),
        ("GET", path, None, BOB, 404),
        ("GET", path, None, {}, 401),
        ("GET", "/v1/version", None, ANN, 200),
    ]
    for number, (method, target, body, identity, status) in enumerate(requests):
        answer = door.fetch(method, target, body, identity, headers={**headers, "Idempotency-Key": f"secret-{number}"})
        door.deployment.server.settle()
        assert answer.status == status
        lines = logged(capsys)
        (line,) = [line for line in lines if "status" in line]
        assert (line["status"], line["request_id"], line["level"]) == (status, "request-7", "INFO")
        assert line["took_ms"] >= 0
        assert line["message"].startswith(f"{method} /v1/")
        assert ("tenant" in line) == (status != 401)
        assert "secret" not in json.dumps(lines)


def test_a_request_is_logged_with_the_time_until_its_last_byte(
    door_to: OpenDoor, capsys: pytest.CaptureFixture[str]
) -> None:
    thinking = Held("done")
    door = door_to(thinking)
    path = door.session()
    logged(capsys)
    Thread(target=lambda: (thinking.wait(), time.sleep(0.1), thinking.open())).start()
    door.fetch("POST", f"{path}/turn", turn_body(stream=True))
    (line,) = logged(capsys)
    assert line["took_ms"] >= 100


# ---- when the time of a process is nearly over


@pytest.mark.parametrize("left_ms", [BEFORE_HAND_OVER_MS + 60, BEFORE_HAND_OVER_MS, 5_000, 0, -1_000])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_turn_continues_elsewhere_when_the_time_of_its_process_is_nearly_over(
    door_to: OpenDoor, left_ms: int, stream: bool
) -> None:
    thinking = Held("late")
    door = door_to(thinking)
    server = door.deployment.server
    path = door.session()
    answer = door.fetch("POST", f"{path}/turn", turn_body(stream=stream), left_ms=left_ms)
    (state,) = server.states(ref_of(path))
    assert state.status is TurnStatus.IN_PROGRESS
    assert_continues_elsewhere(answer, state.order, stream=stream)
    turn = TurnRef(**ref_of(path).model_dump(), turn_id=state.order)
    assert list(server.supervisor.watched) == [turn]
    assert server.header(turn).lock.is_abandoned(server.clock.now())
    before = server.dump()
    thinking.open()
    server.settle()
    assert before == server.dump()
    heir = on_lambda(server.another(["in time"], DICE))
    assert worker_over(heir)(turn.model_dump(), Context())["next"] == "done"
    read = door.fetch("GET", f"{path}/turn/{turn.turn_id}")
    assert (read.headers["x-turn-status"], read.json["output_message"]["content"]) == ("completed", "in time")
    server.assert_whole(turn)


def ref_of(path: str) -> SessionRef:
    return SessionRef(tenant=ANN["accountId"], agent_id=path.split("/")[3], session_id=path.split("/")[5])


def assert_continues_elsewhere(answer: Answered, turn_id: str, *, stream: bool) -> None:
    if stream:
        assert answer.status == 200
        error = answer.events[-1]["error"]
        assert (turn_id in error["message"], error["code"]) == (True, "turn_continues")
    else:
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "x-should-retry" not in answer.headers
        assert (turn_id in answer.json["detail"], answer.json["code"]) == (True, "turn_continues")


def test_the_error_for_a_turn_that_continues_elsewhere_names_the_url_to_read_it_at(door_to: OpenDoor) -> None:
    thinking = Held("late")
    door = door_to(thinking)
    path = door.session()
    answer = door.fetch("POST", f"{path}/turn", turn_body(), left_ms=0)
    method, _, url = answer.json["detail"].rpartition(": ")[2].partition(" ")
    assert (method, url.startswith(f"{path}/turn/")) == ("GET", True)
    assert door.fetch(method, url).json["turn_id"] in url
    thinking.open()


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_turn_that_ends_in_time_stays_with_its_process(door_to: OpenDoor, stream: bool) -> None:
    door = door_to("in time")
    path = door.session()
    answer = door.fetch("POST", f"{path}/turn", turn_body(stream=stream), left_ms=BEFORE_HAND_OVER_MS + 2_000)
    assert answer.status == 200
    (state,) = door.deployment.server.states(ref_of(path))
    assert state.status is TurnStatus.COMPLETED
    assert not door.deployment.server.supervisor.watched


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_resumed_turn_continues_elsewhere_too(door_to: OpenDoor, stream: bool) -> None:
    thinking = Held("late")
    door = door_to(SIGHT, thinking)
    path = door.session()
    turn_id = door.fetch("POST", f"{path}/turn", turn_body()).json["turn_id"]
    body = {**responses(), "stream": stream}
    answer = door.fetch("POST", f"{path}/turn/{turn_id}/resume", body, left_ms=BEFORE_HAND_OVER_MS)
    assert_continues_elsewhere(answer, turn_id, stream=stream)
    (state,) = door.deployment.server.states(ref_of(path))
    assert (state.status, len(state.turn.steps)) == (TurnStatus.IN_PROGRESS, 2)
    thinking.open()


def test_a_retry_receives_the_end_of_a_turn_that_continued_elsewhere(door_to: OpenDoor) -> None:
    thinking, worker_thinking = Held("late"), Held("in time")
    door = door_to(thinking)
    server = door.deployment.server
    path = door.session()
    again = {"x-stainless-retry-count": "1"}
    assert door.fetch("POST", f"{path}/turn", turn_body(), left_ms=0).status == 503
    (state,) = server.states(ref_of(path))
    turn = TurnRef(**ref_of(path).model_dump(), turn_id=state.order)
    heir = on_lambda(server.another([worker_thinking], DICE))
    heir.reconcile_turn(turn)
    worker_thinking.wait()
    waiting = door.fetch("POST", f"{path}/turn", turn_body(), headers=again, left_ms=BEFORE_HAND_OVER_MS + 100)
    assert_continues_elsewhere(waiting, turn.turn_id, stream=False)
    assert heir.header(turn).lock.is_live(heir.clock.now()), "a joined turn stays with the process that runs it"
    Thread(target=lambda: (time.sleep(0.05), worker_thinking.open())).start()
    answer = door.fetch("POST", f"{path}/turn", turn_body(), headers=again)
    assert (answer.status, answer.json["output_message"]["content"]) == (200, "in time")
    assert len(server.states(ref_of(path))) == 1
    thinking.open()
    server.settle()
    heir.settle()


def test_a_subscriber_leaves_after_the_end(door_to: OpenDoor) -> None:
    door = door_to("done")
    path = door.session()
    left = []
    broadcasts = door.deployment.server.core.broadcasts
    begin = broadcasts.begin

    def noting(*arguments: Any) -> Any:
        left.append(begin(*arguments))
        return left[-1]

    broadcasts.begin = noting  # type: ignore[method-assign]
    door.fetch("POST", f"{path}/turn", turn_body())
    assert [broadcast._subscribers for broadcast in left] == [[]]


# ---- the worker


def worker_over(server: Harness) -> TurnWorker:
    worker = TurnWorker("another module")
    worker._core = server.core
    return worker


def test_the_worker_returns_the_time_of_the_next_check(deployment_of: MakeDeployment) -> None:
    deployment = deployment_of(SIGHT, "done")
    door = Gateway(deployment)
    path = door.session()
    turn_id = door.fetch("POST", f"{path}/turn", turn_body()).json["turn_id"]
    turn = {**ref_of(path).model_dump(), "turn_id": turn_id}
    worker = worker_over(deployment.server)
    check = worker(turn, Context())
    assert (check["next"], check["status"]) == ("await", "awaiting_input")
    assert 3_590 < check["seconds"] <= 3_601
    door.fetch("POST", f"{path}/turn/{turn_id}/resume", responses())
    assert worker(turn, Context()) == {"next": "done", "seconds": 1, "status": "completed"}
    assert worker({**turn, "turn_id": "gone"}, Context()) == {"next": "done", "seconds": 1, "status": "gone"}


@pytest.mark.parametrize("left_ms", [BEFORE_HAND_OVER_MS + 60, BEFORE_HAND_OVER_MS, 0])
def test_a_worker_whose_time_is_nearly_over_leaves_the_turn_to_the_next(
    deployment_of: MakeDeployment, left_ms: int
) -> None:
    thinking, worker_thinking = Held("late"), Held("late, too")
    deployment = deployment_of(thinking)
    door = Gateway(deployment)
    path = door.session()
    door.fetch("POST", f"{path}/turn", turn_body(), left_ms=0)
    (state,) = deployment.server.states(ref_of(path))
    turn = {**ref_of(path).model_dump(), "turn_id": state.order}
    worker = on_lambda(deployment.server.another([worker_thinking], DICE))
    check = worker_over(worker)(turn, Context(left_ms))
    assert (check["next"] in ("attend", "watch"), check["status"]) == (True, "in_progress")
    assert check["seconds"] <= 10
    assert deployment.server.header(ref_of(path)).lock.is_abandoned(deployment.server.clock.now())
    thinking.open()
    worker_thinking.open()
    eventually(lambda: not worker.core.executor._running)
    heir = on_lambda(deployment.server.another(["in time"], DICE))
    assert worker_over(heir)(turn, Context())["status"] == "completed"
    deployment.server.assert_whole(ref_of(path))
