"""Search for many words and phrases in one pass: the Aho-Corasick automaton over whole words.

The time grows with the number of words in the text, not with the number of phrases.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

ROOT = 0


class WordSearch:
    """An immutable automaton for any number of texts and threads."""

    def __init__(self, phrases: Sequence[Sequence[str]]) -> None:
        """Build the automaton from phrases, each a non-empty sequence of words."""
        self._next: list[dict[str, int]] = [{}]
        self._ending: list[list[int]] = [[]]  # the phrases that end at a node
        for index, phrase in enumerate(phrases):
            node = ROOT
            for word in phrase:
                node = self._next[node].setdefault(word, len(self._next))
                if node == len(self._next):
                    self._next.append({})
                    self._ending.append([])
            self._ending[node].append(index)
        self._shorter = [ROOT] * len(self._next)  # the node of the longest proper suffix
        self._ending_there = [ROOT] * len(self._next)  # the nearest suffix, itself included, at which a phrase ends
        self._link()

    def found_in(self, parts: Iterable[Iterable[str]]) -> list[int]:
        """Return the sorted indexes of the phrases found; the text's words come in parts."""
        found: set[int] = set()
        seen = {ROOT}
        node = ROOT
        for words in parts:
            for word in words:
                node = self._after(node, word)
                ended = self._ending_there[node]
                while ended not in seen:
                    seen.add(ended)
                    found.update(self._ending[ended])
                    ended = self._ending_there[self._shorter[ended]]
        return sorted(found)

    def _after(self, node: int, word: str) -> int:
        while (following := self._next[node].get(word)) is None:
            if node == ROOT:
                return ROOT
            node = self._shorter[node]
        return following

    def _link(self) -> None:
        left = deque([ROOT])
        while left:
            node = left.popleft()
            shorter = self._shorter[node]
            self._ending_there[node] = node if self._ending[node] else self._ending_there[shorter]
            for word, following in self._next[node].items():
                self._shorter[following] = ROOT if node == ROOT else self._after(shorter, word)
                left.append(following)
