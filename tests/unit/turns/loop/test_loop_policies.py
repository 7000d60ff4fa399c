"""The loop under the policies of other APIs: ends at client calls, heartbeats, tool rules, carried calls, alerts.

Covers: engine/loop_rules, engine/prompt, engine/turn, engine/tool_plan, domain/turns/loop_policies,
domain/tools/tool_rules
"""

from typing import Any

import pytest

from tests.fakes.models.scripted import Scripted, ScriptedReply, ScriptedTools, call, calls, cut_off
from tests.support.engine.turn_loop import (
    CLIENT_CALL,
    CONFIG,
    NOW,
    PRICE,
    UNKNOWN,
    UNPARSABLE,
    Engine,
    new_turn,
    read_again,
)
from turnstone.domain.errors import InvalidRequest, ToolFailed
from turnstone.domain.messages.messages import Message, SystemMessage, ToolResponseMessage, UserMessage
from turnstone.domain.sessions.context import ended_messages, entry_of, tokens_of
from turnstone.domain.sessions.context_budget import History
from turnstone.domain.tools.tool_rules import ChildTools, ConditionalTools, FirstTool, TerminalTool
from turnstone.domain.tools.tool_runs import ToolOffer
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.turns.loop_policies import CONTINUED, FAILED, LETTA, NEARLY_FULL, RESPONSES, LoopPolicy
from turnstone.domain.turns.turn_settings import TurnDocument
from turnstone.domain.turns.turns import TurnState
from turnstone.engine.steps import AwaitClientTools, Finish, RunAgain


def refuse(_: object) -> str:
    raise ToolFailed("no")


def letta_tools() -> ScriptedTools:
    plain = dict.fromkeys(("note", "find", "flip"), lambda _: "true")
    return ScriptedTools({"shop": {**plain, "send_message": lambda _: "None", "broken": refuse}})


def letta(*script: Scripted, most: int = 50, tools: ScriptedTools | None = None) -> Engine:
    config = CONFIG.model_copy(update={"client_tools": (), "max_infer_iters": most})
    return Engine(*script, config=config, tools=tools or letta_tools())


def turn_of(policy: LoopPolicy, **settings: Any) -> TurnState:
    return new_turn().model_copy(update={"policy": policy, **settings})


def send(text: str, call_id: str = "s", **arguments: Any) -> ToolCall:
    return call("send_message", call_id, message=text, **arguments)


def finished(engine: Engine, state: TurnState) -> Finish:
    ending = engine.run(state)
    assert isinstance(ending, Finish)
    return ending


def seen(engine: Engine, index: int = -1) -> tuple[Message, ...]:
    return engine.inference.requests[index].messages


def test_a_turn_that_ends_at_client_calls_is_finished_with_them() -> None:
    engine = Engine(calls(PRICE, CLIENT_CALL, text="wait"))
    ending = finished(engine, turn_of(RESPONSES))
    assert (ending.output.tool_calls, ending.output.content) == ((CLIENT_CALL,), "wait")
    assert len(engine.tools.invocations) == 1
    ended = ending.state.completed(ending.output, NOW)
    assert (ended.pending_calls, ended.turn.output_message.tool_calls) == ((), (CLIENT_CALL,))
    assert isinstance(Engine(calls(CLIENT_CALL)).run(new_turn()), AwaitClientTools)


def test_the_last_inference_of_a_turn_that_ends_at_client_calls_still_gives_them() -> None:
    config = CONFIG.model_copy(update={"max_infer_iters": 1})
    assert finished(Engine(calls(CLIENT_CALL), config=config), turn_of(RESPONSES)).output.tool_calls == (CLIENT_CALL,)
    assert finished(Engine(calls(PRICE), config=config), turn_of(RESPONSES)).output.tool_calls == ()


def test_the_next_turn_begins_with_the_answers_in_any_order_and_the_rest_is_answered() -> None:
    second = call("ask", "c9")
    ending = finished(Engine(calls(CLIENT_CALL, second)), turn_of(RESPONSES))
    ended = ending.state.completed(ending.output, NOW)
    assert not any(isinstance(message, ToolResponseMessage) for message in ended_messages(ended))
    given = (UserMessage(content="also"), ToolResponseMessage(call_id="c9", content="yes"))
    state = turn_of(RESPONSES)
    state = state.model_copy(update={"turn": state.turn.model_copy(update={"input_messages": given})})
    engine = Engine("fine", history=ended_messages(ended))
    following = finished(engine, state)
    answers = [m.call_id if isinstance(m, ToolResponseMessage) else m.role for m in seen(engine)]
    assert answers == ["system", "user", "assistant", "c9", "c3", "user"]
    assert state.continues
    assert entry_of(following.state.completed(following.output, NOW)).continues
    assert not entry_of(ended).continues


