"""Cutting of texts into overlapping chunks, and the tokens that limit them.

Tokens are counted by the text alone, the same on every server: up to six letters, three digits, or one other sign.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from turnstone.domain.memory.banks import Chunking
from turnstone.domain.memory.documents import DocumentChunk

_TOKENS = re.compile(
    "[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
    r"|[^\W\d_]{1,6}?(?=[\u3040-\u30ff\u3400-\u9fff])|[^\W\d_]{1,6}|\d{1,3}|[^\w\s]|_"
)
# Source: CommonMark 0.31, "ATX headings" and "Fenced code blocks".
_HEADING_OR_FENCE = re.compile(r"^(?:(#{1,6})[ \t]+(\S.*?)[ \t#]*$|[ ]{0,3}(`{3,}|~{3,})(.*)$)", re.MULTILINE)
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_SENTENCE = re.compile(r"[.!?。！？][\"')\]]*\s")
_IN_WORD = re.compile(r"\w\w")
MARKDOWN = ("text/markdown", "text/x-markdown")
LONGEST_WORD = 16  # tokens of a word that chunks do not divide
AT_ONCE = 65_536  # characters whose tokens are in memory at the same time
LONGEST_PATH = 200  # characters of headings before a chunk


class Cut(NamedTuple):
    """The text of a chunk and its number of tokens."""

    text: str
    tokens: int


class Section(NamedTuple):
    """A section of a Markdown text.

    Attributes:
        above: a line with the headings above its own, empty without any.
        path: a line with those and its own.
        text: with its own heading.
    """

    above: str
    path: str
    text: str


def count_tokens(text: str) -> int:
    """Return the number of tokens of the text."""
    if len(text) <= AT_ONCE:
        return len(_TOKENS.findall(text))  # three times as fast (measured)
    return sum(1 for _ in _TOKENS.finditer(text))


def first_tokens(text: str, most: int) -> str:
    """Return the beginning of the text with that number of tokens at most."""
    for number, token in enumerate(_TOKENS.finditer(text)):
        if number == most:
            return text[: token.start()].rstrip()
    return text


def chunks_of(text: str, chunking: Chunking, *, has_headings: bool = False) -> Iterator[Cut]:
    """Yield the chunks of the text, each within the limit of tokens and beginning in the overlap of the one before.

    Chunks end at a paragraph or a sentence where one ends in their last quarter. With `has_headings`, of Markdown, a
    chunk begins with the headings above it: the first one of a section contains its own heading.
    """
    for section in _sections(text) if has_headings else [Section("", "", text)]:
        longest = max(count_tokens(section.above), count_tokens(section.path))
        room = max(chunking.tokens - longest, chunking.tokens // 2, 1)
        prefix = section.above
        for cut in _cuts(section.text, room, min(chunking.overlap, room - 1)):
            tokens = count_tokens(prefix) if prefix else 0
            yield Cut(prefix + cut.text, tokens + cut.tokens) if tokens + room <= chunking.tokens else cut
            prefix = section.path


def document_chunks(document_id: str, text: str, chunking: Chunking, mime_type: str) -> tuple[DocumentChunk, ...]:
    """Return the chunks of a document, without vectors; those of Markdown have the headings above them."""
    cuts = chunks_of(text, chunking, has_headings=mime_type.partition(";")[0].strip().lower() in MARKDOWN)
    return tuple(DocumentChunk(document_id, index, cut.text, cut.tokens, {}) for index, cut in enumerate(cuts))


def _cuts(text: str, tokens: int, overlap: int) -> Iterator[Cut]:
    starts, end_of_last = [], 0
    for token in _TOKENS.finditer(text):
        starts.append(token.start())
        end_of_last = token.end()
    if not starts:
        return
    starts.append(max(end_of_last, len(text.rstrip())))
    begin, count = 0, len(starts) - 1
    while True:
        end = min(begin + tokens, count)
        if end < count:
            end = _good_end(text, starts, begin, end)
            end = _between_words(text, starts, begin + 1, end)
        yield Cut(text[starts[begin] : starts[end]].strip(), end - begin)
        if end >= count:
            return
        begin = _between_words(text, starts, begin + 1, max(end - overlap, begin + 1))


def _between_words(text: str, starts: list[int], lowest: int, index: int) -> int:
    """Return the index of the last token up to this one that begins a word; this one if no word begins near."""
    for earlier in range(index, max(lowest, index - LONGEST_WORD) - 1, -1):
        if not _IN_WORD.match(text, starts[earlier] - 1):
            return earlier
    return index


def _good_end(text: str, starts: list[int], begin: int, end: int) -> int:
    """Return the index after the last token of a chunk: at the end of a paragraph or sentence if one is near."""
    earliest = begin + max(1, (end - begin) * 3 // 4)
    near = text[starts[earliest] : starts[end]]
    for ending in (_PARAGRAPH, _SENTENCE):
        last = None
        for last in ending.finditer(near):  # noqa: B007 - the last of all
            pass
        if last is not None:
            limit = starts[earliest] + last.end()
            return next(index for index in range(end, earliest - 1, -1) if starts[index] <= limit)
    return end


def _sections(text: str) -> Iterator[Section]:
    """Yield each section of a Markdown text. Headings in blocks of code are none."""
    headings = list(_headings(text))
    if not headings or text[: headings[0].start()].strip():
        yield Section("", "", text[: headings[0].start()] if headings else text)
    path: list[tuple[int, str]] = []
    bounds = [*(heading.start() for heading in headings), len(text)]
    for heading, (start, end) in zip(headings, pairwise(bounds), strict=True):
        level = len(heading[1])
        path = [(each, name) for each, name in path if each < level]
        above = _line_of(path)
        path.append((level, heading[2]))
        yield Section(above, _line_of(path), text[start:end])


def _line_of(path: Sequence[tuple[int, str]]) -> str:
    return f"{' > '.join(name for _, name in path)[:LONGEST_PATH]}\n" if path else ""


def _headings(text: str) -> Iterator[re.Match[str]]:
    fence = ""
    for found in _HEADING_OR_FENCE.finditer(text):
        mark = found[3]
        if mark is None:
            if not fence:
                yield found
        elif not fence:
            fence = mark
        elif mark[0] == fence[0] and len(mark) >= len(fence) and not found[4].strip():
            fence = ""
