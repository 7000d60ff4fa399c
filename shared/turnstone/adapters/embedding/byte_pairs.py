"""Byte-pair tokens of a text, by a vocabulary in the order of its merges.

Source: the tokenizer's file of the vectors in `static`; the ids equal those of the library `tokenizers` for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush

SPACE = "\u2581"  # stands for a space in tokens; no token contains one after another character
CACHED_WORDS = 32_768
LONGEST_CACHED = 32  # characters
_WORDS = re.compile(f"{SPACE}*[^{SPACE}]+|{SPACE}+")
_Rank = tuple[bool, int, int, int]


class BytePairs:
    """Divides texts into tokens. Words in a cache of bounded size need no division."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        """Take all tokens, each at the index that is its id; bytes of other characters are the tokens `<0x00>` …"""
        self._ids = {token: number for number, token in enumerate(vocabulary)}
        self._cached = lru_cache(CACHED_WORDS)(self._tokens)

    def ids(self, text: str) -> list[int]:
        """Return the ids of the text's tokens; none for an empty text."""
        found: list[int] = []
        for word in _WORDS.findall(f"{SPACE}{text}".replace(" ", SPACE) if text else ""):
            found += self._cached(word) if len(word) <= LONGEST_CACHED else self._tokens(word)
        return found

    def _tokens(self, word: str) -> tuple[int, ...]:
        """Return the ids of a word's tokens: the pair with the lowest rank is merged, as long as there is one."""
        parts: list[str | None] = list(self._symbols(word))
        left = list(range(-1, len(parts) - 1))
        right = list(range(1, len(parts) + 1))
        ranked = [(rank, at) for at in range(len(parts) - 1) if (rank := self._rank(parts[at], parts[at + 1]))]
        heapify(ranked)
        while ranked:
            rank, at = heappop(ranked)
            second = right[at]
            if second >= len(parts) or self._rank(parts[at], parts[second]) != rank:
                continue  # one of the two is part of a longer token by now
            parts[at] = f"{parts[at]}{parts[second]}"
            parts[second] = None
            right[at] = right[second]
            if right[at] < len(parts):
                left[right[at]] = at
            for begin in (left[at], at):
                if begin >= 0 and right[begin] < len(parts) and (new := self._rank(parts[begin], parts[right[begin]])):
                    heappush(ranked, (new, begin))
        return tuple(self._ids[part] for part in parts if part is not None)

    def _symbols(self, word: str) -> Iterator[str]:
        for character in word:
            if character in self._ids:
                yield character
            else:
                yield from (f"<0x{byte:02X}>" for byte in character.encode("utf-8", "replace"))

    def _rank(self, first: str | None, second: str | None) -> _Rank | None:
        """Return the rank of merging two parts, None if they make no token. Merges of spaces come last."""
        if first is None or second is None:
            return None
        merged = first + second
        number = self._ids.get(merged)
        if number is None:
            return None
        return merged.strip(SPACE) == "", number, self._ids[first], self._ids[second]
