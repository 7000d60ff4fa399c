"""Shields that match regular expressions and words, in this process.

Patterns run on RE2, in time linear in the text: no tenant's expression can block the server.
Source: https://github.com/google/re2/wiki/Syntax defines the patterns.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

from turnstone.adapters.shields.word_search import WordSearch
from turnstone.domain.errors import InvalidRequest, ShieldFailed
from turnstone.domain.messages.messages import message_text
from turnstone.domain.shields.shields import PatternParams
from turnstone.domain.shields.verdicts import ShieldQuestion
from turnstone.domain.turns.turns import SafetyViolation, Verdict

MOST_MEMORY = 8 << 20  # bytes of a shield's compiled expressions, split among them, each limited to:
MOST_MEMORY_OF_ONE = 4 << 20
MOST_WORK = 500_000_000  # an expression's instructions times a text's bytes: ten seconds in the worst case
PIECE_CHARACTERS = 16_384  # steps between two checks for cancellation
OVERLAP_CHARACTERS = 8_192  # more than a word of 200 characters with all its marks
CUT = re.compile(r"[\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f](?=[\x00-\x7f])")  # ASCII outside words, before ASCII
CONTROLS = (*range(9), *range(0x0E, 0x1C), 0x7F)
FILLERS = (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0)
SELECTORS = (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0000, 0xE1000))
INVISIBLE = frozenset((*CONTROLS, *FILLERS, *SELECTORS))
LAST_KEPT = 0xFFFF
MOST_MARKS = 30  # over one letter, as in Unicode's Stream-Safe Text Format
MAY_BE_MARKS = re.compile(rf"(?:[^\w\x00-\x7f]|[\uff9e\uff9f]){{{MOST_MARKS + 1},}}")


class PatternShield:
    """Finds matches of patterns, and whole words in any spelling variant of their characters."""

    def __init__(self, params: PatternParams) -> None:
        self._params = params
        self._patterns = _compiled(params.patterns)
        phrases = [plain_words(word).split() for word in params.words]
        for index, phrase in enumerate(phrases):
            if not phrase:
                raise InvalidRequest(
                    f"params.words.{index}: must contain a letter or digit", ("params", "words", index)
                )
        self._words = WordSearch(phrases) if phrases else None

    def judge(self, question: ShieldQuestion) -> Verdict:
        """Return the patterns and words found in any of the messages. Ignores images.

        Raises:
            ShieldFailed: none was found, but the search was incomplete; or the request was cancelled.
        """
        missed: list[str] = []
        found = [name for message in question.judged for name in self._found(message_text(message), question, missed)]
        if missed and not found:
            raise ShieldFailed(f"params.{missed[0]} is too complex an expression for a text of this length")
        return Verdict(violation=SafetyViolation(violation_level="error", metadata={"found": found}) if found else None)

    def _found(self, text: str, question: ShieldQuestion, missed: list[str]) -> Iterator[str]:
        raw = text.encode("utf-8", "replace")
        for index, pattern in enumerate(self._patterns):
            _refuse_if_cancelled(question)
            if pattern.programsize * len(raw) > MOST_WORK:
                missed.append(f"patterns.{index}")
            elif pattern.search(raw):
                yield f"patterns.{index}"
        if self._words is not None:
            yield from (f"words.{index}" for index in self._words.found_in(_words_of(text, question)))


def _refuse_if_cancelled(question: ShieldQuestion) -> None:
    if question.stop is not None and question.stop.is_set:
        raise ShieldFailed("the request was cancelled")


def _words_of(text: str, question: ShieldQuestion) -> Iterator[list[str]]:
    """Yield the words of the text, piece by piece. Raises ShieldFailed once the question is cancelled."""
    for piece in _pieces(text, question):
        _refuse_if_cancelled(question)
        yield _as_words(piece)


def _pieces(text: str, question: ShieldQuestion) -> Iterator[str]:
    """Yield the visible text, cut outside words and composed characters.

    Where no such position exists for long, pieces overlap, so that no cut hides a word.
    """
    seen = []
    for start in range(0, len(text), PIECE_CHARACTERS):
        _refuse_if_cancelled(question)
        seen.append(text[start : start + PIECE_CHARACTERS].translate(SEEN))
    whole = "".join(seen)
    start, end = 0, PIECE_CHARACTERS
    while end < len(whole):
        cut = CUT.search(whole, end, end + PIECE_CHARACTERS)
        end = cut.end() if cut else end + PIECE_CHARACTERS
        yield whole[start:end]
        start = end if cut else max(start, min(end, len(whole)) - OVERLAP_CHARACTERS)
        end = start + PIECE_CHARACTERS
    yield whole[start:]


def plain_words(text: str) -> str:
    """Return the words of the text, separated by single spaces, normalised in width, case and composition.

    A word is a run of letters, digits and the marks over them; invisible characters do not separate words.
    """
    return " ".join(_as_words(text.translate(SEEN)))


def _as_words(seen: str) -> list[str]:
    # ordering marks takes quadratic time, and holds the interpreter lock
    fewer = MAY_BE_MARKS.sub(_with_fewer_marks, seen)
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", fewer).casefold())
    return folded.translate(PARTS).split()


def _with_fewer_marks(run: re.Match[str]) -> str:
    kept: list[str] = []
    marks = 0
    for character in run[0]:
        is_mark = unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) > 0
        marks = marks + 1 if is_mark else 0
        if marks <= MOST_MARKS:
            kept.append(character)
    return "".join(kept)


class _Characters(dict[int, str]):
    """The normalised form of each character; rare ones are computed each time, to keep the table small."""

    def __init__(self, become: Callable[[str], str]) -> None:
        super().__init__()
        self._become = become

    def __missing__(self, code: int) -> str:
        part = self._become(chr(code))
        if code <= LAST_KEPT:
            self[code] = part
        return part


def _as_seen(character: str) -> str:
    return "" if ord(character) in INVISIBLE or unicodedata.category(character) == "Cf" else character


def _part_of_word(character: str) -> str:
    return character if character.isalnum() or unicodedata.category(character).startswith("M") else " "


SEEN = _Characters(_as_seen)
PARTS = _Characters(_part_of_word)


def _compiled(patterns: tuple[str, ...]) -> list[Any]:
    """Return the compiled patterns. Raises InvalidRequest, naming one that RE2 rejects."""
    if not patterns:
        return []
    import re2  # takes 13 ms, at the first use of a pattern

    options = re2.Options()
    options.log_errors = False
    options.max_mem = min(MOST_MEMORY_OF_ONE, MOST_MEMORY // len(patterns))
    compiled = []
    for index, pattern in enumerate(patterns):
        try:
            compiled.append(re2.compile(pattern, options))
        except re2.error as wrong:
            location = ("params", "patterns", index)
            refusal = f"params.patterns.{index}: must be a regular expression of RE2's syntax"
            raise InvalidRequest(f"{refusal} ({wrong.args[0].decode()})", location) from wrong
    return compiled
