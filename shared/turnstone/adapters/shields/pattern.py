"""Shields that look for regular expressions and words; they need nobody else.

Patterns run on RE2, whose time grows with the text and never faster: no expression of a tenant can hold the server up.
Source: https://github.com/google/re2/wiki/Syntax is what patterns can say.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.messages import text_said
from turnstone.domain.shields import PatternParams
from turnstone.domain.turns import SafetyViolation
from turnstone.domain.verdicts import ShieldQuestion, Verdict

MOST_MEMORY = 4 << 20  # of one compiled expression, in bytes; a larger one is refused


class PatternShield:
    """Finds what matches a pattern, and words as whole words however they are written."""

    def __init__(self, params: PatternParams) -> None:
        self._params = params
        self._patterns = _compiled(params.patterns)
        self._words = [f" {plain_words(word)} " for word in params.words]
        for index, word in enumerate(self._words):
            if not word.strip():
                raise InvalidRequest(f"params.words.{index}: this is no word", ("params", "words", index))

    def judge(self, question: ShieldQuestion) -> Verdict:
        """Return which patterns and words are in any of the messages. It sees no images."""
        found = [name for message in question.judged for name in self._found(text_said(message))]
        return Verdict(SafetyViolation(violation_level="error", metadata={"found": found}) if found else None)

    def _found(self, text: str) -> Iterator[str]:
        raw = text.encode("utf-8", "replace")
        yield from (f"patterns.{index}" for index, pattern in enumerate(self._patterns) if pattern.search(raw))
        if self._words:
            plain = f" {plain_words(text)} "
            yield from (f"words.{index}" for index, word in enumerate(self._words) if word in plain)


def plain_words(text: str) -> str:
    """Return the words of the text, parted by single spaces, however wide, large or composed they are written.

    A word is a run of letters, digits and the marks over them; characters that nobody sees part nothing.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join("".join(map(_part_of_word, folded)).split())


def _part_of_word(character: str) -> str:
    if character.isalnum():
        return character
    category = unicodedata.category(character)
    if category == "Cf":
        return ""
    return character if category.startswith("M") else " "


def _compiled(patterns: tuple[str, ...]) -> list[Any]:
    """Return the compiled patterns. Raises InvalidRequest, naming one that RE2 does not take."""
    if not patterns:
        return []
    import re2  # 13 ms, where a pattern is used for the first time

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MOST_MEMORY
    compiled = []
    for index, pattern in enumerate(patterns):
        try:
            compiled.append(re2.compile(pattern, options))
        except re2.error as wrong:
            location = ("params", "patterns", index)
            said = f"params.patterns.{index}: this is no expression that can be searched for in steady time"
            raise InvalidRequest(f"{said} ({wrong.args[0].decode()})", location) from wrong
    return compiled
