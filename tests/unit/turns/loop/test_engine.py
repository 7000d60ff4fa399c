"""The turn loop: the order of its events, the writes before each event, and its result.

The engine over fakes, `Engine`, also serves the tests of the prompt, of the tool plan, of the context and of replay.

Covers: engine/turn, engine/steps, engine/tool_plan, engine/measuring
"""

from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from tests.fakes.models.scripted import USAGE, Scripted, ScriptedReply, calls, cut_off
from tests.fakes.shields import clean
from tests.support.engine.turn_loop import (
    BOTH_GROUPS,
    CLIENT_CALL,
    CONFIG,
    INFERENCE_KEPT,
    NOW,
    PRICE,
    RAIN,
    STOCK,
    TOOL_KEPT,
    UNKNOWN,
    UNPARSABLE,
    Engine,
    Saved,
    StandingClock,
    answered_by_client,
    counted,
    new_turn,
    outline,
)
from turnstone.domain.errors import LeaseLost, ModelFailed
from turnstone.domain.messages.messages import CompletionMessage, ToolResponseMessage
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.turns.events import StepCompleted, step_completed
from turnstone.domain.turns.turns import (
    InferenceStep,
    StepTrace,
    TurnState,
)
from turnstone.engine.steps import AwaitClientTools, Finish, RunAgain


def test_a_plain_answer_is_emitted_in_chunks_and_its_step_is_left_to_the_close() -> None:
    engine = Engine(ScriptedReply(("Hel", "lo")))
    ending = engine.run(new_turn())
    assert outline(engine.journal) == ["S inference", "P Hel", "P lo"]
    answer = CompletionMessage(content="Hello", stop_reason="end_of_turn")
    began, ended = NOW + timedelta(microseconds=1), NOW + timedelta(microseconds=2)
    step = InferenceStep(turn_id="t1", step_id="id-1", started_at=began, completed_at=ended, model_response=answer)
    trace = StepTrace(deltas=2, usage=counted(engine), model="m")
    assert Finish(new_turn().with_step(step, trace), answer, unpublished=(step_completed(step),)) == ending


def test_a_server_tool_is_a_step_of_its_own_between_two_inferences() -> None:
    engine = Engine(PRICE, "3 coins")
    ending = engine.run(new_turn())
    called = ["S inference", "P c1 succeeded", *INFERENCE_KEPT, "S tool_execution", "P c1 in_progress", *TOOL_KEPT]
    assert [*called, "S inference", "P 3 coins"] == outline(engine.journal)
    assert CompletionMessage(content="3 coins", stop_reason="end_of_turn") == ending.output


def test_a_client_tool_is_awaited_without_a_step_of_it_and_the_inference_is_left_to_the_pause() -> None:
    engine = Engine(calls(CLIENT_CALL, text="Let me ask."))
    ending = engine.run(new_turn())
    assert outline(engine.journal) == ["S inference", "P Let me ask.", "P c3 succeeded"]
    output = CompletionMessage(content="Let me ask.", stop_reason="end_of_message", tool_calls=(CLIENT_CALL,))
    assert AwaitClientTools(ending.state, output, unpublished=(step_completed(ending.state.turn.steps[0]),)) == ending


def test_of_mixed_calls_ours_run_first_and_the_client_receives_only_its_own() -> None:
    engine = Engine(calls(CLIENT_CALL, PRICE, RAIN, text="Looking."), config=BOTH_GROUPS)
    ending = engine.run(new_turn())
    inference = ["S inference", "P Looking.", "P c3 succeeded", "P c1 succeeded", "P c4 succeeded", *INFERENCE_KEPT]
    price = ["S tool_execution", "P c1 in_progress", *TOOL_KEPT]
    rain = ["S tool_execution", "P c4 in_progress"]  # stored with the pause
    assert [*inference, *price, *rain] == outline(engine.journal)
    output = CompletionMessage(content="Looking.", stop_reason="end_of_message", tool_calls=(CLIENT_CALL,))
    assert AwaitClientTools(ending.state, output, unpublished=(step_completed(ending.state.turn.steps[-1]),)) == ending
    assert engine.stored.turn.steps == ending.state.turn.steps[:-1]


