"""Tables as text: a paragraph for each row, of lines `column: value`, so that each row can be read alone."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import IO

from turnstone.adapters.extracting.text_decoding import lines_in, size_of, squeezed
from turnstone.domain.memory.texts.extraction import MAX_TEXT_BYTES, too_long, unreadable

MAX_TABLE_BYTES = 64 * 1024 * 1024
DELIMITERS = ",;\t|"


def table_text(file: IO[bytes], charset: str | None, delimiter: str | None = None) -> str:
    """Return the rows of a table whose first row names the columns. Raises ExtractionFailed.

    Args:
        delimiter: between cells; None for the most frequent one of the first line.
    """
    if size_of(file) > MAX_TABLE_BYTES:
        raise unreadable(f"the table has more than {MAX_TABLE_BYTES // 1024 // 1024} MiB; divide it")
    rows = _rows(lines_in(file, charset), delimiter)
    columns = [_one_line(name) or f"column {number}" for number, name in enumerate(next(rows, ()), 1)]
    paragraphs: list[str] = []
    room = MAX_TEXT_BYTES
    for row in rows:
        paragraph = squeezed("\n".join(_lines_of(row, columns)))
        if paragraph:
            paragraphs.append(paragraph)
            room -= len(paragraph.encode("utf-8", "surrogatepass")) + 2
        if room < 0:
            raise too_long()
    return "\n\n".join(paragraphs or [", ".join(columns)])


def _rows(lines: Iterator[str], delimiter: str | None) -> Iterator[Sequence[str]]:
    first = next((line for line in lines if line.strip()), "")
    reader = csv.reader(_chained(first, lines), delimiter=delimiter or _delimiter_of(first))
    while True:
        try:
            row = next(reader, None)
        except csv.Error as problem:
            raise unreadable(f"the table can't be read after its line {reader.line_num}: {problem}") from None
        if row is None:
            return
        yield row


def _chained(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _delimiter_of(line: str) -> str:
    unquoted = "".join(line.split('"')[::2])
    return max(DELIMITERS, key=unquoted.count)


def _lines_of(row: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    for number, cell in enumerate(row):
        value = _one_line(cell)
        if value:
            yield f"{columns[number] if number < len(columns) else f'column {number + 1}'}: {value}"


def _one_line(cell: str) -> str:
    return " ".join(cell.split())
