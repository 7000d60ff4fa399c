"""The plan for the calls of an inference, and the execution of the calls that are ours.

Covers: engine/tool_plan, engine/tools
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.models.scripted import ScriptedTools, call, calls
from tests.support.engine.turn_loop import (
    CLIENT_CALL,
    CONFIG,
    INFERENCE_KEPT,
    PRICE,
    RAIN,
    STOCK,
    TOOL_KEPT,
    UNKNOWN,
    UNPARSABLE,
    Engine,
    new_turn,
    outline,
    read_again,
    shop,
)
from turnstone.domain.agents.agents import AgentConfig, ToolGroupWithArgs
from turnstone.domain.errors import Unsupported
from turnstone.domain.messages.messages import ToolResponseMessage
from turnstone.domain.tools.tool_runs import ServerCall, ToolOffer, ToolResult
from turnstone.domain.tools.tools import ToolCall, ToolDef, ToolResponse, call_from_json
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.values.frozen import MAX_DEPTH
from turnstone.engine.steps import AwaitClientTools, RunAgain
from turnstone.engine.tool_plan import RefusedCall, ToolPlan, build_offer, plan_tools

NO_TOOLS = AgentConfig(model="m", instructions="")


def offer_of(config: AgentConfig) -> ToolOffer:
    return build_offer(config, shop().offered(config.toolgroups))


OFFER = offer_of(CONFIG)


def key_of(requested: ToolCall) -> str:
    """Return the idempotency key of a call that a turn without an inference makes."""
    return f"{new_turn().turn_id}:0:{requested.call_id}"


class Died(Exception):
    """The process was killed."""


def configured(*toolgroups: str | ToolGroupWithArgs, client: tuple[str, ...] = ()) -> AgentConfig:
    tools = tuple(ToolDef(name=name) for name in client)
    return CONFIG.model_copy(update={"toolgroups": toolgroups, "client_tools": tools})


def responses_of(state: TurnState) -> list[ToolResponse]:
    return [
        response for step in state.turn.steps if step.step_type == "tool_execution" for response in step.tool_responses
    ]


def test_each_call_goes_to_the_side_that_has_its_tool() -> None:
    plan = plan_tools((CLIENT_CALL, PRICE), new_turn(), OFFER)
    ours = ServerCall(PRICE, OFFER.server["price"], {"item": "tea"}, key_of(PRICE), position=1)
    assert ToolPlan(ours=(ours,), client=(CLIENT_CALL,)) == plan


def test_a_client_tool_hides_a_server_tool_of_its_name() -> None:
    offer = offer_of(configured("shop", client=("price",)))
    assert ToolPlan(ours=(), client=(PRICE,)) == plan_tools((PRICE,), new_turn(), offer)
    assert [tool.name for tool in offer.definitions] == ["price", "stock"]


def test_arguments_of_a_toolgroup_override_those_of_the_model() -> None:
    fixed = ToolGroupWithArgs(name="shop", args={"item": "milk", "shelf": 3})
    requested = call("price", "c1", item="tea", count=2)
    offer = offer_of(configured(fixed))
    (planned,) = plan_tools((requested,), new_turn(), offer).ours
    assert (
        ServerCall(requested, offer.server["price"], {"item": "milk", "count": 2, "shelf": 3}, key_of(requested))
        == planned
    )


def test_only_the_named_tool_of_a_group_is_offered() -> None:
    assert [tool.name for tool in offer_of(configured("shop/stock")).definitions] == ["stock"]


def test_a_toolgroup_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="'nope'"):
        offer_of(configured("nope"))


def test_without_toolgroups_no_server_tool_is_offered() -> None:
    assert offer_of(NO_TOOLS).definitions == ()


def test_an_unknown_tool_is_answered_with_the_tools_there_are() -> None:
    (planned,) = plan_tools((UNKNOWN,), new_turn(), OFFER).ours
    assert RefusedCall(UNKNOWN, "There is no tool named 'fly'. Tools you can call: ask, price, stock.") == planned
    (planned,) = plan_tools((UNKNOWN,), new_turn(), offer_of(NO_TOOLS)).ours
    assert RefusedCall(UNKNOWN, "There is no tool named 'fly'. Tools you can call: none.") == planned


@pytest.mark.parametrize("tool_name", ["price", "ask"], ids=["of the server", "of the client"])
@pytest.mark.parametrize("written", ['{"item": "te', "[1]", "tea"])
def test_arguments_that_are_not_an_object_are_quoted_in_the_answer(tool_name: str, written: str) -> None:
    requested = call_from_json("c1", tool_name, written)
    plan = plan_tools((requested,), new_turn(), OFFER)
    answer = f"The arguments of this call are not a JSON object, so it was not run. They were: {written}"
    assert ToolPlan(ours=(RefusedCall(requested, answer),), client=()) == plan


def test_arguments_without_their_json_are_quoted_too() -> None:
    (planned,) = plan_tools((ToolCall(call_id="c1", tool_name="price", arguments="{tea"),), new_turn(), OFFER).ours
    assert isinstance(planned, RefusedCall)
    assert planned.answer.endswith("{tea")


def test_long_arguments_are_quoted_in_part() -> None:
    (planned,) = plan_tools((call_from_json("c1", "price", "x" * 10_000),), new_turn(), OFFER).ours
    assert isinstance(planned, RefusedCall)
    assert len(planned.answer) < 300


@pytest.mark.parametrize(("depth", "kind"), [(MAX_DEPTH, dict), (MAX_DEPTH + 1, str)])
def test_arguments_nested_deeper_than_can_be_kept_are_no_object(depth: int, kind: type) -> None:
    assert isinstance(call_from_json("c1", "price", '{"a":' * depth + "1" + "}" * depth).arguments, kind)


@pytest.mark.parametrize("written", ["", "{}"])
def test_a_call_without_arguments_has_an_empty_object(written: str) -> None:
    assert ToolCall(call_id="c1", tool_name="f", arguments={}, arguments_json="{}") == call_from_json(
        "c1", "f", written
    )


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=5), max_size=3))
def test_arguments_are_those_that_the_model_wrote(arguments: dict[str, Any]) -> None:
    written = json.dumps(arguments)
    expected = ToolCall(call_id="c1", tool_name="f", arguments=arguments, arguments_json=written)
    assert expected == call_from_json("c1", "f", written)


@settings(deadline=None)
@given(st.lists(st.sampled_from([CLIENT_CALL, PRICE, STOCK, RAIN, UNKNOWN, UNPARSABLE]), max_size=8))
def test_every_call_is_planned_once_in_the_order_called(requested: list[ToolCall]) -> None:
    plan = plan_tools(requested, new_turn(), OFFER)
    assert [c for c in requested if c == CLIENT_CALL] == list(plan.client)
    assert [c for c in requested if c != CLIENT_CALL] == [planned.call for planned in plan.ours]


def test_several_calls_are_run_one_after_the_other_each_a_step() -> None:
    engine = Engine(calls(PRICE, UNKNOWN, RAIN), config=configured("shop", "weather"))
    inferred = engine.move(new_turn())
    del engine.journal[:]
    ran = engine.move(inferred.state)
    steps = [["S tool_execution", f"P {call_id} in_progress", *TOOL_KEPT] for call_id in ("c1", "c5", "c4")]
    assert [line for step in steps for line in step] == outline(engine.journal)
    assert isinstance(ran, RunAgain)
    assert [invocation.call for invocation in engine.tools.invocations] == [PRICE, RAIN]


@pytest.mark.parametrize(
    ("requested", "answer"),
    [
        (UNKNOWN, "There is no tool named 'fly'. Tools you can call: ask, price, stock."),
        (UNPARSABLE, 'The arguments of this call are not a JSON object, so it was not run. They were: {"item": "te'),
        (STOCK, "sold out"),
    ],
    ids=["unknown tool", "unparsable arguments", "failed tool"],
)
def test_a_failed_call_is_answered_to_the_model_and_the_turn_continues(requested: ToolCall, answer: str) -> None:
    engine = Engine(requested, "a pity")
    ending = engine.run(new_turn())
    expected = ToolResponse(
        call_id=requested.call_id, tool_name=requested.tool_name, content=answer, metadata={"error": True}
    )
    assert [expected] == responses_of(ending.state)
    assert ToolResponseMessage(call_id=requested.call_id, content=answer) == engine.inference.requests[1].messages[-1]
    assert ending.output.content == "a pity"


def test_unparsable_arguments_are_emitted_as_failed_to_parse() -> None:
    engine = Engine(UNPARSABLE)
    engine.move(new_turn())
    assert outline(engine.journal) == ["S inference", "P c6 failed", *INFERENCE_KEPT]


def test_the_result_of_a_tool_is_kept_with_its_metadata() -> None:
    ending = Engine(PRICE, "thanks").run(new_turn())
    expected = ToolResponse(call_id="c1", tool_name="price", content="3 coins", metadata={"currency": "coin"})
    assert [expected] == responses_of(ending.state)


@pytest.mark.parametrize(
    "result",
    [ToolResult("x", json.loads('{"a":' * 65 + "1" + "}" * 65)), ToolResult("half a character: \ud800")],
    ids=["too deep", "no text"],
)
def test_a_result_that_cannot_be_kept_is_a_failure(result: ToolResult) -> None:
    engine = Engine(PRICE, "a pity", tools=ScriptedTools({"shop": {"price": lambda _: result}}))
    ending = read_again(engine.run(new_turn()).state)
    assert [response.metadata for response in responses_of(ending)] == [{"error": True}]


def test_a_tool_receives_its_arguments() -> None:
    engine = Engine(PRICE, "done", config=configured(ToolGroupWithArgs(name="shop", args={"shelf": 3})))
    engine.run(new_turn())
    (invocation,) = engine.tools.invocations
    assert (invocation.call, invocation.arguments) == (PRICE, {"item": "tea", "shelf": 3})


def dying(_: Mapping[str, Any]) -> str:
    raise Died


def keys_of(engine: Engine) -> list[str]:
    return [invocation.idempotency_key for invocation in engine.tools.invocations]


class DiesAfterTheTool(Engine):
    def save_step(self, state: TurnState) -> None:
        if state.turn.steps[-1].step_type == "tool_execution":
            raise Died
        super().save_step(state)


def dies_while_the_tool_runs() -> Engine:
    return Engine(calls(PRICE, STOCK), tools=ScriptedTools({"shop": {"price": dying, "stock": dying}}))


def dies_before_the_step_is_stored() -> Engine:
    return DiesAfterTheTool(calls(PRICE, STOCK))


@pytest.mark.parametrize("process", [dies_while_the_tool_runs, dies_before_the_step_is_stored])
def test_a_call_run_again_after_a_crash_has_the_idempotency_key_it_had(process: Callable[[], Engine]) -> None:
    first, second = process(), Engine("done")
    with pytest.raises(Died):
        first.run(new_turn())
    second.run(first.stored)
    assert keys_of(first) == keys_of(second)[:1]


def test_of_partly_answered_calls_only_the_rest_is_run_and_under_its_own_key() -> None:
    first = Engine(calls(PRICE, STOCK), tools=ScriptedTools({"shop": {"price": lambda _: "3 coins", "stock": dying}}))
    with pytest.raises(Died):
        first.run(new_turn())
    second = Engine("done")
    second.run(first.stored)
    assert [invocation.call for invocation in second.tools.invocations] == [STOCK]
    assert keys_of(first)[1:] == keys_of(second)
    answers = [m.call_id for m in second.inference.requests[0].messages if isinstance(m, ToolResponseMessage)]
    assert answers == ["c1", "c2"]


def test_of_partly_answered_calls_the_client_receives_its_own() -> None:
    first = Engine(calls(CLIENT_CALL, PRICE, text="Looking."))
    expected = first.run(new_turn())
    second = Engine()
    assert replace(expected, unpublished=()) == second.run(expected.state)
    assert isinstance(expected, AwaitClientTools)
    assert second.journal == []


def test_no_two_calls_share_an_idempotency_key() -> None:
    again = call("price", "c1", item="milk")
    engine = Engine(calls(PRICE, STOCK), again, "done", PRICE, "done")
    engine.run(new_turn())
    engine.run(new_turn(turn_id="t2"))
    assert [PRICE, STOCK, again, PRICE] == [invocation.call for invocation in engine.tools.invocations]
    assert len(set(keys_of(engine))) == 4
