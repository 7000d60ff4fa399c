"""Limits and their clear refusals: sizes, unsupported fields, resumes of turns that do not wait, paths and methods.

And the other side of each limit: accepted requests are answered, and their results can be read and continued.

Covers: http/server/app, functions, services/turns/turns
"""

from __future__ import annotations

import json
import random
import re
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from functions.local.routes import ROUTES
from tests.support.server.asgi_client import Answered, Raw, Served, served
from tests.support.server.valid_bodies import FULL_AGENT, FULL_TURN
from turnstone.adapters.models.offline.offline import OfflineInference
from turnstone.dialects.letta.server.unserved import unserved
from turnstone.domain.values.frozen import MAX_DEPTH

LIMIT = 6_000_000
LARGE = 10_000_000
ENDLESS = 100_000_000
PART = b"x" * 65_536
SESSION = "/v1/agents/{agent_id}/session/{session_id}"
# one function reads the body of every request: a buffered route, one that streams, one of 2024, one without a body
POSTS = ["/v1/agents", f"{SESSION}/turn", "/agents/turn/create", f"{SESSION}/turn/{{turn_id}}/cancel"]
WITH_BODY = {route.path for route in ROUTES if route.method == "POST" and route.body is not None}
DEPTHS = [MAX_DEPTH - 2, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 200]
NAMES = {"agent_id": "no-agent", "session_id": "no-session", "turn_id": "no-turn", "step_id": "no-step"}
NAMES["completion_id"] = "chatcmpl-01990000-0000-7000-8000-000000000000"
AGENT = {"model": "offline", "instructions": "", "client_tools": [{"name": "add"}, {"name": "get_weather"}]}
HELLO = {"messages": [{"role": "user", "content": "hello"}]}
CALLS = {"messages": [{"role": "user", "content": "add(a=1) get_weather(city=Oslo)"}]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("limits")) as serving:
        yield serving


