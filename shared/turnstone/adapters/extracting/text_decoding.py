"""Bytes of documents as text, piece by piece: UTF-8, another charset that is declared, or one that a mark shows."""

from __future__ import annotations

import codecs
import io
import os
import re
from collections.abc import Iterator
from typing import IO

from turnstone.domain.memory.texts.extraction import MAX_TEXT_BYTES, ExtractionFailed, too_long, unreadable

PIECE_BYTES = 65_536
MAX_LINE_CHARACTERS = 1_000_000  # where a line is in memory as a whole
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# by the names of Python's codecs; others take quadratic time, or are no charsets
CHARSETS = frozenset(
    [
        *("ascii", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"),
        *(f"iso8859-{part}" for part in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16)),
        *(
            f"cp{page}"
            for page in (437, 850, 852, 855, 857, 858, 860, 861, 862, 863, 865, 866, 869, 874, 932, 949, 950)
        ),
        *(f"cp{page}" for page in range(1250, 1259)),
        *("koi8-r", "koi8-u", "mac-roman", "mac-cyrillic", "mac-latin2", "tis-620", "ptcp154"),
        *("shift_jis", "shift_jis_2004", "euc_jp", "iso2022_jp", "euc_kr", "johab"),
        *("gb2312", "gbk", "gb18030", "big5", "big5hkscs"),
    ]
)
# Source: the Encoding Standard of WHATWG: labels of Latin-1 are names of windows-1252, which contains it.
WESTERN = "cp1252"
CONTAINED = {"iso8859-1": WESTERN, "ascii": "utf-8"}
_BLANKS = re.compile(r"[^\S\n]{200,}")
_EMPTY_LINES = re.compile(r"\n{5,}")
_XML_CHARSET = re.compile(rb"\A(?:\xef\xbb\xbf)?<\?xml[^>]*?\sencoding\s*=\s*[\"']([A-Za-z][\w.:-]*)[\"']")


def size_of(file: IO[bytes]) -> int:
    """Return the number of bytes of a file."""
    return file.seek(0, os.SEEK_END)


def beginning_of(file: IO[bytes], size: int) -> bytes:
    """Return the first bytes of a file."""
    file.seek(0)
    return file.read(size)


def text_in(file: IO[bytes], charset: str | None) -> str:
    """Return the whole text of a file. Raises ExtractionFailed if it is none, or too long."""
    if size_of(file) > MAX_TEXT_BYTES:
        raise too_long()
    body = bytearray()  # a text in memory can take four times as much
    for piece in pieces_of(file, charset):
        body += squeezed(piece).encode()
    return body.decode()


def lines_in(file: IO[bytes], charset: str | None) -> Iterator[str]:
    """Yield the lines of a text, each with its line feed. Raises ExtractionFailed also for a line without end."""
    rest = ""
    for piece in pieces_of(file, charset):
        *lines, rest = (rest + piece).split("\n")
        yield from (f"{line}\n" for line in lines)
        if len(rest) > MAX_LINE_CHARACTERS:
            raise unreadable(f"the document has a line of over {MAX_LINE_CHARACTERS} characters; divide it into lines")
    if rest:
        yield rest


def pieces_of(file: IO[bytes], charset: str | None) -> Iterator[str]:
    """Yield the text of a file in pieces, with line feeds at the ends of lines. Raises ExtractionFailed."""
    encoding = encoding_of(beginning_of(file, PIECE_BYTES), charset)
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(encoding)("strict"), translate=True)
    file.seek(0)
    is_ended = False
    while not is_ended:
        piece = file.read(PIECE_BYTES)
        is_ended = not piece
        try:
            text = decoder.decode(piece, final=is_ended)
        except UnicodeError:
            raise _undecodable(encoding, is_declared=charset is not None) from None
        if "\0" in text:
            raise unreadable(
                "the document contains bytes that are no text; declare its type, or the charset of its text, "
                "as in text/plain; charset=utf-16"
            )
        yield text


def encoding_of(beginning: bytes, charset: str | None) -> str:
    """Return the name of the codec of a text: by its mark, else as declared, else UTF-8. Raises ExtractionFailed."""
    for mark, encoding in MARKS:
        if beginning.startswith(mark):
            return encoding
    in_text = _XML_CHARSET.match(beginning)
    label = charset or (in_text[1].decode() if in_text else None)
    return "utf-8" if label is None else codec_of(label)


def codec_of(label: str) -> str:
    """Return the name of the codec of a charset. Raises ExtractionFailed for one that is not recognised."""
    try:
        name = codecs.lookup(label).name
    except (LookupError, UnicodeError, ValueError):
        name = ""
    if name not in CHARSETS:
        raise unreadable(f"the document's charset {label[:40]!r} is not recognised; save it as UTF-8")
    return CONTAINED.get(name, name)


def squeezed(text: str) -> str:
    """Return the text without long runs of blanks and empty lines, which no limit of tokens would count."""
    return _EMPTY_LINES.sub("\n\n\n\n", _BLANKS.sub(" " * 200, text))


def _undecodable(encoding: str, is_declared: bool) -> ExtractionFailed:
    if is_declared:
        return unreadable(f"the document is no text in the charset it declares, {encoding}; declare the right one")
    return unreadable(
        f"the document is no text in {encoding.removesuffix('-sig').upper()}; save it as UTF-8, or declare its "
        "charset, as in text/plain; charset=windows-1252 or charset=utf-16"
    )
