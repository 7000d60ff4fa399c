"""Word pieces of a text, as BERT's tokenizer for lower case makes them.

Source: the library `tokenizers` with the tokenizer of all-MiniLM-L6-v2; the ids are equal.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

CACHED_WORDS = 32_768
LONGEST_WORD = 100  # characters; a longer one is unknown
UNKNOWN, BEGIN, END = "[UNK]", "[CLS]", "[SEP]"
# Source: the blocks that BERT's tokenizer separates into single characters
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPieces:
    """Divides texts into the longest pieces of a vocabulary."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        """Take all pieces, each at the index that is its id; `##` marks those that continue a word."""
        self._ids = {piece: number for number, piece in enumerate(vocabulary)}
        self._cached = lru_cache(CACHED_WORDS)(self._pieces)
        self.begin, self.end = self._ids[BEGIN], self._ids[END]

    def ids(self, text: str) -> list[int]:
        """Return the ids of the text's pieces, without those that mark its begin and end."""
        found: list[int] = []
        for word in _words(text):
            found += self._cached(word)
        return found

    def _pieces(self, word: str) -> tuple[int, ...]:
        pieces, begin = [], 0
        while begin < len(word) <= LONGEST_WORD:
            prefix = "##" if begin else ""
            ends = (end for end in range(len(word), begin, -1) if prefix + word[begin:end] in self._ids)
            end = next(ends, None)
            if end is None:
                break
            pieces.append(self._ids[prefix + word[begin:end]])
            begin = end
        return tuple(pieces) if begin == len(word) else (self._ids[UNKNOWN],)


def _words(text: str) -> Iterator[str]:
    """Yield the words of the text in lower case without accents; each sign and each ideograph is a word."""
    spaced = "".join(map(_spaced, text))
    letters = (each for each in unicodedata.normalize("NFD", spaced) if unicodedata.category(each) != "Mn")
    for word in "".join(map(str.lower, letters)).split():  # one by one: at the end of a word a sigma stays the same
        begin = 0
        for at, character in enumerate(word):
            if _is_punctuation(character):
                yield from (word[begin:at],) if at > begin else ()
                yield character
                begin = at + 1
        if begin < len(word):
            yield word[begin:]


@lru_cache(4_096)
def _spaced(character: str) -> str:
    """Return the character with spaces around an ideograph, a space for any white one, nothing for a control."""
    number = ord(character)
    if character in "\t\n\r" or unicodedata.category(character) == "Zs":
        return " "
    if number in (0, 0xFFFD) or unicodedata.category(character).startswith("C"):
        return ""
    return f" {character} " if any(first <= number <= last for first, last in _IDEOGRAPHS) else character


@lru_cache(4_096)
def _is_punctuation(character: str) -> bool:
    return (character.isascii() and character.isprintable() and not character.isalnum() and character != " ") or (
        unicodedata.category(character).startswith("P")
    )