@pytest.fixture(scope="module")
def wire(server: Served) -> Iterator[httpx.Client]:
    """The same server behind a port of this machine, as `make run` serves it."""
    config = uvicorn.Config(server.client.app, lifespan="off", log_level="warning", access_log=False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        uvicorn_server = uvicorn.Server(config)
        thread = threading.Thread(target=uvicorn_server.run, kwargs={"sockets": [listener]})
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
            yield client
        uvicorn_server.should_exit = True
        thread.join()


@dataclass
class Talk:
    """An agent with two tools of its client's, and a session of it."""

    server: Served
    path: str = ""
    pending: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        post = self.server.client.post
        agent = "/v1/agents/" + post("/v1/agents", {"agent_config": AGENT}).json()["agent_id"]
        self.path = f"{agent}/session/" + post(f"{agent}/session", {"session_name": "s"}).json()["session_id"]

    def turn(self, body: object) -> Answered:
        return self.server.client.post(f"{self.path}/turn", body)

    def turn_path(self, answer: Answered) -> str:
        return f"{self.path}/turn/{answer.json()['turn_id']}"

    def waiting_turn(self) -> str:
        """Return the path of a turn that waits for the answers to two calls."""
        turn = self.turn(CALLS)
        self.pending = [call["call_id"] for call in turn.json()["output_message"]["tool_calls"]]
        return self.turn_path(turn)


@pytest.fixture
def talk(server: Served) -> Talk:
    return Talk(server)


def answers(*call_ids: str) -> dict[str, Any]:
    return {"tool_responses": [{"call_id": call_id, "tool_name": "add", "content": "3"} for call_id in call_ids]}


def posted(path: str, body: object, *more: bytes) -> Raw:
    return Raw("POST", path.encode(), (body if isinstance(body, bytes) else json.dumps(body).encode(), *more))


def refused(server: Served, request: Raw, status: int) -> str:
    """Return the text of the refusal; it has this status, and nothing was stored."""
    before = server.marks()
    answer = server.client.send(request)
    assert status == answer.status, answer
    assert before == server.marks()
    return answer.refusal()


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("body", [PART * (LARGE // len(PART)), None], ids=["with its length", "in parts"])
def test_a_body_over_the_limit_gets_its_413_on_the_wire(
    server: Served, wire: httpx.Client, path: str, body: bytes | None
) -> None:
    before = server.marks()
    response = wire.post(path.format_map(NAMES), content=body or iter([PART] * (LARGE // len(PART))))
    answer = Answered(response.status_code, response.headers, response.content)
    assert answer.status == 413
    assert str(LIMIT) in answer.refusal()
    assert before == server.marks()


@pytest.mark.parametrize("path", POSTS)
def test_a_body_of_the_limit_is_read_and_one_byte_more_is_not(server: Served, path: str) -> None:
    at = path.format_map(NAMES)
    reason, status = ("JSON", 400) if path in WITH_BODY else ("not found", 404)
    assert reason in refused(server, posted(at, b" " * (LIMIT // 2), b" " * (LIMIT // 2)), status)
    assert str(LIMIT) in refused(server, posted(at, b" " * (LIMIT // 2), b" " * (LIMIT // 2), b" "), 413)


@pytest.mark.parametrize("path", ["/v1/agents", "/v1/files"])
def test_a_stated_length_over_the_limit_gets_its_413_before_the_body(wire: httpx.Client, path: str) -> None:
    url = wire.base_url
    connection = HTTPConnection(url.host, url.port, timeout=10)
    try:
        connection.putrequest("POST", path)
        connection.putheader("Content-Type", "multipart/form-data; boundary=x")
        connection.putheader("Content-Length", str(2_000_000_000))
        connection.endheaders(b"--x")
        assert connection.getresponse().status == 413
    finally:
        connection.close()


def stream_endlessly(wire: httpx.Client) -> tuple[int | None, int]:
    """Return the status, None if the connection broke, and how many bytes went out."""
    sent = 0

    def parts() -> Iterator[bytes]:
        nonlocal sent
        while sent < ENDLESS:
            sent += len(PART)
            yield PART

    try:
        return wire.post("/v1/agents", content=parts()).status_code, sent
    except httpx.TransportError:
        return None, sent


def test_an_endless_body_is_cut_off(wire: httpx.Client) -> None:
    status, sent = stream_endlessly(wire)
    assert status in (413, None)
    assert sent < ENDLESS // 2


def test_an_endless_body_takes_no_memory(wire: httpx.Client) -> None:
    tracemalloc.start()
    try:
        stream_endlessly(wire)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2 * LIMIT


def test_a_client_that_leaves_within_its_body_changes_nothing(server: Served) -> None:
    before = server.marks()
    whole = json.dumps({"agent_config": AGENT}).encode()
    assert server.client.is_unanswered(Raw("POST", b"/v1/agents", (whole,), hangs_up=True))
    assert before == server.marks()


def test_the_answer_to_many_mistakes_is_not_many_times_their_size(server: Served) -> None:
    mistakes = b'{"messages":[' + b",".join([b"1"] * 100_000) + b"]}"
    answer = server.client.send(posted("/v1/agents/a/session/s/turn", mistakes))
    assert answer.refusal()
    assert len(answer.body) < len(mistakes)


def test_a_refused_request_leaves_no_payload_behind(server: Served) -> None:
    name = random.Random(0).randbytes(1_000_000).hex()
    refused(server, posted("/v1/agents/no-agent/session", {"session_name": name}), 404)


def test_a_failing_store_is_reported_without_its_path(tmp_path: Path) -> None:
    with served(tmp_path) as serving:
        serving.server._sqlite.close()
        answer = serving.client.get("/v1/agents/a")
    assert answer.status == 503
    assert str(tmp_path) not in answer.refusal()


def test_an_internal_error_is_reported_without_its_text(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: OfflineInference) -> tuple[str, ...]:
        raise RuntimeError("a detail nobody shall read")

    monkeypatch.setattr(OfflineInference, "models", broken)
    assert "detail" not in refused(server, Raw("GET", b"/v1/models"), 500)


UNKNOWN_NAMES = [
    ("input_shields", ["llama-guard"]),
    ("output_shields", ["llama-guard"]),
    ("toolgroups", ["builtin::telepathy"]),
    ("toolgroups", ["builtin::clock/stop_watch"]),
    ("toolgroups", [{"name": "mcp::deepwiki", "args": {}}]),
]
EMPTY = [
    *[(name, value) for name in ("input_shields", "output_shields", "toolgroups") for value in ([], None)],
    *[
        (name, value)
        for name in ("tool_prompt_format", "tool_config.tool_prompt_format")
        for value in ("json", "function_tag", "python_list", None)
    ],
    *[("tool_config.system_message_behavior", value) for value in ("append", "replace")],
]


def fields(name: str, value: object) -> dict[str, object]:
    """Return the field of that name; a dot leads into an object."""
    outer, _, inner = name.partition(".")
    return {outer: {inner: value}} if inner else {outer: value}


@pytest.mark.parametrize(("name", "value"), [("response_format", {"type": "grammar", "bnf": {}})])
def test_an_agent_with_an_unsupported_field_is_refused_by_name(server: Served, name: str, value: object) -> None:
    request = posted("/v1/agents", {"agent_config": AGENT | fields(name, value)})
    assert name.rpartition(".")[2] in refused(server, request, 400)


@pytest.mark.parametrize(("name", "value"), UNKNOWN_NAMES)
def test_an_unknown_name_is_accepted_in_an_agent_and_refused_in_its_turn(
    server: Served, name: str, value: object
) -> None:
    agent = server.client.post("/v1/agents", {"agent_config": AGENT | {name: value, "tool_choice": "required"}})
    path = f"/v1/agents/{agent.json()['agent_id']}"
    session = server.client.post(f"{path}/session", {"session_name": "s"}).json()["session_id"]
    assert server.client.get(path).json()["agent_config"][name] == value
    assert name in refused(server, posted(f"{path}/session/{session}/turn", HELLO), 400)


@pytest.mark.parametrize(
    ("name", "value"), [*UNKNOWN_NAMES, ("documents", [{"content": "x", "mime_type": "application/zip"}])]
)
def test_a_turn_with_an_unsupported_field_or_name_is_refused_by_name(talk: Talk, name: str, value: object) -> None:
    request = posted(f"{talk.path}/turn", HELLO | fields(name, value))
    assert name.rpartition(".")[2] in refused(talk.server, request, 400)


def test_documents_over_half_of_the_context_window_are_refused_and_no_turn_is_stored(talk: Talk) -> None:
    documents = [{"content": "x" * 2_000_000, "mime_type": "text/plain"}]
    request = posted(f"{talk.path}/turn", HELLO | {"documents": documents})
    assert "half of the model's context window" in refused(talk.server, request, 400)
    assert talk.server.client.get(talk.path).json()["turns"] == []


def test_a_session_names_a_vector_database_that_is_there(server: Served, talk: Talk) -> None:
    path = talk.path.rpartition("/")[0]
    assert "vector_db_id" in refused(server, posted(path, {"session_name": "s", "vector_db_id": "db"}), 400)
    assert server.client.post("/v1/vector-dbs", {"vector_db_id": "db", "embedding_model": "offline"}).status == 200
    made = server.client.post(path, {"session_name": "s", "vector_db_id": "db"})
    assert made.status == 200
    assert server.client.get(f"{path}/{made.json()['session_id']}").json()["vector_db_id"] == "db"
    assert server.client.post(path, {"session_name": "s", "vector_db_id": None}).status == 200


@pytest.mark.parametrize(("name", "value"), [*EMPTY, ("response_format", None), ("documents", []), ("documents", None)])
def test_empty_values_of_unsupported_fields_are_accepted(talk: Talk, name: str, value: object) -> None:
    assert talk.server.client.post("/v1/agents", {"agent_config": AGENT | fields(name, value)}).status == 200
    assert talk.turn(HELLO | fields(name, value)).status == 200


@pytest.mark.parametrize("given", ["of no call", "one of two", "one twice", "one too many"])
def test_a_resume_with_other_answers_than_awaited_is_refused_and_can_be_corrected(talk: Talk, given: str) -> None:
    turn = talk.waiting_turn()
    first, second = talk.pending
    ids = {"of no call": ["call_0"], "one of two": [first], "one twice": [first, first, second]}
    request = posted(f"{turn}/resume", answers(*ids.get(given, [first, second, "call_0"])))
    assert "tool_responses" in refused(talk.server, request, 400)
    assert talk.server.client.post(f"{turn}/resume", answers(second, first)).status == 200


def test_a_resume_of_a_missing_turn_or_in_another_session_is_not_found(talk: Talk) -> None:
    turn, other = talk.waiting_turn(), Talk(talk.server).path
    session_of_another = f"{other.rpartition('/')[0]}/{talk.path.rpartition('/')[2]}"
    for path in (f"{talk.path}/turn/no-turn", *(turn.replace(talk.path, at) for at in (other, session_of_another))):
        assert "not found" in refused(talk.server, posted(f"{path}/resume", answers(*talk.pending)), 404)


def test_a_resume_of_a_turn_that_has_ended_is_a_conflict(talk: Talk) -> None:
    plain = talk.turn_path(talk.turn(HELLO))
    resumed = talk.waiting_turn()
    assert talk.server.client.post(f"{resumed}/resume", answers(*talk.pending)).status == 200
    for turn in (plain, resumed):
        assert "completed" in refused(talk.server, posted(f"{turn}/resume", answers(*talk.pending, "more")), 409)


def test_tool_messages_that_no_turn_waits_for_are_refused(talk: Talk) -> None:
    message = {"role": "tool", "call_id": "call_0", "content": "3"}
    refused(talk.server, posted(f"{talk.path}/turn", {"messages": [message]}), 400)
    refused(talk.server, posted(f"{talk.path}/turn", {"messages": [message, *HELLO["messages"]]}), 400)


STRANGE = ["/v1", "/v2/agents", "/V1/health", "//v1/health", "/v1/agents/a/b", "/v1/health/", "/v1/agents/"]


@pytest.mark.parametrize(
    "path",
    [*STRANGE, "/v1/health%0A", "/v1/models/offline%0A", "/v1/tools/", "/v1/agents/a/session/s/", "/v1/./health"],
)
def test_an_unserved_path_is_not_found(server: Served, path: str) -> None:
    refused(server, Raw("GET", path.encode()), 404)


@pytest.mark.parametrize("path", sorted({route.path for route in ROUTES}))
def test_an_unserved_method_is_refused_with_the_allowed_ones(server: Served, path: str) -> None:
    served_methods = {route.method for route in ROUTES if route.path == path}
    # an id could have the last name of this path
    others = [*ROUTES, *unserved()]
    matching = {other.method for other in others if re.fullmatch(re.sub(r"{\w+}", "[^/]+", other.path), path)}
    for method in {"PUT", "PATCH", "OPTIONS", "TRACE"} - matching:
        refused(server, Raw(method, path.encode(), (b"{}",)), 405)
    allowed = server.client.send(Raw("TRACE", path.encode())).headers.get("allow", "")
    assert served_methods <= set(allowed.replace(" ", "").split(","))


NUMBER = '{"agent_config":{"model":"m","instructions":"","sampling_params":{"repetition_penalty":%s}}}'
KEPT = '{"agent_config":{"model":"m","instructions":"","client_tools":[{"name":"t","metadata":{"kept":%s}}]}}'
IGNORED = '{"agent_config":{"model":"m","instructions":""},"unknown":%s}'


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
def test_a_number_that_is_not_finite_is_refused(server: Served, number: str) -> None:
    assert "repetition_penalty" in refused(server, posted("/v1/agents", (NUMBER % number).encode()), 400)


@pytest.mark.parametrize(("body", "field"), [(KEPT, "kept"), (IGNORED, "unknown")])
@pytest.mark.parametrize(
    "number",
    [
        "1e999",
        "-1e999",
        '[0, {"a": 1e999}]',
        "1e309",
        "0.1E+0000310",
        "987654321e300",
        "9" * 309 + ".0",
        "2" * 300 + "e9",
    ],
)
def test_a_number_that_is_not_finite_is_refused_in_any_field(
    server: Served, body: str, field: str, number: str
) -> None:
    refusal = refused(server, posted("/v1/agents", (body % number).encode()), 400)
    assert field in refusal
    assert "finite" in refusal


@pytest.mark.parametrize("body", [NUMBER, KEPT, IGNORED], ids=["as a number", "in a free form", "in an ignored field"])
@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_a_word_that_is_no_json_is_refused(server: Served, body: str, word: str) -> None:
    refused(server, posted("/v1/agents", (body % word).encode()), 400)


@pytest.mark.parametrize("body", [b'["a"],"b":1', b'[],"turn_ids":["a"]', b"\x0b", b'{"turn_ids":[NaN]}'])
def test_turn_ids_that_are_no_json_are_refused(talk: Talk, body: bytes) -> None:
    refused(talk.server, Raw("GET", talk.path.encode(), (body,)), 400)


def nested(depth: int) -> dict[str, Any]:
    """Return an object with this many lists in each other, which together is one level deeper."""
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return {"kept": value}


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deeply_nested_value_that_is_accepted_can_be_read(talk: Talk, depth: int) -> None:
    tools = {"client_tools": [{"name": "t", "metadata": nested(depth)}]}
    agent = talk.server.client.post("/v1/agents", {"agent_config": AGENT | tools})
    assert agent.status == (200 if depth < MAX_DEPTH else 400)
    if agent.status == 200:
        assert talk.server.client.get(f"/v1/agents/{agent.json()['agent_id']}").status == 200
    turn = talk.turn(HELLO | tools)
    if turn.status == 200:
        assert talk.server.client.get(talk.turn_path(turn)).status == 200
    assert turn.status == agent.status


@pytest.mark.parametrize("depth", DEPTHS)
def test_deeply_nested_tool_responses_that_are_accepted_can_be_read_and_followed(talk: Talk, depth: int) -> None:
    turn = talk.waiting_turn()
    given = answers(*talk.pending)
    given["tool_responses"][0] |= {"metadata": nested(depth), "content": "long " * 1_000}
    assert talk.server.client.post(f"{turn}/resume", given).status == (200 if depth < MAX_DEPTH else 400)
    assert talk.server.client.get(turn).status == 200
    assert talk.turn(HELLO).status == 200


@pytest.mark.parametrize("given", ['"\\ud800"', "[" * 300 + "]" * 300, "1e999", "NaN", "9" * 5_000, '{"a": NaN}'])
def test_a_turn_with_any_text_in_a_call_is_answered_and_can_be_read(talk: Talk, given: str) -> None:
    turn = talk.turn({"messages": [{"role": "user", "content": f"add(a={given})"}]})
    assert turn.status == 200, turn
    assert turn.json() == talk.server.client.get(talk.turn_path(turn)).json()


@pytest.mark.parametrize(
    "strategy", [{"type": "greedy"}, {"type": "top_p", "temperature": 1}, {"type": "top_k", "top_k": 1}]
)
def test_a_turn_with_a_sampling_strategy_of_its_own_can_be_read_and_resumed(talk: Talk, strategy: object) -> None:
    sampling = {"sampling_params": {"strategy": strategy}}
    ended = talk.turn(HELLO | sampling)
    assert ended.json() == talk.server.client.get(talk.turn_path(ended)).json()
    waiting = talk.turn(CALLS | sampling)
    pending = [call["call_id"] for call in waiting.json()["output_message"]["tool_calls"]]
    assert talk.server.client.post(f"{talk.turn_path(waiting)}/resume", answers(*pending)).status == 200


def test_a_message_longer_than_the_context_is_answered(talk: Talk) -> None:
    for length in (1, 200_000, LIMIT - 1_000, 1):
        assert talk.turn({"messages": [{"role": "user", "content": "x" * length}]}).status == 200


FREE_FORM = ("metadata", "args", "json_schema", "input_schema", "output_schema")


@pytest.mark.parametrize("value", [None, 5, "x", [{}], {"type": "y"}], ids=str)
@pytest.mark.parametrize("full", [{"agent_config": FULL_AGENT}, FULL_TURN | {"stream": False}], ids=["agent", "turn"])
def test_unknown_fields_change_nothing_at_any_depth(server: Served, full: dict[str, Any], value: object) -> None:
    more = json.loads(json.dumps(full))
    for within, key in [({"": more}, ""), *values_outside_of_free_forms(more)]:
        if isinstance(within[key], dict):
            within[key]["unknown"] = value
    assert full != more
    assert outcome(server, full) == outcome(server, more)


def values_outside_of_free_forms(holder: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the holder and the key of each value whose fields are defined by the API."""
    for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
        if key not in FREE_FORM:
            yield holder, key
            if isinstance(holder[key], dict | list):
                yield from values_outside_of_free_forms(holder[key])


def outcome(server: Served, body: dict[str, Any]) -> Any:
    """Return the outcome of the request, without values that differ from one run to the next."""
    if "agent_config" in body:
        agent_id = server.client.post("/v1/agents", body).json()["agent_id"]
        return server.client.get(f"/v1/agents/{agent_id}").json()["agent_config"]
    turn = Talk(server).turn(body).json()
    output = turn["output_message"]
    return turn["input_messages"], output["content"], [(c["tool_name"], c["arguments"]) for c in output["tool_calls"]]
