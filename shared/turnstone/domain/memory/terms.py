"""Analysis of text for keyword search: words of any language as overlapping pieces of four letters.

Pieces need no stemmer and no list of stop words, and find parts of compound words.
"""

import re
import unicodedata
from collections.abc import Iterable

PIECE = 4
BEGIN, END = "^", "$"  # of a word; no word contains them
_WORDS = re.compile(r"\w+")
# Han, Hiragana, Katakana, Hangul and their neighbours: scripts that write words without spaces, or short ones
_DENSE = re.compile(
    "[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)


def terms_of(text: str) -> list[str]:
    """Return the terms of the text in their order, repeated ones included."""
    return [piece for word in words_of(text) for piece in pieces_of(word)]


def words_of(text: str) -> list[str]:
    """Return the words of the text in their order, in the form that their pieces have."""
    return _WORDS.findall(_plain(text))


def pieces_of(word: str) -> list[str]:
    """Return the terms of a word of `words_of`, of `PIECE` letters at most."""
    return _pairs(word) if _DENSE.search(word) else _pieces(f"{BEGIN}{word}{END}")


def indexed_pieces_of(word: str) -> list[str]:
    """Return the terms by which a chunk with this word is found: also by each letter, where a letter can be a word."""
    pieces = pieces_of(word)
    return [*pieces, *dict.fromkeys(word)] if len(word) > 1 and not pieces[0].startswith(BEGIN) else pieces


def shares_of(terms: Iterable[str]) -> dict[str, float]:
    """Return the share of each term in a question of these terms, whose pieces are in their order.

    The n pieces of a word count as much together as √n words: a long word distinguishes more than a short one, but its
    pieces overlap, and mostly occur together. A repeated word counts once.
    """
    words: dict[tuple[str, ...], None] = {}
    pieces: list[str] = []
    for term in terms:
        if term.startswith(BEGIN):
            pieces = []
        pieces.append(term)
        if term.endswith(END) or not pieces[0].startswith(BEGIN):
            words[tuple(pieces)] = None
            pieces = []
    shares: dict[str, float] = {}
    for word in words:
        for piece in dict.fromkeys(word):
            shares[piece] = shares.get(piece, 0.0) + len(word) ** -0.5
    return shares


def count_words(text: str) -> int:
    """Return the number of words of the text, of which a script without spaces has few."""
    return len(_WORDS.findall(text))


def _plain(text: str) -> str:
    """Return the text in lower case, without marks above and below letters, in one form of each letter."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFC", "".join(letter for letter in folded if unicodedata.category(letter) != "Mn"))


def _pieces(marked: str) -> list[str]:
    return [marked[start : start + PIECE] for start in range(max(1, len(marked) - PIECE + 1))]


def _pairs(word: str) -> list[str]:
    return [word[start : start + 2] for start in range(max(1, len(word) - 1))]
