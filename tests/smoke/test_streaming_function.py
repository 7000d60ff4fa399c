"""The start script of a streaming function runs from the built artefact and streams a turn event by event.

Covers: functions/stream.py
"""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any

from tests.fakes.models.openai_answers import Pause, ending, text_answer, text_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.smoke.artefact import BuiltFunction, CloudResources
from tests.smoke.conftest import Show
from tests.smoke.interface_emulator import InvokedFunction
from tests.smoke.streaming_server import StreamingServer, adapter_headers
from tests.support.aws.aws_events import load_event, store_what_events_name
from tests.support.aws.emulator import EmulatorProcess
from tests.support.clients.plain_client import PlainClient, answering, text_in, turn_body
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.domain.refs import SessionRef

SILENCE_S = 1.0
SLOW = (text_chunk("slow "), Pause(SILENCE_S), text_chunk("words"), *ending("stop", 2))
NEVER = (text_chunk("slow "), Pause(60.0), text_chunk("words"), *ending("stop", 2))


def stored(emulator: EmulatorProcess, resources: CloudResources, *, is_waiting: bool = False) -> SessionRef:
    store = DynamoRangeStore(emulator.client("dynamodb"), resources.table)
    return store_what_events_name(store, is_waiting=is_waiting)


def session_path(ref: SessionRef) -> str:
    return f"/v1/agents/{ref.agent_id}/session/{ref.session_id}"


def get_turn_event(ref: SessionRef, turn_id: str) -> dict[str, Any]:
    event = load_event("get_turn")
    path = f"{session_path(ref)}/turn/{turn_id}"
    ids = {"agent_id": ref.agent_id, "session_id": ref.session_id, "turn_id": turn_id}
    return {**event, "path": path, "pathParameters": ids}


def underscored(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("-", "_"): value for name, value in headers.items()}


def streaming(name: str, model: ModelServer | None = None) -> BuiltFunction:
    return BuiltFunction(name, model.url if model else "offline", "adapter")


def test_events_arrive_while_the_model_still_answers(
    emulator: EmulatorProcess, resources: CloudResources, show: Show
) -> None:
    ref = stored(emulator, resources)
    headers = underscored(adapter_headers())
    events: list[dict[str, Any]] = []
    came_after_s: list[float] = []
    with (
        ModelServer([SLOW]) as model,
        StreamingServer(streaming("CreateTurn", model), resources) as server,
        PlainClient(server.url) as client,
    ):
        sent_at = time.perf_counter()
        with client.streaming(f"{session_path(ref)}/turn", turn_body("hello"), **headers) as stream:
            for event in stream:
                events.append(event)
                came_after_s.append(time.perf_counter() - sent_at)
    show(f"CreateTurn's start script: takes connections after {server.started_in_ms:.0f} ms")
    show(f"CreateTurn's first request: first event after {came_after_s[0] * 1_000:.0f} ms")
    kinds = [event["event_type"] for event in events]
    assert (kinds[0], kinds[-1]) == ("turn_start", "turn_complete")
    assert text_in(events) == "slow words"
    first_text = kinds.index("step_progress")
    assert came_after_s[-1] - came_after_s[first_text] > SILENCE_S * 0.9


def test_a_pause_and_its_resume_are_streamed_by_two_functions(
    emulator: EmulatorProcess, resources: CloudResources
) -> None:
    ref = stored(emulator, resources)
    headers = underscored(adapter_headers())
    with StreamingServer(streaming("CreateTurn"), resources) as server, PlainClient(server.url) as client:
        events = client.streamed(f"{session_path(ref)}/turn", turn_body("please get_weather(city=Oslo)"), **headers)
    assert events[-1]["event_type"] == "turn_awaiting_input"
    turn = events[-1]["turn"]
    with StreamingServer(streaming("ResumeTurn"), resources) as server, PlainClient(server.url) as client:
        path = f"{session_path(ref)}/turn/{turn['turn_id']}/resume"
        events = client.streamed(path, answering(turn, "4 degrees, rain"), **headers)
    assert events[-1]["event_type"] == "turn_complete"
    assert "4 degrees, rain" in events[-1]["turn"]["output_message"]["content"]


def test_a_session_is_read_from_its_own_server(emulator: EmulatorProcess, resources: CloudResources) -> None:
    ref = stored(emulator, resources)
    with StreamingServer(streaming("GetSession"), resources) as server, PlainClient(server.url) as client:
        response = client._http.get(session_path(ref), headers=adapter_headers())
    assert response.status_code == 200
    assert [turn["turn_id"] for turn in response.json()["turns"]] == [
        load_event("get_turn")["pathParameters"]["turn_id"]
    ]


def test_a_request_without_the_gateways_context_is_refused(
    emulator: EmulatorProcess, resources: CloudResources
) -> None:
    ref = stored(emulator, resources)
    before = emulator.client("dynamodb").scan(TableName=resources.table)["Items"]
    headers = adapter_headers()
    del headers["x-amzn-request-context"]
    with StreamingServer(streaming("CreateTurn"), resources) as server, PlainClient(server.url) as client:
        response = client.post(f"{session_path(ref)}/turn", turn_body("hello"), **underscored(headers))
    assert response.status_code == 401
    assert emulator.client("dynamodb").scan(TableName=resources.table)["Items"] == before


def test_a_turn_that_outlives_its_function_is_finished_by_the_worker(
    emulator: EmulatorProcess, resources: CloudResources
) -> None:
    ref = stored(emulator, resources)
    with ModelServer([NEVER, text_answer("at ", "last")]) as model:
        function = streaming("CreateTurn", model)
        with StreamingServer(function, resources) as server, PlainClient(server.url) as client:
            sent_at = time.monotonic()
            headers = underscored(adapter_headers(left=timedelta(seconds=61)))
            events = client.streamed(f"{session_path(ref)}/turn", turn_body("hello"), **headers)
            took_s = time.monotonic() - sent_at
        turn_id = events[0]["turn_id"]
        assert events[0]["event_type"] == "turn_start"
        assert turn_id in events[-1]["error"]["message"]
        assert 0.5 < took_s < 10
        given = started_with(emulator, resources, turn_id)
        assert given["next"] == "attend"
        with InvokedFunction(BuiltFunction("GetTurn"), resources) as get_turn:
            answer = get_turn.invoke(get_turn_event(ref, turn_id)).answer
            assert answer["headers"]["x-turn-status"] == "in_progress"
            with InvokedFunction(BuiltFunction("RunTurn", model.url), resources) as worker:
                outcome = worker.invoke(given["turn"]).answer
            assert (outcome["next"], outcome["status"]) == ("done", "completed")
            answer = get_turn.invoke(get_turn_event(ref, turn_id)).answer
            assert answer["headers"]["x-turn-status"] == "completed"
            assert json.loads(answer["body"])["output_message"]["content"] == "at last"


def started_with(emulator: EmulatorProcess, resources: CloudResources, name: str) -> dict[str, Any]:
    """Return the input of the only started execution, which has that name."""
    states = emulator.client("stepfunctions")
    (execution,) = states.list_executions(stateMachineArn=resources.machine_arn)["executions"]
    assert execution["name"] == name
    given: dict[str, Any] = json.loads(states.describe_execution(executionArn=execution["executionArn"])["input"])
    return given
