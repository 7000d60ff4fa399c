"""Read an answer as it arrives: pass text on at once, hold back a possible call until it is decided. Pure.

The result does not depend on how the answer is split into pieces.
"""

import re
from collections.abc import Iterable
from dataclasses import replace

from turnstone.adapters.models.prompted.calls import Names, WrittenCall
from turnstone.adapters.models.prompted.cursor import MOST_STEPS, Cursor, Effort, Ending, Unfinished, Unreadable
from turnstone.adapters.models.prompted.formats import FORMATS
from turnstone.adapters.models.prompted.function_tags import OPENING
from turnstone.domain.agents.agents import ToolPromptFormat

MAX_CALL_CHARACTERS = 1_000_000
LONG_CHARACTERS = 16_384
MOST_INTRODUCTIONS = 8  # before one call; a model in a loop writes thousands
WORD = re.compile(r"[A-Za-z_]*")
FENCE = "```"
INTRODUCERS = ("<|python_tag|>", "<|python_start|>", "<|tool_call|>", "<tool_call>", "[TOOL_CALLS]")
ENDERS = ("<|python_end|>", "</tool_call>", "<|eom_id|>", "<|eot_id|>", "<|eot|>", "<|end_of_text|>", "</function>")
STRAY = re.compile(r"[\s\])};,.]*")
TRY_STEPS = 2  # steps for each position at which a call may begin


def _begins(token: str) -> str:
    """Return a pattern of the token's first character that requires the rest of the token, or the end of the text."""
    rest = ""
    for character in reversed(token[1:]):
        rest = rf"(?:\Z|{re.escape(character)}{rest})"
    return f"{re.escape(token[0])}(?={rest})"


# most of these characters open no call; a regular expression skips them all at once
_OPENER = "|".join(map(_begins, (FENCE, OPENING, *(token for token in INTRODUCERS if token[0] == "<")))) + r"|[{\[]"
MAY_OPEN = re.compile(rf"(?<!\s)\s*(?:{_OPENER}|\Z)")
LINE_MAY_OPEN = re.compile(rf"(?<!\s)\s*(?:{_OPENER}|\Z|(?<=\n)[ \t]*[A-Za-z_])")
FIRST_MAY_OPEN = re.compile(rf"\s*(?:{_OPENER}|\Z)")
FIRST_OF_LINE_MAY_OPEN = re.compile(rf"\s*(?:{_OPENER}|[A-Za-z_]|\Z)")


