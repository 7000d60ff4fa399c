"""Output of a chat: the answer on standard output as it arrives, everything else dimmed on standard error."""

import json
import os
import re
from contextlib import suppress
from typing import Protocol, TextIO

from ..output import writing
from ..wire import Json, StreamEvent, text_of
from .call_rows import call_rows, plain_json, plain_name

# C0 and C1 but line feed and tab, changes of writing direction, line ends, lone surrogates
TAKES_OVER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
DIM = "\x1b[2m"
NORMAL = "\x1b[0m"
SHOWN_CHARACTERS = 300
UNKNOWN_SIZE = os.terminal_size((80, 24))
ROWS_OF_QUESTION = 3


class Screen(Protocol):
    """Output of a chat. It escapes characters that a terminal would interpret."""

    def begin_turn(self) -> None: ...

    def event(self, event: StreamEvent) -> None: ...

    def show_call(self, call: Json) -> None:
        """Show the whole call that is about to run here, even if it was shown before."""

    def response(self, response: Json) -> None: ...

    def note(self, text: str) -> None: ...


def visible(text: str) -> str:
    """Return the text with Python's escapes for characters that a terminal would interpret."""
    return TAKES_OVER.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


def shortened(text: str) -> str:
    """Return the text on one line, cut to a few lines of a terminal."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1] + "…"


def visible_json(text: str) -> str:
    """Return equivalent JSON with escapes for characters that a terminal would interpret."""
    return TAKES_OVER.sub(lambda found: json.dumps(found[0])[1:-1].replace("\x7f", "\\u007f"), text)


def rows_of(call: Json, err: TextIO) -> list[str]:
    """Return rows that show the whole call on the terminal, with a note if it is longer than the terminal."""
    size = UNKNOWN_SIZE
    with suppress(OSError, ValueError):
        size = os.get_terminal_size(err.fileno())
    rows = call_rows(call, size.columns or UNKNOWN_SIZE.columns)
    if len(rows) + ROWS_OF_QUESTION > (size.lines or UNKNOWN_SIZE.lines):
        rows.append(f"  the call of {plain_name(call['tool_name'])} takes {len(rows)} rows: scroll up to its first one")
    return rows


class JsonScreen:
    """Prints the events of the server, one a line, and notes for people on standard error."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err

    def begin_turn(self) -> None:
        pass

    def event(self, event: StreamEvent) -> None:
        with writing():
            print(visible_json(event.text), file=self._out, flush=True)

    def show_call(self, call: Json) -> None:
        self.note("\n".join(rows_of(call, self._err)))

    def response(self, response: Json) -> None:
        pass

    def note(self, text: str) -> None:
        print(visible(text), file=self._err, flush=True)


class TextScreen:
    """Prints answers as they arrive, and each step once, even if the server repeats it."""

    def __init__(self, out: TextIO, err: TextIO, *, is_dim: bool) -> None:
        self._out = out
        self._err = err
        self._is_dim = is_dim
        self._is_at_margin = True
        self.begin_turn()

    def begin_turn(self) -> None:
        """Reset the state of the last turn."""
        self._ended: set[str] = set()
        self._called: set[str] = set()
        self._answered: set[str] = set()
        self._shown = ""  # text of the current inference
        self._last_shown = ""  # text of the last inference
        self._expected = ""  # text that a repeated inference has not repeated yet

    def event(self, event: StreamEvent) -> None:
        """Show the event."""
        step_id = event.payload.get("step_id")
        if step_id is not None and step_id in self._ended:
            return
        match event.payload:
            case {"event_type": "step_start", "step_type": "inference"}:
                self._expected = self._shown
            case {"event_type": "step_progress", "delta": {"type": "text", "text": str(text)}}:
                self._show_text(text)
            case {"event_type": "step_progress", "step_type": "tool_execution", "delta": {"tool_call": dict(call)}}:
                self._call(call)
            case {"event_type": "step_complete", "step_details": dict(step)}:
                self._ended.add(str(step_id))
                self._end_step(step)
            case {"event_type": "turn_complete", "turn": {"output_message": dict(message)}}:
                self._end_turn(message)

    def show_call(self, call: Json) -> None:
        self._called.add(_sign_of(call))
        for row in rows_of(call, self._err):
            self.note(row)

    def response(self, response: Json) -> None:
        """Show the response of a tool, once."""
        if (sign := _sign_of(response)) not in self._answered:
            self._answered.add(sign)
            self.note(f"  = {shortened(text_of(response['content']))}")

    def note(self, text: str) -> None:
        """Show text that is not part of the answer."""
        self._to_margin()
        shown = visible(text)
        print(f"{DIM}{shown}{NORMAL}" if self._is_dim else shown, file=self._err, flush=True)

    def _show_text(self, text: str) -> None:
        """Show more of the answer, without the part that a repeated inference repeats."""
        if self._expected:
            common = min(len(text), len(self._expected))
            if text[:common] == self._expected[:common]:
                text, self._expected = text[common:], self._expected[common:]
            else:
                text = self._shown[: len(self._shown) - len(self._expected)] + text
                self._shown = self._expected = ""
                self.note("· the answer starts again")
        if text:
            self._shown += text
            self._print(text)

    def _end_step(self, step: Json) -> None:
        match step:
            case {"step_type": "inference", "model_response": {"stop_reason": reason}}:
                self._last_shown, self._shown, self._expected = self._shown, "", ""
                self._called.clear()  # ids of calls are unique within one inference only
                self._answered.clear()
                if reason == "out_of_tokens":
                    self.note("· the answer was cut off: the model was at its limit of tokens")
            case {"step_type": "tool_execution"}:
                for call in step["tool_calls"]:
                    self._call(call)
                for response in step["tool_responses"]:
                    self.response(response)
            case {"step_type": "shield_call", "violation": {"violation_level": level} as violation}:
                shield_id = (violation.get("metadata") or {}).get("shield_id", "")
                effect = "stopped this" if level == "error" else f"reports {level}"
                self.note(f"· shield {plain_name(str(shield_id))} {effect}")

    def _call(self, call: Json) -> None:
        """Show a call, once."""
        if (sign := _sign_of(call)) not in self._called:
            self._called.add(sign)
            self.note(f"· tool {shortened(plain_name(call['tool_name']))} {shortened(plain_json(call['arguments']))}")

    def _end_turn(self, message: Json) -> None:
        answer = text_of(message["content"])
        if answer != self._last_shown:  # such as the message of a shield instead of the answer
            self._to_margin()
            self._print(answer)
        self._to_margin()

    def _print(self, text: str) -> None:
        with writing():
            print(visible(text), end="", file=self._out, flush=True)
        self._is_at_margin = text.endswith("\n")

    def _to_margin(self) -> None:
        if not self._is_at_margin:
            with writing():
                print(file=self._out, flush=True)
        self._is_at_margin = True


def _sign_of(item: Json) -> str:
    """Return the identity of a call, or of the response to one."""
    return json.dumps([item["call_id"], item.get("tool_name"), item.get("arguments"), item.get("content")])
