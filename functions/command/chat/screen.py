"""What a chat shows: the answer on standard output as it comes, everything else dimly on standard error."""

import json
import os
import re
from contextlib import suppress
from typing import Protocol, TextIO

from .exhibit import exhibited, plain_json, plain_name
from .wire import Event, Json, text_of

# C0 and C1 but line feed and tab, what turns the direction of writing or ends lines, halves of surrogate pairs
TAKES_OVER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
DIM = "\x1b[2m"
NORMAL = "\x1b[0m"
SHOWN_CHARACTERS = 300
UNKNOWN_SIZE = os.terminal_size((80, 24))
ROWS_OF_QUESTION = 3


class Screen(Protocol):
    """Where a chat is told. Whatever it is given may hold anything; it sees to the terminal's safety."""

    def begin_turn(self) -> None: ...

    def event(self, event: Event) -> None: ...

    def exhibit(self, call: Json) -> None:
        """Show a call that is about to run here: whole, however often it was shown before."""

    def response(self, response: Json) -> None: ...

    def note(self, text: str) -> None: ...


def visible(text: str) -> str:
    """Return the text with what could take over a terminal as the escapes that Python would write."""
    return TAKES_OVER.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


def shortened(text: str) -> str:
    """Return the text on one line, cut off where it would take more than a few of the terminal's."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1] + "…"


def visible_json(text: str) -> str:
    """Return JSON of the same meaning, with escapes for what could take over a terminal."""
    return TAKES_OVER.sub(lambda found: json.dumps(found[0])[1:-1].replace("\x7f", "\\u007f"), text)


def rows_of(call: Json, err: TextIO) -> list[str]:
    """Return rows that show the whole call on the terminal, and say so if it is longer than the terminal."""
    size = UNKNOWN_SIZE
    with suppress(OSError, ValueError):
        size = os.get_terminal_size(err.fileno())
    rows = exhibited(call, size.columns or UNKNOWN_SIZE.columns)
    if len(rows) + ROWS_OF_QUESTION > (size.lines or UNKNOWN_SIZE.lines):
        rows.append(f"  the call of {plain_name(call['tool_name'])} takes {len(rows)} rows: scroll up to its first one")
    return rows


class JsonScreen:
    """Prints the events of the server, a line each, and what people are told on standard error."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err

    def begin_turn(self) -> None:
        pass

    def event(self, event: Event) -> None:
        print(visible_json(event.text), file=self._out, flush=True)

    def exhibit(self, call: Json) -> None:
        self.note("\n".join(rows_of(call, self._err)))

    def response(self, response: Json) -> None:
        pass

    def note(self, text: str) -> None:
        print(visible(text), file=self._err, flush=True)


class TextScreen:
    """Prints answers as they come, and each step once, however often the server tells it."""

    def __init__(self, out: TextIO, err: TextIO, *, is_dim: bool) -> None:
        self._out = out
        self._err = err
        self._is_dim = is_dim
        self._is_at_margin = True
        self.begin_turn()

    def begin_turn(self) -> None:
        """Forget what was told of the turn before."""
        self._ended: set[str] = set()
        self._called: set[str] = set()
        self._answered: set[str] = set()
        self._said = ""  # by the inference that runs
        self._last_said = ""  # by the one before
        self._expected = ""  # of what was said, what a repetition has not told again yet

    def event(self, event: Event) -> None:
        """Show what happened."""
        step_id = event.payload.get("step_id")
        if step_id is not None and step_id in self._ended:
            return
        match event.payload:
            case {"event_type": "step_start", "step_type": "inference"}:
                self._expected = self._said
            case {"event_type": "step_progress", "delta": {"type": "text", "text": str(text)}}:
                self._say(text)
            case {"event_type": "step_progress", "step_type": "tool_execution", "delta": {"tool_call": dict(call)}}:
                self._call(call)
            case {"event_type": "step_complete", "step_details": dict(step)}:
                self._ended.add(str(step_id))
                self._end_step(step)
            case {"event_type": "turn_complete", "turn": {"output_message": dict(message)}}:
                self._end_turn(message)

    def exhibit(self, call: Json) -> None:
        self._called.add(_sign_of(call))
        for row in rows_of(call, self._err):
            self.note(row)

    def response(self, response: Json) -> None:
        """Show what a tool answered, once."""
        if (sign := _sign_of(response)) not in self._answered:
            self._answered.add(sign)
            self.note(f"  = {shortened(text_of(response['content']))}")

    def note(self, text: str) -> None:
        """Show something that is not the answer."""
        self._to_margin()
        told = visible(text)
        print(f"{DIM}{told}{NORMAL}" if self._is_dim else told, file=self._err, flush=True)

    def _say(self, text: str) -> None:
        """Show more of the answer; what a repetition tells again is there already."""
        if self._expected:
            common = min(len(text), len(self._expected))
            if text[:common] == self._expected[:common]:
                text, self._expected = text[common:], self._expected[common:]
            else:
                text = self._said[: len(self._said) - len(self._expected)] + text
                self._said = self._expected = ""
                self.note("· the answer begins anew")
        if text:
            self._said += text
            self._print(text)

    def _end_step(self, step: Json) -> None:
        match step:
            case {"step_type": "inference", "model_response": {"stop_reason": reason}}:
                self._last_said, self._said, self._expected = self._said, "", ""
                self._called.clear()  # the ids of calls are unlike each other within one inference at most
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
                self.note(
                    f"· shield {plain_name(str(shield_id))} {'stopped this' if level == 'error' else f'says {level}'}"
                )

    def _call(self, call: Json) -> None:
        """Show a call that the server runs, or that was answered here, once."""
        if (sign := _sign_of(call)) not in self._called:
            self._called.add(sign)
            self.note(f"· tool {shortened(plain_name(call['tool_name']))} {shortened(plain_json(call['arguments']))}")

    def _end_turn(self, message: Json) -> None:
        answer = text_of(message["content"])
        if answer != self._last_said:  # such as a shield's words in the answer's place
            self._to_margin()
            self._print(answer)
        self._to_margin()

    def _print(self, text: str) -> None:
        print(visible(text), end="", file=self._out, flush=True)
        self._is_at_margin = text.endswith("\n")

    def _to_margin(self) -> None:
        if not self._is_at_margin:
            print(file=self._out, flush=True)
        self._is_at_margin = True


def _sign_of(told: Json) -> str:
    """Return what tells a call, or the answer to one, from every other."""
    return json.dumps([told["call_id"], told.get("tool_name"), told.get("arguments"), told.get("content")])
