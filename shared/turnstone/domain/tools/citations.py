"""Citations in a model's text: marks such as 【3】 behind a statement, each the number of a source of the turn.

Readers get the text without marks, and where each source is cited. A mark may be cut anywhere between two deltas, so
its beginning is held back until the mark is whole, or turns out to be text.
"""

from collections.abc import Iterator
from typing import NamedTuple

BEGIN, END = "【", "】"
SEPARATORS = ",、 "
DIGITS = frozenset("0123456789")
IN_MARKS = DIGITS | set(SEPARATORS)
LONGEST_MARK = 64
MOST_DIGITS = 9
ENDS = (". ", "! ", "? ", "\n", "。", "！", "？")


class Cited(NamedTuple):
    """A source that the text cites.

    Attributes:
        number: of the source.
        start: where the cited statement begins in the text without marks, in code points.
        end: where it ends, which is the position of the mark.
    """

    number: int
    start: int
    end: int


class CitationReader:
    """Reads one text, part by part.

    Attributes:
        text: the text so far, without marks.
    """

    def __init__(self) -> None:
        self.text = ""
        self._held = ""
        self._last = (0, 0)  # the statement of the mark before

    def fed(self, part: str) -> Iterator[str | Cited]:
        """Yield the next pieces of the text, and the citations between them."""
        pending, self._held = self._held + part, ""
        while pending:
            before, _, behind = pending.partition(BEGIN)
            if before:
                self.text += before
                yield before
            if len(before) == len(pending):
                return
            length = _length_of_mark(behind)
            if length is None:
                self._held = BEGIN + behind
                return
            if length:
                yield from self._cited(behind[: length - 1])
                pending = behind[length:]
            else:
                self.text += BEGIN
                yield BEGIN
                pending = behind

    def rest(self) -> str:
        """Return the text that is held back, at the end: it is no mark."""
        held, self._held = self._held, ""
        self.text += held
        return held

    def _cited(self, numbers: str) -> Iterator[Cited]:
        end = len(self.text)
        start, last_end = self._last
        if end > last_end:
            start = last_end
            for ending in ENDS:
                # a sentence's own last sign stands before its mark, so it ends no earlier one
                found = self.text.rfind(ending, last_end, max(last_end, end - 1))
                start = max(start, found + len(ending)) if found >= 0 else start
            start = end - len(self.text[start:end].lstrip())
        self._last = (start, end)
        for number in numbers_in(numbers):
            yield Cited(number, start, end)


def mark_of(number: int) -> str:
    """Return the mark of the source with that number."""
    return f"{BEGIN}{number}{END}"


def numbers_in(text: str) -> list[int]:
    """Return the numbers of a mark, each once."""
    for separator in SEPARATORS:
        text = text.replace(separator, " ")
    return list(dict.fromkeys(map(int, text.split())))


def _length_of_mark(behind: str) -> int | None:
    """Return the length of the mark after its beginning, 0 if that is no mark, None if it may become one."""
    for index, character in enumerate(behind[:LONGEST_MARK]):
        if character == END:
            words = behind[:index].translate(str.maketrans(SEPARATORS, " " * len(SEPARATORS))).split()
            return index + 1 if words and all(len(word) <= MOST_DIGITS for word in words) else 0
        if character not in IN_MARKS:
            return 0
    return None if len(behind) < LONGEST_MARK else 0
