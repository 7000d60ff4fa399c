"""A model's answer, put together from the chunks of an OpenAI chat-completions stream.

Covers: adapters/models/openai/openai_answer
"""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstone.adapters.models.openai.openai_answer import AnswerReader, call_ids_of, server_message
from turnstone.domain.errors import ModelFailed
from turnstone.domain.messages.messages import CompletionMessage, UserMessage
from turnstone.domain.models.requests import Inferred
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.usage.usage import TokenUsage


def chunk(finish_reason: str | None = None, **delta: Any) -> dict:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def fragment(arguments: Any = "", **fields: Any) -> dict:
    name = fields.pop("name", None)
    return chunk(tool_calls=[{**fields, "function": {"name": name, "arguments": arguments}}])


def read(*chunks: dict, taken: frozenset[str] = frozenset()) -> Inferred:
    reader = AnswerReader(lambda: taken)
    for each in chunks:
        reader.read(json.dumps(each))
    return reader.inferred()


def calls(*chunks: dict, taken: frozenset[str] = frozenset()) -> tuple[ToolCall, ...]:
    return read(*chunks, chunk("tool_calls"), taken=taken).message.tool_calls


def pairs(found: tuple[ToolCall, ...]) -> list[tuple[str, Any]]:
    return [(call.tool_name, call.arguments) for call in found]


def test_the_text_is_that_of_all_deltas():
    reader = AnswerReader()
    deltas = [chunk(role="assistant", content=""), chunk(content="a"), chunk(content=None), chunk("stop", content="b")]
    assert [reader.read(json.dumps(delta)) for delta in deltas] == ["", "a", "", "b"]
    assert reader.inferred() == Inferred(CompletionMessage(content="ab", stop_reason="end_of_turn"))


@pytest.mark.parametrize(
    ("finish_reason", "stop_reason"),
    [("stop", "end_of_turn"), ("tool_calls", "end_of_turn"), ("eos", "end_of_turn"), ("length", "out_of_tokens")],
)
def test_only_a_reached_limit_is_out_of_tokens(finish_reason: str, stop_reason: str):
    assert read(chunk(finish_reason, content="a")).message.stop_reason == stop_reason


def test_reasoning_is_not_part_of_the_answer():
    assert read(chunk(reasoning_content="hmm"), chunk("stop", content="a")).message.content == "a"


def test_content_may_be_a_list_of_parts_and_a_refusal_is_text():
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "a"}]
    assert read(chunk(content=parts), chunk("stop", refusal="b")).message.content == "ab"


def test_several_calls_are_distinguished_by_index_however_their_fragments_mix():
    found = calls(
        fragment('{"x"', index=0, id="a", name="f"),
        fragment('{"y"', index=1, id="b", name="g"),
        fragment(":1}", index=0),
        fragment(":2}", index=1),
    )
    assert [(call.call_id, call.tool_name, call.arguments) for call in found] == [
        ("a", "f", {"x": 1}),
        ("b", "g", {"y": 2}),
    ]


@pytest.mark.parametrize("fields", [{}, {"index": None}, {"index": None, "id": None}, {"id": ""}])
def test_without_index_and_id_a_name_begins_a_call_and_the_rest_continues_it(fields: dict):
    found = calls(
        fragment('{"x"', name="f", **fields), fragment(":1}", **fields), fragment('{"y":2}', name="g", **fields)
    )
    assert pairs(found) == [("f", {"x": 1}), ("g", {"y": 2})]


