"""The cuts of a step: kind and length of each streamed chunk in order, so that a replay repeats the stream exactly.

A text: numbers, each the length of a chunk of the current kind, which is text at first. A mark changes the kind:
`.` text, `~` reasoning, `+` a call with the number behind it begins, `(` arguments of the call with that number; after
a call has begun, its arguments follow without a mark. A number has base 32, the lowest digit first, and a character for
each digit: lengths below 32 take one. After a `!`, the chunks themselves as JSON: the answer differs from its stream,
for instance because a call that was cut off is left out.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from turnstone.domain.models.requests import ArgumentsChunk, CallBegun, Chunk, Inferred, ReasoningChunk, TextChunk
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.values.content import text_of

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
BASE = len(DIGITS) // 2  # the upper half of the digits is followed by another
VALUES = {digit: value for value, digit in enumerate(DIGITS)}
TEXT, REASONING, CALL, ARGUMENTS = ".~+("
WHOLE = "!"
Written = tuple[str, str] | tuple[str, int, str] | tuple[str, int, str, str]


def cuts_of(chunks: Sequence[Chunk], answer: Inferred) -> str:
    """Return the cuts of an answer's chunks; they hold the chunks themselves if the answer differs from them."""
    cuts = "".join(_marks_of(chunks))
    calls = answer.message.tool_calls
    try:
        repeated = cut_again(cuts, text_of(answer.message.content), answer.reasoning, calls)
    except ValueError:
        repeated = None
    return cuts if repeated == list(chunks) else WHOLE + json.dumps(list(map(_written, chunks)), separators=(",", ":"))


def cut_again(cuts: str, text: str, reasoning: str, calls: Sequence[ToolCall]) -> list[Chunk]:
    """Return the chunks of a step. Raises ValueError unless the cuts are those of its texts and calls."""
    if cuts.startswith(WHOLE):
        return _whole(cuts.removeprefix(WHOLE))
    arguments = [call.arguments_json or "" for call in calls]
    chunks: list[Chunk] = []
    text_at = reasoning_at = 0
    arguments_at = [0] * len(calls)
    kind, index = TEXT, 0
    for mark, number in _numbers_in(cuts):
        kind = mark or kind
        if kind == TEXT:
            chunks.append(TextChunk(text[text_at : text_at + number]))
            text_at += number
        elif kind == REASONING:
            chunks.append(ReasoningChunk(reasoning[reasoning_at : reasoning_at + number]))
            reasoning_at += number
        elif mark:
            index = number
            if index >= len(calls):
                raise ValueError(f"the cuts have a call {index}, the step has {len(calls)}")
            if mark == CALL:
                chunks.append(CallBegun(index, calls[index].call_id, calls[index].tool_name))
        else:
            at = arguments_at[index]
            chunks.append(ArgumentsChunk(index, arguments[index][at : at + number]))
            arguments_at[index] += number
    if (text_at, reasoning_at, arguments_at) != (len(text), len(reasoning), [len(each) for each in arguments]):
        raise ValueError("the lengths of the cuts are not those of the step")
    return chunks


def _written(chunk: Chunk) -> Written:
    match chunk:
        case TextChunk(text=text):
            return TEXT, text
        case ReasoningChunk(text=text):
            return REASONING, text
        case CallBegun(index=index, call_id=call_id, name=name):
            return CALL, index, call_id, name
        case ArgumentsChunk(index=index, text=text):
            return ARGUMENTS, index, text


def _whole(text: str) -> list[Chunk]:
    """Return the chunks in the JSON. Raises ValueError for another text."""
    try:
        return [_chunk(*piece) for piece in json.loads(text)]
    except (ValueError, TypeError, KeyError) as damaged:
        raise ValueError("the chunks in the cuts are damaged") from damaged


def _chunk(mark: str, *fields: Any) -> Chunk:
    kinds: dict[str, Callable[..., Chunk]] = {
        TEXT: TextChunk,
        REASONING: ReasoningChunk,
        CALL: CallBegun,
        ARGUMENTS: ArgumentsChunk,
    }
    return kinds[mark](*fields)


def _marks_of(chunks: Iterable[Chunk]) -> Iterator[str]:
    kind, current = TEXT, None
    for chunk in chunks:
        if isinstance(chunk, TextChunk | ReasoningChunk):
            of_chunk = TEXT if isinstance(chunk, TextChunk) else REASONING
            yield "" if kind == of_chunk else of_chunk
            yield _digits(len(chunk.text))
            kind, current = of_chunk, None
        elif isinstance(chunk, CallBegun):
            yield CALL + _digits(chunk.index)
            kind, current = ARGUMENTS, chunk.index
        else:
            yield "" if current == chunk.index else ARGUMENTS + _digits(chunk.index)
            yield _digits(len(chunk.text))
            kind, current = ARGUMENTS, chunk.index


def _numbers_in(cuts: str) -> Iterator[tuple[str, int]]:
    """Yield each number with the mark before it, empty without one. Raises ValueError for another text."""
    mark, number, factor = "", 0, 1
    for character in cuts:
        value = VALUES.get(character)
        if value is None:
            if character not in (TEXT, REASONING, CALL, ARGUMENTS):
                raise ValueError(f"{character!r} is no mark of cuts")
            mark = character
            continue
        number += value % BASE * factor
        factor *= BASE
        if value < BASE:
            yield mark, number
            mark, number, factor = "", 0, 1


def _digits(number: int) -> str:
    digits = ""
    while number >= BASE:
        digits += DIGITS[BASE + number % BASE]
        number //= BASE
    return digits + DIGITS[number]
