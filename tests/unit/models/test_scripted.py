"""The doubles of the model and of server tools keep the promises of the ports.

Covers: tests/fakes/models/scripted
"""

import threading

import pytest

from tests.fakes.models.scripted import ScriptedInference, ScriptedReply, ScriptedTools, call, calls, cut_off, words
from turnstone.domain.agents.agents import ToolGroupWithArgs
from turnstone.domain.errors import ModelFailed, ToolFailed, Unsupported
from turnstone.domain.messages.messages import CompletionMessage, UserMessage
from turnstone.domain.models.requests import InferenceRequest, Inferred, TextChunk
from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation, ToolResult

REQUEST = InferenceRequest("m", (UserMessage(content="hello"),))
CALL = call("f", "c1", x=1)


def test_replies_come_in_order_and_requests_are_recorded():
    model = ScriptedInference(["hi", words(3), CALL, calls(CALL, text="so"), cut_off("a"), lambda r: r.model])
    answers = [list(model.stream(REQUEST)) for _ in range(6)]
    assert [len(answer) for answer in answers] == [2, 4, 1, 2, 2, 2]
    last = [answer[-1].message for answer in answers if isinstance(answer[-1], Inferred)]
    assert last[0] == CompletionMessage(content="hi", stop_reason="end_of_turn")
    assert last[2].tool_calls == last[3].tool_calls == (CALL,)
    assert last[4].stop_reason == "out_of_tokens"
    assert last[5].content == "m"
    assert model.requests == [REQUEST] * 6


def test_an_error_is_raised_at_once_or_after_some_text():
    model = ScriptedInference([ModelFailed("no"), ScriptedReply(("a",), error=ModelFailed("broke"))])
    with pytest.raises(ModelFailed, match="no"):
        next(model.stream(REQUEST))
    stream = model.stream(REQUEST)
    assert next(stream) == TextChunk("a")
    with pytest.raises(ModelFailed, match="broke"):
        next(stream)


def test_a_request_beyond_the_script_is_an_assertion():
    with pytest.raises(AssertionError, match="asked 1 times"):
        next(ScriptedInference([]).stream(REQUEST))


def test_a_gate_holds_the_answer_back():
    gate = threading.Event()
    stream = ScriptedInference([ScriptedReply(("a",), gate=gate)]).stream(REQUEST)
    received: list[object] = []
    thread = threading.Thread(target=lambda: received.extend(stream))
    thread.start()
    assert received == []
    gate.set()
    thread.join()
    assert received[0] == TextChunk("a")


def test_a_strict_model_refuses_a_call_without_an_answer():
    message = CompletionMessage(content="", stop_reason="end_of_turn", tool_calls=(CALL,))
    dangling = InferenceRequest("m", (*REQUEST.messages, message))
    with pytest.raises(ModelFailed, match="c1"):
        next(ScriptedInference(["hi"]).stream(dangling))
    assert next(ScriptedInference(["hi"], strict=False).stream(dangling)) == TextChunk("hi")


def test_tools_are_offered_by_group_and_run_as_given():
    tools = ScriptedTools({"g": {"f": lambda arguments: str(arguments["x"]), "h": lambda _: ToolResult("r", {"k": 1})}})
    assert [tool.definition.name for tool in tools.offered(("g/h", "g"))] == ["h", "f"]
    assert tools.offered((ToolGroupWithArgs(name="g/f", args={"x": 2}),))[0].fixed_arguments == {"x": 2}
    invocation = ToolInvocation(CALL, {"x": 1}, "key", None, ToolAsker("t"), timeout_s=1)
    assert tools.invoke(invocation) == ToolResult("1")
    assert tools.invocations == [invocation]
    with pytest.raises(Unsupported, match="'nope'"):
        tools.offered(("nope",))
    with pytest.raises(ToolFailed, match="'other'"):
        tools.invoke(ToolInvocation(call("other", "c2"), {}, "key", None, ToolAsker("t"), timeout_s=1))
