"""A chat's view of a turn's events: each word and step once, and no control sequence of a terminal.

Covers: functions/command/chat/screen, functions/command/wire
"""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.command.chat.screen import JsonScreen, TextScreen, shortened, visible
from functions.command.output import OutputFailed
from functions.command.wire import StreamEvent, events_in, text_of


class Shown:
    """A screen, and its output."""

    def __init__(self, *, is_dim: bool = False) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        self.screen = TextScreen(self.out, self.err, is_dim=is_dim)

    def handle(self, *payloads: dict[str, Any]) -> None:
        for payload in payloads:
            self.screen.event(StreamEvent("", payload))

    @property
    def answer(self) -> str:
        return self.out.getvalue()

    @property
    def beside(self) -> list[str]:
        return self.err.getvalue().splitlines()


def started(step_id: str = "s", step_type: str = "inference") -> dict[str, Any]:
    return {"event_type": "step_start", "step_type": step_type, "step_id": step_id, "metadata": {}}


def worded(*texts: str, step_id: str = "s") -> Iterator[dict[str, Any]]:
    for text in texts:
        delta = {"type": "text", "text": text}
        yield {"event_type": "step_progress", "step_type": "inference", "step_id": step_id, "delta": delta}


def inferred(text: str, step_id: str = "s", stop_reason: str = "end_of_turn") -> dict[str, Any]:
    details = {"step_type": "inference", "model_response": {"content": text, "stop_reason": stop_reason}}
    return {"event_type": "step_complete", "step_type": "inference", "step_id": step_id, "step_details": details}


def completed(text: str) -> dict[str, Any]:
    return {"event_type": "turn_complete", "turn": {"output_message": {"content": text}}}


def executed(call: dict[str, Any], content: str) -> dict[str, Any]:
    response = {"call_id": call["call_id"], "tool_name": call["tool_name"], "content": content}
    details = {"step_type": "tool_execution", "tool_calls": [call], "tool_responses": [response]}
    return {"event_type": "step_complete", "step_type": "tool_execution", "step_id": "t", "step_details": details}


CALL = {"call_id": "c", "tool_name": "current_time", "arguments": {"timezone": "Europe/Oslo"}}


def test_words_are_shown_as_they_come_and_the_answer_not_once_more() -> None:
    shown = Shown()
    shown.handle(started(), *worded("one ", "two"))
    assert shown.answer == "one two"
    shown.handle(inferred("one two"), completed("one two"))
    assert shown.answer == "one two\n"
    assert shown.beside == []


@given(st.lists(st.text("ab ", min_size=1, max_size=3), max_size=6), st.integers(0, 6), st.data())
def test_the_words_of_a_repeated_step_are_shown_once(texts: list[str], received: int, data: st.DataObject) -> None:
    whole = "".join(texts)
    cut = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    again = [whole[i:j] for i, j in zip([0, *cut], [*cut, len(whole)], strict=True)]
    shown = Shown()
    shown.handle(started(), *worded(*texts[:received]))
    shown.handle(started("another"), *worded(*filter(None, again), step_id="another"), inferred(whole, "another"))
    assert shown.answer == whole
    shown.handle(started("another"), *worded(whole, step_id="another"), inferred(whole, "another"))
    assert shown.answer == whole


def test_an_answer_that_is_another_one_the_second_time_is_shown_from_its_start() -> None:
    shown = Shown()
    shown.handle(started(), *worded("one ", "two"), started(), *worded("one ", "more", " time"))
    assert shown.answer == "one two\none more time"
    assert shown.beside == ["· the answer starts again"]


def test_the_replacement_of_a_blocked_answer_is_shown() -> None:
    violation = {"violation_level": "error", "user_message": "No.", "metadata": {"shield_id": "words"}}
    details = {"step_type": "shield_call", "violation": violation}
    judged = {"event_type": "step_complete", "step_type": "shield_call", "step_id": "j", "step_details": details}
    shown = Shown()
    shown.handle(started(), *worded("bad"), inferred("bad"), judged, completed("No."))
    assert shown.answer == "bad\nNo.\n"
    assert shown.beside == ["· shield words stopped this"]


def test_a_shield_that_found_nothing_is_not_shown() -> None:
    details = {"step_type": "shield_call", "violation": None}
    shown = Shown()
    shown.handle({"event_type": "step_complete", "step_type": "shield_call", "step_id": "j", "step_details": details})
    assert (shown.answer, shown.beside) == ("", [])


def test_a_call_and_its_answer_are_shown_once() -> None:
    delta = {"type": "tool_call", "tool_call": CALL, "parse_status": "in_progress"}
    progress = {"event_type": "step_progress", "step_type": "tool_execution", "step_id": "t", "delta": delta}
    shown = Shown()
    shown.handle(started("t", "tool_execution"), progress)
    assert shown.beside == ['· tool current_time {"timezone": "Europe/Oslo"}']
    shown.handle(executed(CALL, "noon"), executed(CALL, "noon"))
    assert shown.beside[1:] == ["  = noon"]


def test_a_call_shown_for_approval_is_not_shown_again_by_its_step() -> None:
    shown = Shown()
    shown.screen.show_call(CALL)
    shown.screen.response({"call_id": "c", "tool_name": "current_time", "content": "noon"})
    before = list(shown.beside)
    shown.handle(executed(CALL, "noon"))
    assert shown.beside == before