SCRIPTS: dict[str, tuple[Scripted, ...]] = {
    "plain": ("hi",),
    "server tool": (PRICE, "done"),
    "several server tools": (calls(STOCK, PRICE), calls(RAIN, text="and"), "done"),
    "client tool": (CLIENT_CALL,),
    "mixed": (calls(PRICE, CLIENT_CALL),),
    "calls that can't run": (calls(UNKNOWN, UNPARSABLE), "done"),
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_a_step_is_stored_before_it_is_emitted_and_an_unemitted_step_is_not_stored(
    script: tuple[Scripted, ...],
) -> None:
    engine = Engine(*script, config=BOTH_GROUPS)
    ending = engine.run(new_turn())
    kept = [(type(entry), entry.step_details) for entry in engine.journal if isinstance(entry, Saved | StepCompleted)]
    steps = [step for step in ending.state.turn.steps if (step_completed(step),) != ending.unpublished]
    assert [(kind, step) for step in steps for kind in (Saved, StepCompleted)] == kept


def test_the_state_to_continue_with_is_the_one_that_was_stored() -> None:
    engine = Engine(PRICE)
    after_inference = engine.move(new_turn())
    assert RunAgain(engine.stored) == after_inference
    after_tool = engine.move(engine.stored)
    assert RunAgain(engine.stored) == after_tool


def test_a_step_that_could_not_be_stored_is_not_emitted() -> None:
    class LosesTheLease(Engine):
        def save_step(self, state: TurnState) -> None:
            raise LeaseLost(state.turn_id)

    engine = LosesTheLease(PRICE)
    with pytest.raises(LeaseLost):
        engine.run(new_turn())
    assert outline(engine.journal) == ["S inference", "P c1 succeeded"]


@pytest.mark.parametrize("pending", [PRICE, CLIENT_CALL, UNKNOWN, UNPARSABLE], ids=lambda pending: pending.call_id)
def test_calls_of_the_last_inference_allowed_are_not_run_and_not_in_the_output(pending: ToolCall) -> None:
    engine = Engine(PRICE, calls(pending, text="one more"), config=CONFIG.model_copy(update={"max_infer_iters": 2}))
    ending = engine.run(new_turn())
    output = CompletionMessage(content="one more", stop_reason="end_of_turn")
    assert Finish(ending.state, output, unpublished=(step_completed(ending.state.turn.steps[-1]),)) == ending
    assert (pending,) == ending.state.turn.steps[-1].model_response.tool_calls
    assert [invocation.call for invocation in engine.tools.invocations] == [PRICE]


def test_the_count_of_inferences_survives_a_resume() -> None:
    config = CONFIG.model_copy(update={"max_infer_iters": 2})
    waiting = Engine(CLIENT_CALL, config=config).run(new_turn())
    engine = Engine(calls(CLIENT_CALL, text="again"), config=config)
    ending = engine.run(answered_by_client(waiting.state, CLIENT_CALL))
    output = CompletionMessage(content="again", stop_reason="end_of_turn")
    assert Finish(ending.state, output, unpublished=(step_completed(ending.state.turn.steps[-1]),)) == ending
    assert ending.state.inference_count == 2


def test_a_resumed_turn_continues_with_the_client_answers() -> None:
    waiting = Engine(CLIENT_CALL).run(new_turn())
    engine = Engine("two it is")
    engine.run(answered_by_client(waiting.state, CLIENT_CALL))
    assert outline(engine.journal) == ["S inference", "P two it is"]
    assert ToolResponseMessage(call_id="c3", content="two") == engine.inference.requests[0].messages[-1]


@pytest.mark.parametrize("partial", [(), (PRICE,), (CLIENT_CALL, UNPARSABLE)], ids=["no call", "a call", "half a call"])
def test_an_answer_cut_off_by_its_token_limit_ends_the_turn_and_runs_nothing(partial: tuple[ToolCall, ...]) -> None:
    engine = Engine(ScriptedReply(("so",), calls=partial, is_cut_off=True))
    ending = engine.run(new_turn())
    output = CompletionMessage(content="so", stop_reason="out_of_tokens")
    assert Finish(ending.state, output, unpublished=(step_completed(ending.state.turn.steps[0]),)) == ending
    assert partial == ending.state.turn.steps[0].model_response.tool_calls
    assert engine.tools.invocations == []


def test_an_answer_cut_off_at_the_iteration_limit_is_cut_off() -> None:
    ending = Engine(cut_off("so"), config=CONFIG.model_copy(update={"max_infer_iters": 1})).run(new_turn())
    assert CompletionMessage(content="so", stop_reason="out_of_tokens") == ending.output


@pytest.mark.parametrize("texts", [(), ("half an ans",)], ids=["at once", "midway"])
def test_a_failing_model_ends_the_move_and_stores_nothing_of_it(texts: tuple[str, ...]) -> None:
    engine = Engine(PRICE, ScriptedReply(texts, error=ModelFailed("overheated")))
    with pytest.raises(ModelFailed, match="overheated"):
        engine.run(new_turn())
    assert [step.step_type for step in engine.stored.turn.steps] == ["inference", "tool_execution"]


def test_the_deltas_and_the_tokens_of_an_inference_are_kept() -> None:
    engine = Engine(ScriptedReply(("a", "b"), calls=(CLIENT_CALL, UNPARSABLE)), "c")
    ending = engine.run(new_turn())
    assert StepTrace(deltas=4, usage=counted(engine), model="m") == ending.state.traces[0]
    assert {"m": USAGE.spent} == ending.state.spent


def test_every_step_has_its_own_id_and_its_turn() -> None:
    steps = Engine(calls(PRICE, STOCK), "done").run(new_turn()).state.turn.steps
    assert [step.step_id for step in steps] == ["id-1", "id-2", "id-3", "id-4"]
    assert {"t1"} == {step.turn_id for step in steps}


class GoingBack(StandingClock):
    """A clock that is set back by every read."""

    def __init__(self) -> None:
        self._at = NOW + timedelta(hours=1)

    def now(self) -> datetime:
        self._at -= timedelta(minutes=1)
        return self._at


@pytest.mark.parametrize("clock", [StandingClock(), GoingBack()], ids=["standing", "going back"])
def test_steps_are_in_order_by_their_times_whatever_the_clock_does(clock: StandingClock) -> None:
    config = CONFIG.model_copy(update={"input_shields": ("a", "b"), "output_shields": ("a", "b")})
    engine = Engine(calls(PRICE, STOCK), PRICE, "done", config=config, shields={"a": clean, "b": clean}, clock=clock)
    started = new_turn()
    ending = engine.run(started.model_copy(update={"turn": started.turn.model_copy(update={"started_at": NOW})}))
    assert isinstance(ending, Finish)
    ended = ending.state.completed(ending.output, NOW)
    steps = ended.turn.steps
    assert len(steps) == 10
    for times in ([step.started_at for step in steps], [step.completed_at for step in steps]):
        assert times == sorted(set(times)), "no two are the same, and none goes back"
    assert all(step.started_at < step.completed_at for step in steps)
    alone = [step for step in steps if step.step_type == "inference"]
    assert all(step.started_at > before.completed_at for before, step in pairwise(steps) if step in alone)
    assert steps[0].started_at > NOW
    assert ended.turn.completed_at > steps[-1].completed_at