def test_whole_calls_of_one_chunk_that_all_have_index_0_are_several_calls():
    parts = [
        {"index": 0, "id": call_id, "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in (("a", "f", '{"x":1}'), ("b", "g", ""), ("c", "h", "{}"))
    ]
    assert pairs(calls(chunk(tool_calls=parts))) == [("f", {"x": 1}), ("g", {}), ("h", {})]


def test_whole_calls_with_the_same_index_and_no_ids_are_several_calls():
    found = calls(fragment('{"x":1}', index=0, name="f"), fragment('{"x":2}', index=0, name="f"))
    assert pairs(found) == [("f", {"x": 1}), ("f", {"x": 2})]


def test_fragments_that_each_have_a_new_id_are_one_call_with_the_first():
    found = calls(
        fragment("", index=0, id="a", name="f"), fragment('{"x"', index=0, id="b"), fragment(":1}", index=0, id="c")
    )
    assert [(call.call_id, call.arguments) for call in found] == [("a", {"x": 1})]


def test_a_name_repeated_in_each_fragment_is_one_name():
    found = calls(fragment('{"x"', index=0, id="a", name="f"), fragment(":1}", index=0, id="a", name="f"))
    assert pairs(found) == [("f", {"x": 1})]


def test_arguments_may_be_an_object_already():
    assert pairs(calls(fragment({"x": 1}, index=0, id="a", name="f"))) == [("f", {"x": 1})]


def test_missing_repeated_and_taken_ids_are_replaced_by_unique_ones():
    parts = [
        {"index": index, "id": call_id, "function": {"name": "f", "arguments": "{}"}}
        for index, call_id in enumerate(["a", "a", "", None, "old"])
    ]
    ids = [call.call_id for call in calls(chunk(tool_calls=parts), taken=frozenset({"old"}))]
    assert ids[0] == "a"
    assert len({*ids, "old"}) == 6
    assert all(call_id.startswith("call_") and len(call_id) == 37 for call_id in ids[1:])


def test_unparsable_arguments_stay_text():
    (call,) = calls(fragment("{oops", index=0, id="a", name="f"))
    assert (call.arguments, call.arguments_json) == ("{oops", "{oops")


def test_a_call_cut_off_before_its_arguments_is_not_a_call_without_arguments():
    (call,) = read(fragment(None, index=0, id="a", name="f"), chunk("length")).message.tool_calls
    assert call.arguments == ""
    (call,) = calls(fragment(None, index=0, id="a", name="f"))
    assert call.arguments == {}


def test_a_call_without_a_name_fails():
    with pytest.raises(ModelFailed, match="without a name"):
        calls(fragment("{}", index=0, id="a"))


def test_a_filtered_answer_is_its_text_so_far_without_calls():
    answer = read(chunk(content="a"), fragment("{}", index=0, id="a", name="f"), chunk("content_filter")).message
    assert answer == CompletionMessage(content="a", stop_reason="end_of_turn")
    with pytest.raises(ModelFailed, match="content_filter"):
        read(chunk("content_filter"))


def test_a_stream_without_any_end_is_incomplete():
    with pytest.raises(ModelFailed, match="broke off"):
        read(chunk(content="a"))


def test_done_is_an_end_of_its_own():
    reader = AnswerReader()
    reader.read(json.dumps(chunk(content="a")))
    assert not reader.is_over
    reader.read("[DONE]")
    assert reader.is_over
    assert reader.inferred().message.stop_reason == "end_of_turn"


def test_a_whole_answer_is_read_like_a_chunk():
    message = {"content": "a", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}
    reader = AnswerReader()
    assert reader.read(json.dumps({"choices": [{"message": message}], "usage": {"prompt_tokens": 1}})) == "a"
    assert reader.is_over
    assert pairs(reader.inferred().message.tool_calls) == [("f", {})]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 4}, (1, 2, 4)),
        ({"prompt_tokens": 1, "completion_tokens": 2}, (1, 2, 3)),
        ({"prompt_tokens": None, "completion_tokens": 2}, (0, 2, 2)),
        ({"prompt_tokens": 10**9, "completion_tokens": 10**9}, (10**9, 10**9, 2 * 10**9)),
        ({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 10**310}, (1, 2, 3)),
    ],
)
def test_usage_comes_with_or_without_choices(usage: dict, expected: tuple[int, int, int]):
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    usage_expected = TokenUsage(**dict(zip(names, expected, strict=True)))
    assert read(chunk("stop"), {"choices": [], "usage": usage}).usage == usage_expected
    assert read({**chunk("stop"), "usage": usage}, {"choices": [], "usage": None}).usage == usage_expected


