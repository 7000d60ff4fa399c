"""Bugs of the reference implementation that this server does not have: a law each, over HTTP and either store.

Where a law has more sides than one, they have tests of their own: the lock and the resumes in
`integration/turns/test_locking.py`, access in `integration/access/test_who_sees_what.py`, crashes and leaving clients
in `e2e/server/test_server_process.py`, the cost of lists in `integration/sessions/test_lists.py`.

Covers: functions, services, services/turns/turns
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.aws.aws_server import AwsProcess
from tests.fakes.models.openai_answers import Answer, built_in_answer, call_answer, error_answer
from tests.fakes.models.openai_server import ModelServer
from tests.support.cases import rest_at_night
from tests.support.clients.plain_client import Json, PlainClient, answering, text_in, turn_body
from tests.support.models.seen_by_model import seen
from tests.support.server.over_dynamo import DynamoServerProcess
from tests.support.server.served import TOOL
from tests.support.server.servers import ROOT, ServerProcess
from tests.support.server.stores import STORES, server_over

PAUSING = {"model": f"tool:{TOOL['name']}", "client_tools": [TOOL]}
DELTAS = 600
SLEEP_AFTER_EACH_EVENT_S = 0.01

pytestmark = pytest.mark.timeout(120)


def answer_of(body: Mapping[str, Any]) -> Answer:
    """Answer as the built-in models do; further ones break after a tool, call one twice, or call one that fails."""
    model, is_question = body["model"], body["messages"][-1]["role"] == "user"
    if model == "broken":
        return call_answer(("current_time", "{}")) if is_question else error_answer(400, "out of order")
    if model == "twice" and is_question:
        return call_answer((TOOL["name"], "{}"), (TOOL["name"], "{}"))
    if model == "lost" and is_question:
        return call_answer(("current_time", '{"timezone": "Nowhere"}'))
    return built_in_answer(body)


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer(answer_of) as server:
        yield server


@pytest.fixture(scope="module", params=rest_at_night(STORES, always=("sqlite",)))
def server(
    request: pytest.FixtureRequest, model: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    with server_over(request.param, folder, request, model_url=model.url) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[PlainClient]:
    with PlainClient(server.url) as client:
        yield client


def paused_turn(client: PlainClient, session: str, text: str = "look") -> tuple[str, Json]:
    """Return the path of a new turn that waits for its client, and the turn."""
    turn = client.post(f"{session}/turn", turn_body(text)).json()
    assert turn["output_message"]["tool_calls"], turn
    return f"{session}/turn/{turn['turn_id']}", turn


# ── history ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_history_is_stored_and_sent_to_the_model_in_its_order(client: PlainClient, model: ModelServer) -> None:
    session = client.open_session("instant")
    texts = [f"question {number}" for number in range(7)]
    turns = [client.post(f"{session}/turn", turn_body(text)).json() for text in texts]
    assert client.get(session)["turns"] == turns
    questions = [line for line in seen(model.requests[-1]) if line.startswith("user: ")]
    assert questions == [f"user: {text}" for text in texts]


def test_steps_are_stored_in_their_order(client: PlainClient) -> None:
    session = client.open_session("tool:current_time", toolgroups=["builtin::clock"])
    turn = client.post(f"{session}/turn", turn_body("time?")).json()
    assert [step["step_type"] for step in turn["steps"]] == ["inference", "tool_execution", "inference"]
    times = [step[name] for step in turn["steps"] for name in ("started_at", "completed_at")]
    assert all(earlier <= later for earlier, later in pairwise(times))


def test_a_session_that_need_not_persist_outlives_the_server(server: ServerProcess, client: PlainClient) -> None:
    session = client.open_session("instant", enable_session_persistence=False)
    turn = client.post(f"{session}/turn", turn_body("hello")).json()
    server.restart()
    with PlainClient(server.url) as again:
        assert again.get(session)["turns"] == [turn]


# ── resuming ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_resume_goes_to_the_turn_it_names_and_not_to_the_sessions_last(client: PlainClient) -> None:
    session = client.open_session(**PAUSING)
    older, first = paused_turn(client, session, "first")
    newer, second = paused_turn(client, session, "second")
    for path, status in ((older, 409), (f"{session}/turn/{first['session_id']}", 404)):
        assert client.post(f"{path}/resume", answering(second, "seen")).status_code == status
    assert client.get(newer) == second
    resumed = client.post(f"{newer}/resume", answering(second, "seen")).json()
    assert (resumed["turn_id"], resumed["output_message"]["content"]) == (second["turn_id"], "ok")


def test_a_finished_turn_is_not_resumed(client: PlainClient) -> None:
    session = client.open_session(**PAUSING)
    path, paused = paused_turn(client, session)
    ended = client.post(f"{path}/resume", answering(paused, "seen")).json()
    assert client.post(f"{path}/resume", answering(paused, "seen once more")).status_code == 409
    assert client.get(session)["turns"] == [ended]


def test_only_answers_to_all_the_pending_calls_resume_a_turn(client: PlainClient) -> None:
    session = client.open_session("twice", client_tools=[TOOL])
    path, paused = paused_turn(client, session)
    one, two = answering(paused, "seen")["tool_responses"]
    another = {**one, "call_id": "another"}
    wrong: list[list[Json]] = [[], [one], [one, one], [one, another], [one, two, another]]
    for responses in wrong:
        assert client.post(f"{path}/resume", {"tool_responses": responses}).status_code == 400
        assert client.get(path) == paused
    assert client.post(f"{path}/resume", {"tool_responses": [two, one]}).json()["completed_at"] is not None


# ── failures ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_tool_that_fails_is_an_answer_to_the_model_and_ends_no_turn(client: PlainClient, model: ModelServer) -> None:
    session = client.open_session("lost", toolgroups=["builtin::clock"])
    turn = client.post(f"{session}/turn", turn_body("what time is it there?")).json()
    assert turn["output_message"]["content"] == "ok"
    assert "Nowhere" in seen(model.requests[-1])[-1]
    assert client.get(session)["turns"] == [turn]


@pytest.mark.parametrize("is_streaming", [True, False])
def test_a_turn_whose_model_fails_is_kept_with_the_steps_it_had(
    is_streaming: bool, server: ServerProcess, client: PlainClient
) -> None:
    session = client.open_session("broken", toolgroups=["builtin::clock"])
    if is_streaming:
        *_, failed = client.streamed(f"{session}/turn", turn_body("time?"))
        assert "out of order" in failed["error"]["message"]
    else:
        assert client.post(f"{session}/turn", turn_body("time?")).status_code == 502
    (turn,) = client.get(session)["turns"]
    assert [step["step_type"] for step in turn["steps"]] == ["inference", "tool_execution"]
    status = httpx.get(f"{server.url}{session}/turn/{turn['turn_id']}").headers["x-turn-status"]
    assert (status, turn["completed_at"] is not None) == ("failed", True)


def test_a_turn_whose_client_disconnects_is_kept(client: PlainClient) -> None:
    session = client.open_session("stream-0.5")
    with client.streaming(f"{session}/turn", turn_body("a story")) as events:
        turn_id = next(events)["turn_id"]
    turn = client.ended_turn(f"{session}/turn/{turn_id}")
    assert turn["output_message"]["content"] == "word0 word1 "
    assert client.get(session)["turns"] == [turn]


@pytest.mark.parametrize("body", [turn_body("x"), {**turn_body("x"), "stream": True}])
def test_a_request_that_is_refused_before_its_first_event_gets_its_status(body: Json, client: PlainClient) -> None:
    nowhere = "/v1/agents/unknown/session/unknown/turn"
    guarded = client.open_session("instant", input_shields=["guard"])
    assert client.post(nowhere, body).status_code == 404
    assert client.post(f"{guarded}/turn", body).status_code == 400
    assert client.post(f"{guarded}/turn", {**body, "messages": []}).status_code == 400


def test_missing_objects_are_not_found(client: PlainClient, server: ServerProcess) -> None:
    session = client.open_session("instant")
    agent = session.partition("/session/")[0]
    turn = client.post(f"{session}/turn", turn_body("hello")).json()["turn_id"]
    unknown = ["/v1/agents/x", "/v1/agents/x/sessions", f"{agent}/session/x", f"{session}/turn/x"]
    for path in (*unknown, f"{session}/turn/{turn}/step/x"):
        assert httpx.get(server.url + path).status_code == 404, path


# ── at the same time ─────────────────────────────────────────────────────────────────────────────────────────────


def test_of_concurrent_turns_in_a_session_one_runs_and_the_others_are_refused(server: ServerProcess) -> None:
    with PlainClient(server.url) as client, ThreadPoolExecutor(4) as pool:
        session = client.open_session("slow-1")
        pending = [pool.submit(client.post, f"{session}/turn", turn_body(f"rival {number}")) for number in range(4)]
        answers = [future.result() for future in pending]
        assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
        (won,) = [answer.json() for answer in answers if answer.status_code == 200]
        assert client.get(session)["turns"] == [won]


def test_events_are_sent_without_a_pause_between_them(client: PlainClient) -> None:
    session = client.open_session(f"words-{DELTAS}")
    began = time.monotonic()
    events = client.streamed(f"{session}/turn", turn_body("a story"))
    took_s = time.monotonic() - began
    assert text_in(events) == "".join(f"word{number} " for number in range(DELTAS))
    assert took_s < DELTAS * SLEEP_AFTER_EACH_EVENT_S


# ── lists ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def over_dynamo(model: ModelServer, aws: AwsProcess, tmp_path: Path) -> Iterator[DynamoServerProcess]:
    with DynamoServerProcess(tmp_path, aws, model_url=model.url) as server:
        yield server


def test_lists_and_chosen_turns_are_read_without_reading_anything_else(
    over_dynamo: DynamoServerProcess, aws: AwsProcess
) -> None:
    """The list of agents reads all of them at once, that of sessions no turn, a choice of turns no other turn."""
    with PlainClient(over_dynamo.url) as client:
        sessions = [client.open_session("instant") for _ in range(6)]
        session = sessions[0]
        agent = session.partition("/session/")[0]
        turns = [client.post(f"{session}/turn", turn_body("hello")).json()["turn_id"] for _ in range(6)]

        def answer_and_reads(path: str) -> tuple[Json, list[tuple[str, list[tuple[str, str]]]]]:
            aws.table_reads(over_dynamo.table)
            answer = client.get(path)
            return answer, sorted((read.name, read.keys) for read in aws.table_reads(over_dynamo.table))

        agent_ids = [each.split("/")[3] for each in sessions]
        listed, reads = answer_and_reads("/v1/agents")
        assert [entry["agent_id"] for entry in listed["data"]] == agent_ids
        (batch, listing) = reads
        assert (listing[0], [pk for pk, _ in listing[1]]) == ("Query", ["local|agents"])
        assert batch == ("BatchGetItem", [(f"local|agent:{agent_id}", "#") for agent_id in agent_ids])

        listed, reads = answer_and_reads(f"{agent}/sessions")
        assert [entry["turns"] for entry in listed["data"]] == [[]]
        agent_id, session_id = agent_ids[0], session.rpartition("/")[2]
        of_session = f"local|session:{agent_id}:{session_id}"
        assert [name for name, _ in reads] == ["GetItem", "Query"]
        partitions = {pk for _, keys in reads for pk, _ in keys}
        assert partitions == {f"local|agent:{agent_id}", f"local|session:{agent_id}"}

        chosen = [turns[1], turns[4]]
        read, reads = answer_and_reads(f"{session}?turn_ids={chosen[1]}&turn_ids={chosen[0]}")
        assert [turn["turn_id"] for turn in read["turns"]] == chosen
        ((name, keys),) = reads
        expected = {(f"local|agent:{agent_id}", "#"), (of_session, "ctx:~")}
        assert (name, set(keys)) == ("BatchGetItem", expected | {(of_session, f"turn:{turn_id}") for turn_id in chosen})


def test_turns_are_chosen_in_the_query_and_in_the_body(client: PlainClient, server: ServerProcess) -> None:
    session = client.open_session("instant")
    turns = [client.post(f"{session}/turn", turn_body("hello")).json() for _ in range(3)]
    chosen = [turns[2]["turn_id"], turns[0]["turn_id"]]
    url = server.url + session
    in_query = httpx.get(url, params={"turn_ids": chosen}).json()
    in_body = httpx.request("GET", url, json={"turn_ids": chosen}).json()
    assert in_query["turns"] == in_body["turns"] == [turns[0], turns[2]]
    assert client.get(f"{session}?turn_ids=unknown")["turns"] == []


@pytest.mark.parametrize(
    ("query", "expected", "has_more"),
    [
        ("", [0, 1, 2], False),
        ("?limit=-1", [0, 1, 2], False),
        ("?limit=0", [], True),
        ("?limit=2", [0, 1], True),
        ("?start_index=1", [1, 2], False),
        ("?start_index=9", [], False),
    ],
)
def test_a_list_has_the_requested_part(query: str, expected: list[int], has_more: bool, client: PlainClient) -> None:
    agent = client.open_session("instant").partition("/session/")[0]
    made = [client.get(f"{agent}/sessions")["data"][0]["session_id"]]
    made += [client.post(f"{agent}/session", {"session_name": "more"}).json()["session_id"] for _ in range(2)]
    part = client.get(f"{agent}/sessions{query}")
    assert [entry["session_id"] for entry in part["data"]] == [made[number] for number in expected]
    assert part["has_more"] == has_more


# ── owners ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("store", rest_at_night(STORES, always=("sqlite",)))
def test_objects_of_a_caller_are_neither_listed_nor_found_by_others(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    server = server_over(store, tmp_path, request, auth="api_keys", owner_only="true")
    ann, mate, stranger = (key_of(server, name, tenant) for name, tenant in (("a", "t"), ("m", "t"), ("s", "u")))
    server.authorization = ann["authorization"]
    with server:

        def answered(method: str, path: str, by: dict[str, str], body: Json | None = None) -> httpx.Response:
            return httpx.request(method, server.url + path, headers=by, json=body)

        config = {"agent_config": {"model": "offline", "instructions": "Be brief."}}
        agent = f"/v1/agents/{answered('POST', '/v1/agents', ann, config).json()['agent_id']}"
        session_id = answered("POST", f"{agent}/session", ann, {"session_name": "hers"}).json()["session_id"]
        assert [each["session_id"] for each in answered("GET", f"{agent}/sessions", ann).json()["data"]] == [session_id]
        for other in (mate, stranger):
            assert answered("GET", "/v1/agents", other).json()["data"] == []
            for path in (agent, f"{agent}/sessions", f"{agent}/session/{session_id}"):
                assert answered("GET", path, other).status_code == 404, path
            assert answered("POST", f"{agent}/session/{session_id}/turn", other, turn_body("hello")).status_code == 404


def key_of(server: ServerProcess, name: str, tenant: str) -> dict[str, str]:
    """Return the header of a new caller, whose key the command made."""
    command = [sys.executable, "-m", "turnstone", "keys", "create", name, "--tenant", tenant]
    ended = subprocess.run(command, cwd=ROOT, env=server.key_environment(), capture_output=True, text=True, check=True)
    return {"authorization": f"Bearer {ended.stdout.strip()}"}