def test_a_turn_continues_after_a_call_only_if_it_failed_requested_it_or_has_children() -> None:
    assert len(letta(call("note", "1")).run(turn_of(LETTA)).state.turn.steps) == 2
    engine = letta(call("note", "1", request_heartbeat=True), call("broken", "2"), send("hi"))
    ending = finished(engine, turn_of(LETTA))
    assert ending.output.content == "hi"
    assert ending.state.inference_count == 3
    assert seen(engine, 1)[-1] == CONTINUED
    assert seen(engine, 2)[-1] == FAILED
    with_child = LETTA.model_copy(
        update={"tool_rules": (ChildTools(type="children", tool_name="note", children=("send_message",)),)}
    )
    engine = letta(call("note", "1"), send("hi"))
    assert finished(engine, turn_of(with_child)).output.content == "hi"
    assert [tool.name for tool in engine.inference.requests[1].tools] == ["send_message"]


@pytest.mark.parametrize("wrong", [UNKNOWN, UNPARSABLE])
def test_a_call_that_cannot_run_counts_as_failed(wrong: ToolCall) -> None:
    assert finished(letta(wrong, send("hi")), turn_of(LETTA)).state.inference_count == 2


@pytest.mark.parametrize(("value", "inferences"), [("TRUE ", 2), ("false", 1), (1, 1), (None, 1), (True, 2)])
def test_a_heartbeat_may_be_a_text(value: object, inferences: int) -> None:
    engine = letta(call("note", "1", request_heartbeat=value), send("hi"))
    assert finished(engine, turn_of(LETTA)).state.inference_count == inferences


def test_a_terminal_tool_ends_the_turn_unless_it_fails() -> None:
    rules = tuple(TerminalTool(type="terminal", tool_name=name) for name in ("note", "broken"))
    policy = LETTA.model_copy(update={"tool_rules": rules})
    assert finished(letta(call("note", "1", request_heartbeat=True)), turn_of(policy)).state.inference_count == 1
    assert finished(letta(call("broken", "1"), send("hi")), turn_of(policy)).state.inference_count == 2


def test_the_tool_receives_no_argument_of_the_loop_and_only_the_first_call_counts() -> None:
    noted = call("note", "1", text="tea", inner_thoughts="hm", request_heartbeat=False)
    engine = letta(calls(noted, call("find", "2")))
    ending = finished(engine, turn_of(LETTA))
    assert [dict(made.arguments) for made in engine.tools.invocations] == [{"text": "tea"}]
    assert [step.step_type for step in ending.state.turn.steps] == ["inference", "tool_execution"]
    assert "find" not in ending.state.turn.model_dump_json()


def test_a_tool_is_required_in_each_inference_and_text_ends_the_turn() -> None:
    engine = letta(call("note", "1", request_heartbeat=True), "done")
    assert finished(engine, turn_of(LETTA)).output.content == "done"
    assert [request.tool_choice for request in engine.inference.requests] == ["required", "required"]
    assert finished(letta(cut_off("so")), turn_of(LETTA)).output.stop_reason == "out_of_tokens"


def test_a_tool_that_always_fails_ends_at_the_most_steps_with_all_usage() -> None:
    engine = letta(*(call("broken", str(n)) for n in range(4)), most=4)
    ending = finished(engine, turn_of(LETTA))
    assert ending.state.inference_count == 4
    assert len(engine.tools.invocations) == 4
    assert ending.state.spent["m"].total_tokens == 4 * 15


def test_the_first_call_and_the_child_by_answer_are_enforced() -> None:
    rules = (
        FirstTool(type="first", tool_name="flip"),
        ConditionalTools(type="conditional", tool_name="flip", child_by_answer={"True": "note"}, needs_match=True),
        TerminalTool(type="terminal", tool_name="note"),
    )
    policy = LETTA.model_copy(update={"tool_rules": rules})
    engine = letta(call("find", "1"), call("flip", "2"), call("note", "3"))
    ending = finished(engine, turn_of(policy))
    offered = [[tool.name for tool in request.tools] for request in engine.inference.requests]
    assert offered == [["flip"], ["flip"], ["note"]]
    assert "can't be called now" in str(ending.state.turn.steps[1])
    assert [made.call.tool_name for made in engine.tools.invocations] == ["flip", "note"]


def test_rules_that_allow_no_tool_end_the_turn_with_an_error() -> None:
    missing = ConditionalTools(type="conditional", tool_name="flip", child_by_answer={"7": "note"}, needs_match=True)
    engine = letta(call("flip", "1"), "never")
    with pytest.raises(InvalidRequest, match="flip"):
        engine.run(turn_of(LETTA.model_copy(update={"tool_rules": (missing,)})))


