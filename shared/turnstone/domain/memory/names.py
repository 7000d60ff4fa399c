"""Names that a question may contain: its words, and their sequences."""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST_SEQUENCE = 4  # words
LONGEST_RUN = 8  # characters of a name in a script without spaces
_AROUND = "\"'`´“”„‘’«»‹›()[]{}<>.,;:!?…¿¡。、！？「」"
_UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]{2,}")


def names_in(question: str, most: int) -> list[str]:
    """Return names that the question may contain, each once and at most that many, in the order of the question.

    Where there are too many, single words come before sequences, and short sequences before long ones.
    """
    words = [(at.start(), word) for at in re.finditer(r"\S+", question) if (word := at[0].strip(_AROUND))]
    found: dict[str, tuple[int, int]] = {}
    for length in range(1, LONGEST_SEQUENCE + 1):
        for first in range(len(words) - length + 1):
            name = " ".join(word for _, word in words[first : first + length])
            found.setdefault(name, (words[first][0], -length))
            if len(found) == most:
                return _in_order(found)
        if length == 1:
            for position, name in _runs(question):
                if len(found) < most:
                    found.setdefault(name, (position, -len(name)))
    return _in_order(found)


def _runs(question: str) -> Iterator[tuple[int, str]]:
    """Yield the parts of texts in scripts without spaces, the short ones first."""
    for length in range(2, LONGEST_RUN + 1):
        for run in _UNSPACED.finditer(question):
            for begin in range(run.start(), run.end() - length + 1):
                yield begin, question[begin : begin + length]


def _in_order(found: dict[str, tuple[int, int]]) -> list[str]:
    return sorted(found, key=lambda name: found[name])