@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
@pytest.mark.parametrize("absurd", ["2", True, -1, 1.0, 1e308, math.inf, math.nan, 10**9 + 1, 10**310, [], {}])
def test_a_number_of_tokens_that_cannot_be_makes_the_usage_one_that_was_not_reported(name: str, absurd: object):
    usage = {"prompt_tokens": 3, "completion_tokens": 4, name: absurd}
    assert read(chunk("stop"), {"choices": [], "usage": usage}).usage is None


@pytest.mark.parametrize("data", ["{", "[]", "1", "nonsense", "[" * 100_000])
def test_garbage_fails(data: str):
    with pytest.raises(ModelFailed, match="JSON"):
        AnswerReader().read(data)


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": None},
        {"choices": [None]},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": {"tool_calls": 5, "content": 5}}]},
        {"choices": 7, "usage": 7},
    ],
)
def test_fields_of_another_kind_are_ignored(odd: dict):
    assert read(odd, chunk("stop", content="a")).message.content == "a"


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"error": {"message": "bad", "code": 1}}, "bad"),
        ({"error": {"code": "bad"}}, "bad"),
        ({"error": "bad"}, "bad"),
        ({"detail": "bad"}, "bad"),
        ({"detail": [{"loc": ["body"], "msg": "bad", "input": "secret"}]}, "['body']: bad"),
        ({"object": "error", "message": "bad"}, "bad"),
        ({"error": None, "choices": []}, None),
        ([], None),
    ],
)
def test_an_error_object_names_the_failure(payload: object, expected: str | None):
    assert server_message(payload) == expected


def test_an_error_in_the_stream_fails_with_the_text_made_fit_to_be_shown():
    with pytest.raises(ModelFailed, match="answered: BAD"):
        AnswerReader(quote=str.upper).read('{"error": {"message": "bad"}}')


def test_a_character_split_over_two_chunks_is_whole_and_half_a_character_is_replaced():
    reader = AnswerReader()
    texts = [reader.read(f'{{"choices":[{{"delta":{{"content":"{text}"}}}}]}}') for text in ("a\\ud83d", "\\ude00b")]
    assert texts == ["a", "😀b"]
    assert reader.read('{"choices":[{"delta":{"content":"\\ude00c"}}]}') == "\ufffdc"


@given(st.lists(st.text(st.characters(codec=None, exclude_categories=())), max_size=5))
def test_the_text_of_the_chunks_is_always_that_of_the_message_and_can_be_sent(deltas: list[str]):
    reader = AnswerReader()
    texts = [reader.read(json.dumps(chunk(content=delta))) for delta in deltas]
    reader.read("[DONE]")
    content = reader.inferred().message.content
    assert content == "".join(texts)
    assert content.encode().decode() == content


@given(st.data())
def test_arguments_split_anywhere_are_the_same(data: st.DataObject):
    arguments = '{"text": "ü😀 {}[]\\"", "n": [1, {"deep": null}]}'
    cuts = sorted(data.draw(st.sets(st.integers(1, len(arguments) - 1))))
    pieces = [arguments[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]
    first = fragment(pieces[0], index=0, id="a", name="f")
    found = calls(first, *(fragment(piece, index=0) for piece in pieces[1:]))
    assert pairs(found) == [("f", json.loads(arguments))]


def test_the_ids_of_a_history_are_those_of_all_its_calls():
    call = ToolCall(call_id="a", tool_name="f", arguments={})
    message = CompletionMessage(content="", stop_reason="end_of_turn", tool_calls=(call,))
    assert call_ids_of((UserMessage(content="x"), message)) == frozenset({"a"})
