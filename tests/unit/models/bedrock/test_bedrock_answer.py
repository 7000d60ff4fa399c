"""A model's answer, put together from the events of a ConverseStream.

Covers: adapters/models/bedrock/bedrock_answer, adapters/models/bedrock/bedrock_names
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstone.adapters.models.bedrock.bedrock_answer import ConverseAnswer, events_of, usage_from_wire
from turnstone.adapters.models.bedrock.bedrock_names import Aliases
from turnstone.domain.errors import ModelFailed
from turnstone.domain.messages.messages import CompletionMessage
from turnstone.domain.models.requests import Inferred
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.usage.usage import TokenUsage

Event = dict[str, Any]


def delta(index: int = 0, **fields: Any) -> Event:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": fields}}


def begun(name: str, index: int = 0, call_id: str = "t1", **fields: Any) -> Event:
    use = {"toolUseId": call_id, "name": name, **fields}
    return {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": use}}}


def piece(text: str, index: int = 0) -> Event:
    return delta(index, toolUse={"input": text})


def stop(reason: str = "end_turn") -> Event:
    return {"messageStop": {"stopReason": reason}}


METADATA: Event = {"metadata": {"usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}}}


def read(*events: Event, **more: Any) -> CompletionMessage:
    answer = ConverseAnswer(Aliases(), **more)
    for event in events:
        answer.read(event)
    return answer.inferred().message


def calls(*events: Event, reason: str = "tool_use", **more: Any) -> tuple[ToolCall, ...]:
    return read(*events, stop(reason), **more).tool_calls


def triples(found: tuple[ToolCall, ...]) -> list[tuple[str, str, Any]]:
    return [(call.call_id, call.tool_name, call.arguments) for call in found]


def test_the_text_is_that_of_all_deltas_and_of_all_blocks() -> None:
    answer = ConverseAnswer(Aliases())
    events = [{"messageStart": {"role": "assistant"}}, delta(text="a"), delta(text=""), delta(1, text="b"), stop()]
    assert [answer.read(event) for event in events] == ["", "a", "", "b", ""]
    assert answer.inferred() == Inferred(CompletionMessage(content="ab", stop_reason="end_of_turn"))


def test_an_answer_is_over_once_its_end_and_its_usage_have_arrived() -> None:
    for order in ((stop(), METADATA), (METADATA, stop())):
        answer = ConverseAnswer(Aliases())
        for event in order:
            assert not answer.is_over
            answer.read(event)
        assert answer.is_over
        assert answer.inferred().usage == TokenUsage(prompt_tokens=1, completion_tokens=2, total_tokens=3)


@pytest.mark.parametrize(
    ("reason", "stop_reason"),
    [
        ("end_turn", "end_of_turn"),
        ("tool_use", "end_of_turn"),
        ("stop_sequence", "end_of_turn"),
        ("guardrail_intervened", "end_of_turn"),
        ("content_filtered", "end_of_turn"),
        ("some_new_reason", "end_of_turn"),
        ("max_tokens", "out_of_tokens"),
        ("model_context_window_exceeded", "out_of_tokens"),
    ],
)
def test_only_a_reached_limit_is_out_of_tokens(reason: str, stop_reason: str) -> None:
    assert read(delta(text="a"), stop(reason)).stop_reason == stop_reason


@pytest.mark.parametrize("reason", ["malformed_model_output", "malformed_tool_use"])
def test_an_answer_that_bedrock_calls_malformed_fails(reason: str) -> None:
    with pytest.raises(ModelFailed, match=reason):
        read(delta(text="a"), stop(reason))


@pytest.mark.parametrize("reason", ["guardrail_intervened", "content_filtered"])
def test_a_withheld_answer_is_its_replacement_without_calls_and_fails_without_one(reason: str) -> None:
    message = read(delta(text="I may not."), begun("f", 1), stop(reason))
    assert (message.content, message.tool_calls) == ("I may not.", ())
    with pytest.raises(ModelFailed, match=reason):
        read(begun("f"), stop(reason))


def test_an_answer_without_an_end_is_incomplete() -> None:
    with pytest.raises(ModelFailed, match="broke off"):
        read(delta(text="a"), METADATA)


def test_reasoning_and_citations_are_not_part_of_the_answer() -> None:
    thought = delta(reasoningContent={"text": "hmm"})
    cited = delta(1, citation={"title": "a book", "sourceContent": [{"text": "page"}]})
    assert read(thought, delta(reasoningContent={"signature": "x"}), delta(1, text="a"), cited, stop()).content == "a"


# ---- calls


def test_several_calls_are_distinguished_by_their_blocks() -> None:
    found = calls(begun("f", 1, "t1"), begun("g", 2, "t2"), piece('{"x":', 1), piece("{}", 2), piece("1}", 1))
    assert triples(found) == [("t1", "f", {"x": 1}), ("t2", "g", {})]


@given(st.data())
def test_arguments_split_anywhere_are_the_same(data: st.DataObject) -> None:
    arguments = '{"text": "ü😀 {}[]\\"", "n": [1, {"deep": null}]}'
    cuts = sorted(data.draw(st.sets(st.integers(1, len(arguments) - 1))))
    pieces = [arguments[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]
    (call,) = calls(begun("f"), *map(piece, pieces))
    assert call.arguments == {"text": 'ü😀 {}[]"', "n": [1, {"deep": None}]}


@pytest.mark.parametrize("pieces", [(), ("",), ("{}",)])
def test_a_call_without_arguments_has_none(pieces: tuple[str, ...]) -> None:
    (call,) = calls(begun("f"), *map(piece, pieces))
    assert call.arguments == {}


def test_arguments_that_are_not_json_stay_text() -> None:
    (call,) = calls(begun("f"), piece("{broken"))
    assert call.arguments == "{broken"


@pytest.mark.parametrize("pieces", [(), ('{"city": "Os',)])
def test_a_truncated_call_is_not_taken_for_one_without_arguments(pieces: tuple[str, ...]) -> None:
    (call,) = calls(begun("f"), *map(piece, pieces), reason="max_tokens")
    assert call.arguments == "".join(pieces)


def test_a_call_that_the_provider_runs_itself_is_not_ours() -> None:
    assert calls(begun("search", type="server_tool_use"), piece("{}"), delta(1, text="a"), reason="end_turn") == ()


def test_an_alias_in_a_call_becomes_the_name_of_its_tool() -> None:
    names = Aliases()
    names.alias_of("look.up")
    answer = ConverseAnswer(names)
    for event in (begun("look_up"), begun("invented", 1, "t2"), stop("tool_use")):
        answer.read(event)
    assert [call.tool_name for call in answer.inferred().message.tool_calls] == ["look.up", "invented"]


def test_ids_that_are_taken_missing_or_twice_are_replaced() -> None:
    events = [begun("f", index, call_id) for index, call_id in enumerate(("t1", "t2", "t2", ""))]
    found = [call.call_id for call in calls(*events, taken_call_ids=lambda: frozenset({"t1"}))]
    assert found[1] == "t2"
    assert len(set(found)) == 4
    assert all(call_id.startswith("call_") for call_id in (found[0], *found[2:]))


def test_a_call_without_a_name_fails() -> None:
    with pytest.raises(ModelFailed, match="without a name"):
        calls(begun(""))


def test_calls_that_are_not_allowed_are_dropped_and_an_answer_of_nothing_else_fails() -> None:
    assert calls(delta(text="a"), begun("f", 1), may_call=False) == ()
    with pytest.raises(ModelFailed, match="it may call none here"):
        calls(begun("f"), may_call=False)


# ---- usage, and answers that come as a whole


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, None),
        ({}, None),
        ({"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}, (3, 2, 5)),
        (
            {"inputTokens": 3, "outputTokens": 2, "cacheReadInputTokens": 100, "cacheWriteInputTokens": 10},
            (113, 2, 115),
        ),
        *(({"inputTokens": 3, name: 10**310}, None) for name in ("outputTokens", "cacheReadInputTokens")),
        ({"inputTokens": -3, "outputTokens": 2}, None),
        ({"inputTokens": 3, "outputTokens": True}, None),
    ],
)
def test_tokens_read_from_or_written_to_a_cache_are_part_of_the_prompt(
    usage: object, expected: tuple[int, int, int] | None
) -> None:
    found = usage_from_wire(usage)
    assert expected == (found and (found.prompt_tokens, found.completion_tokens, found.total_tokens))


def test_a_whole_answer_equals_the_one_of_its_events() -> None:
    content = [
        {"reasoningContent": {"reasoningText": {"text": "hmm"}}},
        {"text": "a"},
        {"citationsContent": {"content": [{"text": "b"}], "citations": [{"title": "c"}]}},
        {"toolUse": {"toolUseId": "t1", "name": "f", "input": {"x": [1]}}},
        {"toolUse": {"toolUseId": "t2", "name": "g", "input": {}}},
    ]
    response = {"output": {"message": {"content": content}}, "stopReason": "tool_use", "usage": {"inputTokens": 1}}
    answer = ConverseAnswer(Aliases())
    assert "".join(map(answer.read, events_of(response))) == "ab"
    assert answer.is_over
    assert triples(answer.inferred().message.tool_calls) == [("t1", "f", {"x": [1]}), ("t2", "g", {})]


def test_a_response_that_is_not_an_answer_is_incomplete() -> None:
    answer = ConverseAnswer(Aliases())
    assert not "".join(map(answer.read, events_of({})))
    with pytest.raises(ModelFailed, match="broke off"):
        answer.inferred()