def test_a_person_is_shown_each_call_whole_though_its_id_was_shown_before() -> None:
    shown = Shown()
    shown.handle(executed(CALL, "noon"))
    before = len(shown.beside)
    for arguments in (CALL["arguments"], {"timezone": "x" * 900}):
        shown.screen.show_call({**CALL, "arguments": arguments})
    prompted = "".join(line.strip("| ") for line in shown.beside[before:])
    assert prompted.count("· tool current_time") == 2
    assert "x" * 900 in prompted


def test_a_call_and_its_answer_under_an_earlier_id_are_shown() -> None:
    shown = Shown()
    shown.handle(executed(CALL, "noon"), inferred("", "again"))
    shown.handle(
        {**executed(CALL, "noon"), "step_id": "u"}, {**executed({**CALL, "arguments": {}}, "one"), "step_id": "v"}
    )
    assert [line.split()[-1] for line in shown.beside] == [
        '"Europe/Oslo"}',
        "noon",
        '"Europe/Oslo"}',
        "noon",
        "{}",
        "one",
    ]


def test_the_name_of_a_call_takes_one_line() -> None:
    shown = Shown()
    shown.handle(executed({**CALL, "tool_name": "x\n  run y? "}, "noon"))
    assert len(shown.beside) == 2


def test_the_servers_events_keep_their_meaning_and_hold_nothing_that_a_terminal_obeys() -> None:
    text = json.dumps({"text": "\x7f\x9b2J\u202e\u2028 ü"}, ensure_ascii=False)
    out = io.StringIO()
    JsonScreen(out, io.StringIO()).event(StreamEvent(text, {}))
    assert json.loads(out.getvalue()) == json.loads(text)
    assert not [char for char in out.getvalue() if char in "\x7f\x9b\u202e\u2028"]
    assert "ü" in out.getvalue()


def test_a_truncated_answer_is_marked() -> None:
    shown = Shown()
    shown.handle(started(), *worded("one"), inferred("one", stop_reason="out_of_tokens"))
    assert "limit of tokens" in shown.beside[0]


def test_only_notes_are_dim_and_only_where_they_may_be() -> None:
    shown = Shown(is_dim=True)
    shown.screen.note("a\x1b[31m")
    assert shown.err.getvalue() == "\x1b[2ma\\x1b[31m\x1b[0m\n"


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    left = visible(text)
    assert not [
        c for c in left if c not in "\n\t" and (ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2066\u2028")
    ]
    left.encode()


def test_control_sequences_of_a_model_are_not_printed() -> None:
    shown = Shown()
    shown.handle(started(), *worded("\x1b[2J"), inferred("\x1b[2J"), completed("\x1b]0;x\x07"))
    assert shown.answer == "\\x1b[2J\n\\x1b]0;x\\x07\n"


def test_letters_of_every_language_stay_as_they_are() -> None:
    text = "Zürich\t東京 👩‍🚀\nשלום"
    assert visible(text) == text
    assert visible("a\r\nb\rc") == "a\nb\\rc"


def test_long_results_are_cut_off() -> None:
    assert shortened("a\n  b") == "a b"
    assert len(shortened("x" * 1_000)) == 300


# ── the wire ─────────────────────────────────────────────────────────────────────────────────────────────────────


def sent(*numbers: int | None) -> bytes:
    event = {"event": {"payload": {"event_type": "turn_start", "turn_id": "tä"}}}
    message = f"data: {json.dumps(event, ensure_ascii=False)}\n\n"
    return b": ping\n\n" + "".join((f"id: {n}\n" if n else "") + message for n in numbers).encode()


@given(st.lists(st.integers(0, 400)))
def test_any_chunking_of_the_bytes_gives_the_same_events(cuts: list[int]) -> None:
    stream = sent(1, None, 3) + b'data: {"error": {"message": "over"}}\n\ndata: {"ev'
    bounds = sorted({min(cut, len(stream)) for cut in cuts})
    pieces: Iterable[bytes] = (stream[i:j] for i, j in zip([0, *bounds], [*bounds, len(stream)], strict=True))
    events = list(events_in(pieces))
    assert [event.number for event in events] == [1, None, 3, None]
    assert [event.payload.get("turn_id") for event in events] == ["tä", "tä", "tä", None]
    assert events[-1].error == "over"


@pytest.mark.parametrize("data", ["1", "[]", '{"event": {}}', '{"error": "x"}', "no json"])
def test_data_that_is_not_an_event_is_refused(data: str) -> None:
    with pytest.raises(ValueError):
        list(events_in([f"data: {data}\n\n".encode()]))


def test_content_of_several_items_is_text_with_the_names_of_others() -> None:
    assert text_of([{"type": "text", "text": "a"}, {"type": "image", "image": {}}]) == "a\n[image]"
    assert text_of(None) == ""


class FullDevice(io.StringIO):
    def flush(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_device_ends_the_chat_with_its_reason() -> None:
    text = {"event_type": "step_progress", "delta": {"type": "text", "text": "a"}}
    for screen in (JsonScreen(FullDevice(), io.StringIO()), TextScreen(FullDevice(), io.StringIO(), is_dim=False)):
        with pytest.raises(OutputFailed, match="No space left on device"):
            screen.event(StreamEvent("{}", text))
