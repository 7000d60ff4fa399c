"""Cases beyond the table of clients: restarts, the offline model, and the requests to the model.

Covers: functions
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Answer, built_in_answer, call_answer, error_answer, text_answer
from tests.fakes.models.openai_server import ModelServer
from tests.support.cases import rest_at_night
from tests.support.clients.client_script import VERSIONS, ClientScript, run_script
from tests.support.models.seen_by_model import requests_ending_with, seen
from tests.support.server.servers import ServerProcess
from tests.support.server.stores import STORES, server_over

START_OF_TURN = ["turn_start", "step_start inference"]
TEXT = ["step_progress inference text", "step_complete inference"]
CALL = ["step_progress inference tool_call", "step_complete inference"]
RESUMED = ["step_complete tool_execution", "step_start inference", *TEXT, "turn_complete"]

MODES = (("streaming", "sqlite"), ("whole", "sqlite"), ("streaming", "dynamodb"))
PAUSES = [(version, *mode) for version in VERSIONS for mode in MODES]
PAUSES_ALWAYS = (("0.2.12", "whole", "sqlite"), ("0.2.23", "streaming", "dynamodb"))

pytestmark = pytest.mark.timeout(120)
# the older one does the same in the table of clients
newest = pytest.mark.parametrize("version", rest_at_night(VERSIONS, always=VERSIONS[-1:]))


def answer_unless_broken(body: Mapping[str, Any]) -> Answer:
    return error_answer(400, "out of order") if body["model"] == "broken" else built_in_answer(body)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A loopback model server with its built-in models, and one named broken."""
    with ModelServer(answer_unless_broken) as server:
        yield server


@pytest.fixture
def server(model: ModelServer, tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path, model_url=model.url) as server:
        yield server


