"""Lines and paragraphs of a text, written as the structure of a document is read."""

from __future__ import annotations

from turnstone.adapters.extracting.text_decoding import squeezed
from turnstone.domain.memory.texts.extraction import MAX_TEXT_BYTES, too_long

LINE, PARAGRAPH = 1, 2  # line feeds before the next text
MOST_LINE_FEEDS = 4
INDENTATION = "    "  # of preformatted text: its lines are no headings, as in Markdown


class DocumentLines:
    """A text. Breaks and blanks are written with the text after them, so none is left over."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._room = MAX_TEXT_BYTES
        self._breaks = 0
        self._has_blank = False
        self._prefix = ""
        self._is_in_empty_cell = False

    def begin_paragraph(self) -> None:
        """Begin a paragraph; within a cell of a table only after text."""
        self._break(PARAGRAPH)

    def begin_line(self, prefix: str = "") -> None:
        """Begin a line, with that text before its first if it begins a heading or an item no more."""
        self._break(LINE)
        self._prefix = self._prefix or prefix

    def begin_heading(self, level: int) -> None:
        """Begin a heading of a level from 1 to 6."""
        self._is_in_empty_cell = False
        self._break(PARAGRAPH)
        self._prefix = f"{'#' * level} "

    def end_block(self, breaks: int) -> None:
        """End a heading, paragraph or line."""
        self._break(breaks)
        self._prefix = ""

    def begin_row(self) -> None:
        """Begin a row of a table."""
        self._is_in_empty_cell = False
        self._break(LINE)

    def begin_cell(self, is_first: bool) -> None:
        """Begin a cell, in the line of its row."""
        if not is_first:
            self._breaks = 0
            self.add(" | ")
        self._is_in_empty_cell = True

    def end_cell(self) -> None:
        """End a cell; its last paragraph does not end the line."""
        self._breaks, self._prefix, self._is_in_empty_cell = 0, "", False

    def add(self, text: str) -> None:
        """Add text, with single blanks between its words."""
        words = text.split()
        if not words:
            self._has_blank = self._has_blank or bool(text)
            return
        is_apart = self._has_blank or text[0].isspace()
        self._write(" ".join(words), " " if is_apart else "")
        self._has_blank = text[-1].isspace()

    def add_preformatted(self, text: str) -> None:
        """Add text with its own blanks and lines."""
        for number, line in enumerate(text.split("\n")):
            self._breaks = min(self._breaks + LINE, MOST_LINE_FEEDS) if number else self._breaks
            if line.strip():
                begins_line = self._breaks or not self._pieces
                self._write(f"{INDENTATION if begins_line else ''}{line}", "")

    def finished(self) -> str:
        """Return the text."""
        return squeezed("".join(self._pieces))

    def _break(self, breaks: int) -> None:
        if not self._is_in_empty_cell:
            self._breaks = max(self._breaks, breaks)

    def _write(self, text: str, blank: str) -> None:
        if not self._pieces:
            before = ""
        elif self._breaks:
            before = "\n" * self._breaks
        else:
            before = blank
        written = f"{before}{self._prefix}{text}"
        self._pieces.append(written)
        self._room -= len(written.encode("utf-8", "surrogatepass"))
        if self._room < 0:
            raise too_long()
        self._breaks, self._prefix, self._has_blank, self._is_in_empty_cell = 0, "", False, False
