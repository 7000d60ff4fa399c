"""The pieces of an answer's calls and reasoning, however a server cuts and numbers them.

Covers: adapters/models/openai/partial_calls, adapters/models/openai/wire_texts
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstone.adapters.models.openai.openai_answer import AnswerReader
from turnstone.adapters.models.openai.wire_texts import WholeCharacters
from turnstone.domain.models.requests import ArgumentsChunk, CallBegun, Chunk, Inferred, ReasoningChunk, TextChunk


def chunk(finish_reason: str | None = None, **delta: Any) -> dict:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def part(arguments: Any = None, name: str | None = None, **fields: Any) -> dict:
    return {**fields, "function": {"name": name, "arguments": arguments}}


def called(*parts: dict) -> dict:
    return chunk(tool_calls=list(parts))


def read(*chunks: dict, taken: frozenset[str] = frozenset(), reason: str = "stop") -> tuple[list[Chunk], Inferred]:
    """Return the chunks that the reader yields, as its adapter takes them, and the answer."""
    reader = AnswerReader(lambda: taken)
    found: list[Chunk] = []
    for each in (*chunks, chunk(reason)):
        text = reader.read(json.dumps(each))
        found += [ReasoningChunk(reader.reasoned)] if reader.reasoned else []
        found += [TextChunk(text)] if text else []
        found += reader.calls.take_pending()
    answer = reader.inferred()
    return [*found, *reader.calls.take_pending()], answer


def test_a_call_begins_with_its_arguments_which_follow_as_they_are_cut() -> None:
    pieces, _ = read(
        called(part("", index=0, id="a", name="f")), called(part('{"x', index=0)), called(part('":1}', index=0))
    )
    assert pieces == [CallBegun(0, "a", "f"), ArgumentsChunk(0, '{"x'), ArgumentsChunk(0, '":1}')]


def test_whole_calls_of_one_chunk_are_a_start_and_one_piece_of_arguments_each() -> None:
    pieces, _ = read(called(part('{"x":1}', index=0, id="a", name="f"), part("{}", index=1, id="b", name="g")))
    assert pieces == [
        CallBegun(0, "a", "f"),
        ArgumentsChunk(0, '{"x":1}'),
        CallBegun(1, "b", "g"),
        ArgumentsChunk(1, "{}"),
    ]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_has_two_names(field: str) -> None:
    chunks, answer = read(chunk(**{field: "Hm"}), chunk(**{field: ""}, content="a"), chunk(**{field: None}))
    assert chunks == [ReasoningChunk("Hm"), TextChunk("a")]
    assert (answer.reasoning, answer.message.content) == ("Hm", "a")


def test_reasoning_under_both_names_counts_once_and_stands_before_the_text_of_its_chunk() -> None:
    chunks, answer = read(chunk(content="a", reasoning="Hm", reasoning_content="Hm"))
    assert chunks == [ReasoningChunk("Hm"), TextChunk("a")]
    assert answer.reasoning == "Hm"


def test_reasoning_may_stand_among_the_parts_of_the_content() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}, {"type": "text", "text": "a"}]
    assert read(chunk(content=parts))[0] == [ReasoningChunk("Hm"), TextChunk("a")]


@pytest.mark.parametrize("odd", [{"effort": "low"}, 7, [None], [{"text": 7}], True])
def test_reasoning_of_another_type_is_ignored(odd: object) -> None:
    chunks, answer = read(chunk(reasoning=odd, content="a"))
    assert (chunks, answer.reasoning) == ([TextChunk("a")], "")


def test_a_surrogate_pair_cut_in_two_is_one_character_of_reasoning_and_of_arguments() -> None:
    chunks, answer = read(
        chunk(reasoning_content="a\ud83d"),
        chunk(reasoning_content="\ude00"),
        called(part('{"x":"\ud83d', index=0, id="a", name="f")),
        called(part('\ude00"}', index=0)),
    )
    assert chunks == [
        ReasoningChunk("a"),
        ReasoningChunk("😀"),
        CallBegun(0, "a", "f"),
        ArgumentsChunk(0, '{"x":"'),
        ArgumentsChunk(0, '😀"}'),
    ]
    assert answer.reasoning == "a😀"
    assert answer.message.tool_calls[0].arguments == {"x": "😀"}


def test_a_name_that_arrives_in_parts_is_whole_when_its_call_begins() -> None:
    pieces, answer = read(
        called(part("", index=0, id="a", name="get_")),
        called(part("", index=0, name="weather")),
        called(part("{}", index=0)),
    )
    assert pieces[0] == CallBegun(0, "a", "get_weather")
    assert answer.message.tool_calls[0].tool_name == "get_weather"


def test_calls_begin_in_their_order_though_a_later_one_has_arguments_first() -> None:
    pieces, answer = read(
        called(part("", index=0, id="a", name="f"), part('{"y"', index=1, id="a", name="g")),
        called(part('{"x":1}', index=0), part(":2}", index=1)),
    )
    assert pieces == [
        CallBegun(0, "a", "f"),
        CallBegun(1, answer.message.tool_calls[1].call_id, "g"),
        ArgumentsChunk(1, '{"y"'),
        ArgumentsChunk(0, '{"x":1}'),
        ArgumentsChunk(1, ":2}"),
    ]
    assert answer.message.tool_calls[0].call_id == "a"
    assert answer.message.tool_calls[1].call_id != "a"


def test_a_call_waits_for_the_name_of_the_one_before_it() -> None:
    pieces, _ = read(
        called(part('{"x"', index=0, id="a"), part("{}", index=1, id="b", name="g")),
        called(part(":1}", index=0, name="f")),
    )
    assert pieces == [
        CallBegun(0, "a", "f"),
        ArgumentsChunk(0, '{"x":1}'),
        CallBegun(1, "b", "g"),
        ArgumentsChunk(1, "{}"),
    ]


def test_a_call_without_arguments_begins_at_the_end_with_the_arguments_that_it_has_then() -> None:
    assert read(called(part("", index=0, id="a", name="f")))[0] == [CallBegun(0, "a", "f"), ArgumentsChunk(0, "{}")]
    pieces, answer = read(called(part("", index=0, id="a", name="f")), reason="length")
    assert pieces == [CallBegun(0, "a", "f")]
    assert answer.message.tool_calls[0].arguments == ""


def test_an_id_is_final_when_the_call_begins() -> None:
    pieces, answer = read(
        called(part('{"x"', index=0, id="a", name="f")), called(part(":1}", index=0)), taken=frozenset("a")
    )
    (call,) = answer.message.tool_calls
    assert pieces[0] == CallBegun(0, call.call_id, "f")
    assert call.call_id != "a"


FRAGMENTS = st.lists(st.text(st.sampled_from('{}": \\u2é\ud83d\ude00😀ax'), max_size=4), max_size=8)


@given(st.lists(FRAGMENTS, min_size=1, max_size=3), st.data())
def test_the_pieces_of_a_call_are_its_arguments_whatever_the_fragments(
    calls: Sequence[Sequence[str]], data: st.DataObject
) -> None:
    lines = [
        [part("", index=number, id=f"c{number}", name="f"), *(part(text, index=number) for text in fragments)]
        for number, fragments in enumerate(calls)
    ]
    chunks = [called(*(line.pop(0) for line in lines))]
    order = data.draw(st.permutations([number for number, line in enumerate(lines) for _ in line]))
    pieces, answer = read(*chunks, *(called(lines[number].pop(0)) for number in order))
    begun = [piece for piece in pieces if isinstance(piece, CallBegun)]
    found = answer.message.tool_calls
    assert begun == [CallBegun(number, call.call_id, call.tool_name) for number, call in enumerate(found)]
    for number, call in enumerate(found):
        texts = [piece.text for piece in pieces if isinstance(piece, ArgumentsChunk) and piece.index == number]
        assert "".join(texts) == call.arguments_json
        assert pieces.index(begun[number]) < min(
            index for index, piece in enumerate(pieces) if isinstance(piece, ArgumentsChunk) and piece.index == number
        )


@given(st.text(), st.data())
def test_whole_characters_are_those_of_the_text(text: str, data: st.DataObject) -> None:
    halves = "".join(map(chr, memoryview(text.encode("utf-16-le")).cast("H"))) if text else ""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(halves)), max_size=5)))
    characters = WholeCharacters()
    parts = [halves[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(halves)], strict=True)]
    assert "".join(map(characters.feed, parts)) == text