class AnswerText:
    """The text of one answer, read piece by piece.

    A call may be written in another format than the requested one, if it names a tool. In the requested format, with no
    text before it, it may name a tool that is not offered. The search for calls ends after `MOST_STEPS` positions
    without a call, or values.

    Attributes:
        calls: the calls read so far.
    """

    def __init__(self, requested: ToolPromptFormat, tool_names: Iterable[str]) -> None:
        self.calls: list[WrittenCall] = []
        self._formats = [FORMATS[requested], *(form for name, form in FORMATS.items() if name != requested)]
        self._offered = tuple(sorted(tool_names, key=len, reverse=True))
        is_bare = FORMATS[requested].is_bare
        self._first_may_open = FIRST_OF_LINE_MAY_OPEN if is_bare else FIRST_MAY_OPEN
        self._may_open = LINE_MAY_OPEN if is_bare else MAY_OPEN
        self._pieces: list[str] = []
        self._held_characters = 0
        self._scanned_from = 0
        self._text = ""
        self._at = 0
        self._last_emitted = ""
        self._has_emitted = False
        self._is_behind_call = False
        self._is_in_fence = False
        self._effort = Effort(MOST_STEPS)

    def feed(self, piece: str) -> str:
        """Return the text that has become certain since the last call."""
        self._pieces.append(piece)
        self._held_characters += len(piece)
        if self._held_characters < self._scanned_from:
            return ""
        emitted = self._read("open")
        # parsing again only after a good part is new keeps a long call from being parsed once per piece
        held = self._held_characters
        self._scanned_from = held + (held // 4 if held < LONG_CHARACTERS else held)
        return emitted

    def end(self, *, is_cut_off: bool) -> str:
        """Return the remaining text. Call it once, after the last piece."""
        return self._read("cut" if is_cut_off else "whole")

    @property
    def _is_swallowed(self) -> bool:
        """Whether the rest belongs to an unreadable call."""
        return bool(self.calls) and self.calls[-1].arguments is None

    def _read(self, ending: Ending) -> str:
        self._text, self._at = "".join(self._pieces), 0
        emitted: list[str] = []
        while not self._is_swallowed and self._at < len(self._text):
            try:
                emitted.append(self._next(ending))
            except Unfinished:
                break
        if self._is_swallowed and ending != "open":
            self.calls[-1] = replace(self.calls[-1], arguments=self._text[self._at :])
            self._at = len(self._text)
        self._pieces = [self._text[self._at :]]
        self._held_characters = len(self._pieces[0])
        return "".join(emitted)

    def _next(self, ending: Ending) -> str:
        """Advance over a call, or to the next possible one; return the text in between. Raises Unfinished."""
        if self._is_behind_call:
            self._skip_strays(ending)
        if self._effort.left <= 0:
            return self._emitted(len(self._text))
        opening = self._opening()
        start = opening.start() if opening else len(self._text)
        if start > self._at or opening is None:
            return self._emitted(start)
        try:
            calls, end, is_in_fence = self._calls_at(start, ending)
        except Unfinished:
            if len(self._text) - start <= MAX_CALL_CHARACTERS:
                raise
            calls, end, is_in_fence = (), start, False
        if not calls:
            return self._emitted(opening.end())
        self.calls += calls
        self._at, self._is_behind_call, self._is_in_fence = end, True, is_in_fence or self._is_in_fence
        return ""

    def _opening(self) -> re.Match[str] | None:
        """Return the next position, from the current one on, at which a call may begin."""
        first = None if self._last_emitted else self._first_may_open.match(self._text, self._at)
        return first or self._may_open.search(self._text, self._at)

    def _emitted(self, end: int) -> str:
        text = self._text[self._at : end]
        self._at = end
        if not text:
            return ""
        is_after_calls = bool(self.calls) and self._has_emitted and self._last_emitted == ""
        self._last_emitted, self._is_in_fence = text[-1], False
        self._has_emitted = self._has_emitted or not text.isspace()
        return f"\n{text}" if is_after_calls else text

    def _calls_at(self, start: int, ending: Ending) -> tuple[tuple[WrittenCall, ...], int, bool]:
        """Return the calls that begin here, their end, and whether they stand in a fence. Raises Unfinished."""
        if self._last_emitted == "`" and not self._text.startswith(FENCE, start):
            return (), start, False
        steps_left = self._effort.left
        try:
            return self._tried(start, ending)
        except Unfinished:
            self._effort.left = steps_left  # parsed again when more of it has arrived
            raise

    def _tried(self, start: int, ending: Ending) -> tuple[tuple[WrittenCall, ...], int, bool]:
        """Return the result of `_calls_at` for a position outside quotes. Raises Unfinished."""
        cursor = Cursor(self._text, start, ending, self._effort)
        cursor.skip_spaces()
        at = cursor.position
        is_in_fence = _skip_introduction(cursor)
        introduced_at = cursor.position
        for form in self._formats:
            is_requested = form is self._formats[0]
            cursor.position = introduced_at
            names = Names(
                self._offered,
                takes_unknown=is_requested and not self._has_emitted,
                takes_bare=introduced_at > at or (is_requested and form.is_bare),
            )
            try:
                cursor.effort.spend(TRY_STEPS + len(self._offered) // 4)
                return form.read(cursor, names), cursor.position, is_in_fence
            except Unreadable:
                continue
        return (), start, False

    def _skip_strays(self, ending: Ending) -> None:
        """Skip leftovers of models after a call: brackets and separators, ends of fences, special tokens."""
        cursor = Cursor(self._text, self._at, ending)
        while True:
            cursor.take_match(STRAY)
            is_end_of_fence = self._is_in_fence and cursor.take(FENCE)
            if not (is_end_of_fence or cursor.take_any(ENDERS)):
                break
            self._at, self._is_in_fence = cursor.position, self._is_in_fence and not is_end_of_fence
        self._at = cursor.position
        self._is_behind_call, self._last_emitted = False, ""


def _skip_introduction(cursor: Cursor) -> bool:
    """Skip the introduction of a call; return whether it opens a fence. Raises Unfinished."""
    is_in_fence = False
    for _ in range(MOST_INTRODUCTIONS):
        if cursor.take(FENCE):
            is_in_fence = True
            cursor.take_match(WORD)
        elif not cursor.take_any(INTRODUCERS):
            break
        cursor.skip_spaces()
    return is_in_fence