@pytest.mark.parametrize(("version", "mode", "store"), rest_at_night(PAUSES, always=PAUSES_ALWAYS))
def test_a_turn_paused_for_a_client_tool_outlives_the_server(
    version: str, mode: str, store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    answers = (
        text_answer("Hello", "."),
        call_answer(("get_weather", '{"city": "Oslo"}')),
        text_answer("It ", "rains", "."),
        text_answer("Quite."),
    )
    with (
        ModelServer(answers) as model,
        server_over(store, tmp_path, request, model_url=model.url) as server,
        ClientScript(version, "pause_and_resume", server.url, mode) as script,
    ):
        before = script.next_report()
        server.restart()
        script.go_on()
        after = script.whole_report()

    first_kinds, first = before["first"]
    paused_kinds, paused = before["paused"]
    resumed_kinds, resumed = after["resumed"]
    third_kinds, third = after["third"]
    if mode == "streaming":
        assert first_kinds == third_kinds == [*START_OF_TURN, *TEXT, "turn_complete"]
        assert paused_kinds == [*START_OF_TURN, *CALL, "turn_awaiting_input"]
        assert resumed_kinds == RESUMED

    assert (paused["steps"], paused["stop_reason"], paused["is_over"]) == (["inference"], "end_of_message", False)
    assert [call[:2] for call in paused["calls"]] == [["get_weather", {"city": "Oslo"}]]
    assert after["waiting"] == paused
    assert after["waiting_step"] == ["inference", paused["step_ids"][0]]

    assert resumed["turn_id"] == paused["turn_id"]
    assert resumed["steps"] == ["inference", "tool_execution", "inference"]
    assert resumed["step_ids"][0] == paused["step_ids"][0]
    assert len(set(resumed["step_ids"])) == 3
    assert (resumed["content"], resumed["calls"], resumed["is_over"]) == ("It rains.", [], True)
    assert after["retrieved"] == resumed

    assert after["session_name"] == "weather"
    assert after["turns"] == [first, resumed, third]
    assert [turn["input"] for turn in after["turns"]] == [["hello"], ["How is the weather in Oslo?"], ["Are you sure?"]]
    assert len(model.requests) == 4
    assert seen(model.requests[3]) == [
        "system: Be brief.",
        "user: hello",
        "assistant: Hello.",
        "user: How is the weather in Oslo?",
        'assistant: get_weather({"city": "Oslo"})',
        "tool: rain, 7 °C",
        "assistant: It rains.",
        "user: Are you sure?",
    ]


@pytest.mark.parametrize(
    ("version", "store"), rest_at_night(product(VERSIONS, STORES), always=tuple(zip(VERSIONS, STORES, strict=True)))
)
def test_the_agent_class_runs_its_tool_with_the_offline_model(
    version: str, store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with server_over(store, tmp_path, request) as server:
        seen_by_client = run_script(version, "agent_loop", server.url, "offline", "please add(a=3, b=4)")
    assert seen_by_client["ran"] == [[3, 4], [3, 4]]
    assert seen_by_client["streamed"]["content"].startswith("add returned: 7\n")
    assert seen_by_client["whole"]["content"] == seen_by_client["streamed"]["content"]
    expect_agent_loop(seen_by_client)


@newest
def test_the_agent_class_runs_its_tool_with_a_model_server(
    version: str, server: ServerProcess, model: ModelServer
) -> None:
    seen_by_client = run_script(version, "agent_loop", server.url, "tool:add", "How much is it?")
    # The last turn, a thanks, calls the tool as well: that model always does.
    assert seen_by_client["ran"] == [[1, 2], [1, 2], [1, 2]]
    assert seen_by_client["whole"]["content"] == seen_by_client["streamed"]["content"] == "ok"
    expect_agent_loop(seen_by_client)
    assert len(model.requests) == 6
    assert seen(model.requests[5]) == [
        "system: Be brief.",
        "user: How much is it?",
        "assistant: add({})",
        "tool: 3",
        "assistant: ok",
        "user: thanks",
        "assistant: add({})",
        "tool: 3",
    ]


def expect_agent_loop(seen_by_client: Mapping[str, Any]) -> None:
    """Assert the facts that are the same with every model."""
    assert seen_by_client["kinds"] == [*START_OF_TURN, *CALL, "turn_awaiting_input", *RESUMED]
    assert (
        seen_by_client["streamed"]["steps"]
        == seen_by_client["whole"]["steps"]
        == ["inference", "tool_execution", "inference"]
    )
    assert seen_by_client["turn_ids"] == [seen_by_client["whole"]["turn_id"], seen_by_client["again"]["turn_id"]]
    printed = [line for line in seen_by_client["printed"].splitlines() if line.startswith("tool_execution> ")]
    assert [line.partition(":")[2].partition(" ")[0] for line in printed] == ["add", "add"]
    assert printed[1].partition(" Response:")[2] in ("3", "7")
    assert f"inference> {seen_by_client['streamed']['content']}\n" in seen_by_client["printed"]


@newest
def test_errors_reach_the_client_with_their_true_status(
    version: str, server: ServerProcess, model: ModelServer
) -> None:
    seen_by_client = run_script(version, "errors", server.url)

    for unknown in ("agent", "session", "session_streaming", "turn", "turn_resumed"):
        error = seen_by_client[f"unknown_{unknown}"]
        assert (error["error"], error["status"]) == ("NotFoundError", 404), unknown
        assert "unknown" in error["message"]

    for refused, reason in (("shield", "input_shields"), ("no_messages", "messages")):
        error = seen_by_client[refused]
        assert (error["error"], error["status"]) == ("BadRequestError", 400), refused
        assert reason in error["message"]

    for second in ("second_turn", "second_turn_streaming"):
        error = seen_by_client[second]
        assert (error["error"], error["status"]) == ("ConflictError", 409), second
        assert seen_by_client["first_turn"]["turn_id"] in error["message"]
        assert error["retry"] != "false", "a retry does cure this"
    assert seen_by_client["first_turn"]["content"] == seen_by_client["second_turn_with_retries"]["content"] == "ok"
    assert seen_by_client["turns_of_busy_session"] == ["first", "third"]
    assert requests_ending_with(model.requests, "second") == requests_ending_with(model.requests, "other") == []

    error = seen_by_client["broken_model"]
    assert (error["error"], error["status"], error["retry"]) == ("InternalServerError", 502, "false")
    for message in (
        error["message"],
        seen_by_client["broken_model_streaming"],
        seen_by_client["broken_model_in_agent"],
    ):
        assert "out of order" in message


SHIELD = ["step_start shield_call", "step_complete shield_call"]


@newest
def test_shields_are_registered_run_and_stop_questions_and_answers(
    version: str, server: ServerProcess, model: ModelServer
) -> None:
    seen_by_client = run_script(version, "shields", server.url)
    assert (seen_by_client["registered"], seen_by_client["listed"]) == (["words", "pattern"], ["words"])
    assert seen_by_client["clean"] is None
    assert (seen_by_client["found"]["violation_level"], seen_by_client["found"]["user_message"]) == (
        "error",
        "Not here.",
    )
    assert seen_by_client["found"]["metadata"] == {"shield_id": "words", "found": ["words.0"]}
    assert "neither safe nor unsafe" in seen_by_client["judged"]["metadata"]["failure"]

    clean, stopped, after = seen_by_client["instant"]
    assert clean[0] == ["turn_start", *SHIELD, "step_start inference", *TEXT, *SHIELD, "turn_complete"]
    assert clean[2] == ["user-input", "assistant-output"]
    assert stopped[0] == ["turn_start", *SHIELD, "turn_complete"]
    assert (stopped[1]["content"], stopped[1]["steps"]) == ("Not here.", ["shield_call"])
    assert "No Violation" in clean[3][0]
    assert "words.0" in stopped[3][0]
    assert seen_by_client["instant_kept"] == [clean[1], stopped[1], after[1]]
    (answered,) = seen_by_client["chatty"]
    assert answered[0] == [*START_OF_TURN, *TEXT, *SHIELD, "turn_complete"]
    assert answered[1]["content"] == "Not here."
    assert "nobody" in seen_by_client["refused"]

    questions = [request for request in model.requests if request["model"] == "instant"]
    assert [seen(request) for request in questions] == [
        ["system: Be brief.", "user: hello"],
        ["system: Be brief.", "user: hello", "assistant: ok", "user: and now?"],
    ]
    (guarding,) = (request for request in model.requests if request["model"] == "guard-8b")
    assert "User: hello" in guarding["messages"][0]["content"]


@newest
def test_shields_judge_a_client_tools_answer_before_the_model_sees_it(
    version: str, server: ServerProcess, model: ModelServer
) -> None:
    seen_by_client = run_script(version, "guarded_tool", server.url)
    clean, stopped = seen_by_client["turns"]
    judged = ["shield_call", "inference", "shield_call"]
    assert clean["steps"] == [*judged, "tool_execution", *judged]
    assert clean["content"] == "ok"
    assert stopped["steps"] == [*judged, "tool_execution", "shield_call"]
    assert (stopped["content"][:7], stopped["stop_reason"]) == ("I can't", "end_of_turn")
    assert seen_by_client["is_in_order"]
    assert seen_by_client["is_apart"]
    assert [len(request["messages"]) for request in model.requests] == [2, 4, 2]
    assert "bomb" not in str(model.requests)
    assert all(request["tools"][0]["function"]["name"] == "look" for request in model.requests)