def test_a_heartbeat_survives_a_takeover() -> None:
    engine = letta(call("note", "1", request_heartbeat=True))
    first = engine.move(turn_of(LETTA))
    assert isinstance(first, RunAgain)
    engine.move(first.state)
    other = letta(send("hi"))
    ending = finished(other, read_again(engine.stored))
    assert (ending.output.content, seen(other)[-1]) == ("hi", CONTINUED)


def test_a_turn_without_tools_ends_after_a_refused_call() -> None:
    engine = letta(*[call("fly", str(number), request_heartbeat=True) for number in range(60)])
    engine.deps = engine.deps._replace(offer=ToolOffer({}, {}))
    ending = finished(engine, turn_of(LETTA))
    assert (ending.state.inference_count, ending.output.content) == (1, "")
    assert "fly" in str(ending.state.turn.steps[-1])


def test_an_alert_is_shown_once() -> None:
    policy = LETTA.model_copy(update={"alerts_at": 0.5})
    again = call("note", "1", request_heartbeat=True)
    engine = letta(again, again.model_copy(update={"call_id": "2"}), send("hi"))
    engine.deps = engine.deps._replace(window_tokens=20)
    ending = finished(engine, turn_of(policy))
    assert [seen(engine, index).count(NEARLY_FULL) for index in range(3)] == [0, 1, 1]
    following = letta(send("hi"))
    history = ended_messages(ending.state.completed(ending.output, NOW))
    counted = History(history, tokens_of(history))
    following.deps = following.deps._replace(window_tokens=20, history=counted)
    assert not any(trace.has_alert for trace in finished(following, turn_of(policy)).state.traces)


def approving(engine: Engine) -> Engine:
    server = {name: tool._replace(needs_approval=True) for name, tool in engine.deps.offer.server.items()}
    engine.deps = engine.deps._replace(offer=engine.deps.offer._replace(server=server))
    return engine


def test_a_call_that_needs_approval_ends_the_turn_and_runs_only_when_carried() -> None:
    engine = approving(Engine(PRICE))
    ending = finished(engine, turn_of(RESPONSES))
    assert (ending.output.tool_calls, engine.tools.invocations) == ((PRICE,), [])
    history = ended_messages(ending.state.completed(ending.output, NOW))
    carried = approving(Engine(PRICE, history=history))
    following = finished(carried, turn_of(RESPONSES, carried_calls=(PRICE,)))
    assert len(carried.tools.invocations) == 1
    roles = [message.role for message in seen(carried)]
    assert roles == ["system", "user", "assistant", "tool", "user"]
    assert following.output.tool_calls == (PRICE,)
    refused = approving(Engine(PRICE, "well"))
    assert finished(refused, new_turn()).output.content == "well"
    assert refused.tools.invocations == []


def test_a_carried_call_of_the_clients_tool_is_refused_and_not_repeated() -> None:
    engine = Engine("well")
    ending = finished(engine, turn_of(RESPONSES, carried_calls=(CLIENT_CALL,)))
    assert "now the client's" in str(ending.state.turn.steps[0])


class CountedPrompt:
    def __init__(self) -> None:
        self.states: list[TurnState] = []

    def system(self, state: TurnState) -> tuple[Message, ...]:
        self.states.append(state)
        return (SystemMessage(content=f"block {len(self.states)}"),)

    def newest(self, state: TurnState) -> tuple[Message, ...]:
        raise AssertionError("no turn is summarized here")


def test_the_prompt_source_is_called_once_before_each_inference() -> None:
    engine, prompt = Engine(PRICE, "done", history=(UserMessage(content="x" * 400),)), CountedPrompt()
    engine.deps = engine.deps._replace(prompt=prompt, history_tokens=20)
    finished(engine, new_turn())
    assert [seen(engine, index)[0].content for index in range(2)] == ["block 1", "block 2"]
    assert len(prompt.states) == 2
    assert "x" * 400 not in str(seen(engine, 0))


def test_documents_are_shown_in_their_turn_only_and_extras_are_passed_on() -> None:
    engine = Engine(ScriptedReply(("ok",)))
    state = turn_of(RESPONSES, documents=(TurnDocument(content="the file"),), extras={"reasoning_effort": "low"})
    ending = finished(engine, state)
    assert "the file" in str(seen(engine))
    assert dict(engine.inference.requests[0].extras) == {"reasoning_effort": "low"}
    assert "the file" not in str(ended_messages(ending.state.completed(ending.output, NOW)))
