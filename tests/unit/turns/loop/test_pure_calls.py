"""A call that changes nothing and waits for nothing: its answer is stored by one write with its inference.

Covers: engine/turn, engine/tool_plan, domain/tools/tool_runs, engine/measuring
"""

from __future__ import annotations

import pytest

from tests.fakes.models.scripted import ScriptedReply, ScriptedTools, call, calls
from tests.fakes.shields import InOrder, clean
from tests.support.engine.turn_loop import CONFIG, INFERENCE_KEPT, Engine, new_turn, outline
from turnstone.domain.errors import ToolFailed
from turnstone.domain.tools.tool_runs import MESSAGING, SEND_NAME
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.turns.events import StepCompleted
from turnstone.domain.turns.loop_policies import AGENTS, LETTA, LoopPolicy
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.values.by_identity import ByIdentity
from turnstone.engine.measuring import tokens_of_tools
from turnstone.engine.steps import Finish

SEND = call(SEND_NAME, "s", message="Hi")
INFERENCE = ["S inference", "P s succeeded"]
TOOL = ["S tool_execution", "P s in_progress"]


def sent(arguments: object) -> str:
    if arguments == {"message": "fail"}:
        raise ToolFailed("no")
    return "None"


def engine_of(*script: object, group: str = MESSAGING) -> Engine:
    tools = ScriptedTools({group: {SEND_NAME: sent, "other": lambda _: "true"}})
    config = CONFIG.model_copy(update={"client_tools": (), "toolgroups": (group,)})
    return Engine(*script, config=config, tools=tools)  # type: ignore[arg-type] # replies and calls


def state_of(policy: LoopPolicy = LETTA) -> TurnState:
    return new_turn().model_copy(update={"policy": policy})


def test_a_pure_call_that_ends_the_turn_is_left_to_the_close_with_its_inference() -> None:
    engine = engine_of(SEND)
    ending = engine.run(state_of())
    assert isinstance(ending, Finish)
    assert outline(engine.journal) == INFERENCE
    assert outline(ending.unpublished) == ["C inference", *TOOL, "C tool_execution"]
    steps = [event.step_details for event in ending.unpublished if isinstance(event, StepCompleted)]
    assert steps == list(ending.state.turn.steps)


def test_a_call_of_another_group_is_stored_before_its_answer() -> None:
    engine = engine_of(SEND, group="shop")
    ending = engine.run(state_of())
    assert outline(engine.journal) == [*INFERENCE, *INFERENCE_KEPT, *TOOL]
    assert outline(ending.unpublished) == ["C tool_execution"]


@pytest.mark.parametrize(
    ("policy", "first"),
    [
        (AGENTS, SEND),
        (LETTA, call(SEND_NAME, "s", message="fail")),
        (LETTA, call(SEND_NAME, "s", message="Hi", request_heartbeat=True)),
    ],
    ids=["agents", "failed", "heartbeat"],
)
def test_a_pure_call_after_which_the_turn_continues_is_stored_before_both_steps_are_emitted(
    policy: LoopPolicy, first: object
) -> None:
    engine = engine_of(first, ScriptedReply(("done",)))
    engine.run(state_of(policy))
    held = ["saved inference", "saved tool_execution", "C inference", *TOOL, "C tool_execution"]
    assert outline(engine.journal) == [*INFERENCE, *held, "S inference", "P done"]
    assert engine.stored.turn.steps[-1].step_type == "tool_execution"


def test_two_calls_are_no_pure_one() -> None:
    engine = engine_of(calls(SEND, call("other", "o")), ScriptedReply(("done",)))
    engine.run(state_of(AGENTS))
    journal = outline(engine.journal)
    assert journal[: journal.index("C inference") + 1] == [*INFERENCE, "P o succeeded", *INFERENCE_KEPT]


@pytest.mark.parametrize("shields", ["input_shields", "output_shields"])
def test_a_judged_call_is_no_pure_one(shields: str) -> None:
    engine = engine_of(SEND)
    offer = engine.deps.offer
    judged = offer.server[SEND_NAME]._replace(**{shields: ("careful",)})
    shielding = InOrder({"careful": clean})
    engine.deps = engine.deps._replace(offer=offer._replace(server={SEND_NAME: judged}), shields=shielding)
    engine.run(state_of())
    assert outline(engine.journal)[2:4] == INFERENCE_KEPT
    assert [name for name, _ in shielding.questions] == ["careful"]


def test_the_size_of_tools_is_that_of_each_definition() -> None:
    definitions = (ToolDef(name="a"), ToolDef(name="b", description="x" * 40))
    expected = sum(len(str(definition)) for definition in definitions) // 4
    assert [tokens_of_tools(definitions) for _ in range(2)] == [expected, expected]
    same = ByIdentity(definitions[0])
    assert (same == ByIdentity(definitions[0]), same == ByIdentity(ToolDef(name="a")), same == "a") == (
        True,
        False,
        False,
    )
