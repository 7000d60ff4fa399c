"""DOCX as text: headings as in Markdown, a line for each item of a list and for each row of a table.

Source: ECMA-376, part 1, 17 (WordprocessingML), and part 2 (packages). Element names are compared without their
namespaces, of which the strict form has others.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import IO
from xml.parsers import expat

from turnstone.adapters.extracting.text_lines import LINE, PARAGRAPH, DocumentLines
from turnstone.domain.memory.texts.extraction import unreadable

MAX_PART_BYTES = 128 * 1024 * 1024  # of XML, unpacked: eight times as much as its text, at most
MAX_MEMBERS = 10_000
PIECE_BYTES = 65_536
RELATIONS = "_rels/.rels"
MAIN_PART = "word/document.xml"
SKIPPED = frozenset(("Fallback", "del", "moveFrom", "instrText", "delText", "rPrChange", "pPrChange"))
LEVELS = 6
DEEPEST = 10  # styles below each other
NO_WORD_DOCUMENT = "the document is a ZIP archive without a Word document; save its content as .docx, or as text"
DAMAGED = "the document is no DOCX, or it is damaged; save it again as .docx"
# errors of `zipfile` and of `expat` for content that is none
DAMAGES = (
    zipfile.BadZipFile,
    zlib.error,
    expat.ExpatError,
    EOFError,
    KeyError,
    NotImplementedError,
    OSError,
    ValueError,
)

Attributes = Mapping[str, str]


def word_text(file: IO[bytes]) -> str:
    """Return the text of a document, its notes at the end. Raises ExtractionFailed."""
    try:
        with zipfile.ZipFile(file) as package:
            names = package.namelist()
            if len(names) > MAX_MEMBERS:
                raise unreadable(f"the document has more than {MAX_MEMBERS} parts; save it again as .docx")
            main = _main_part(package, names)
            folder = main.rpartition("/")[0]
            styles = _Styles()
            if f"{folder}/styles.xml" in names:
                _read(package, f"{folder}/styles.xml", styles.start, styles.end)
            body = _Body(styles.levels())
            for name in (main, f"{folder}/footnotes.xml", f"{folder}/endnotes.xml"):
                if name in names:
                    _read(package, name, body.start, body.end, body.characters)
            return body.text.finished()
    except DAMAGES:
        raise unreadable(DAMAGED) from None
    except RuntimeError:  # of `zipfile`, for an encrypted part
        raise unreadable("the document is encrypted; save it as .docx without a password") from None


def _main_part(package: zipfile.ZipFile, names: list[str]) -> str:
    found = []

    def start(name: str, attributes: Attributes) -> None:
        if name == "Relationship" and attributes.get("Type", "").endswith("/officeDocument"):
            found.append(attributes.get("Target", "").lstrip("/"))

    if RELATIONS in names:
        _read(package, RELATIONS, start)
    main = next((name for name in (*found, MAIN_PART) if name in names), None)
    if main is None or not main.startswith("word/"):
        raise unreadable(NO_WORD_DOCUMENT)
    return main


def _read(
    package: zipfile.ZipFile,
    name: str,
    start: Callable[[str, Attributes], None],
    end: Callable[[str], None] | None = None,
    characters: Callable[[str], None] | None = None,
) -> None:
    """Parse a part, whose names come without namespaces. Raises ExtractionFailed for too much XML, or a DTD."""
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def started(qualified: str, attributes: dict[str, str]) -> None:
        start(_local(qualified), {_local(each): value for each, value in attributes.items()})

    def ended(qualified: str) -> None:
        if end is not None:
            end(_local(qualified))

    def declared(*_: object) -> None:
        raise unreadable(DAMAGED)  # no writer of DOCX declares types, whose entities can grow without end

    parser.StartElementHandler, parser.EndElementHandler = started, ended
    parser.StartDoctypeDeclHandler = declared
    if characters is not None:
        parser.CharacterDataHandler = characters
    with package.open(name) as part:
        for piece in _pieces_of(part):
            parser.Parse(piece)
    parser.Parse(b"", True)


def _pieces_of(part: IO[bytes]) -> Iterator[bytes]:
    left = MAX_PART_BYTES
    while piece := part.read(PIECE_BYTES):
        left -= len(piece)
        if left < 0:
            raise unreadable(f"the document unpacks to more than {MAX_PART_BYTES // 1024 // 1024} MiB; divide it")
        yield piece


def _local(name: str) -> str:
    return name.rpartition(":")[2]


class _Styles:
    """Levels of headings of a document's styles. Names are in English in every language of Word, ids are not."""

    def __init__(self) -> None:
        self._style = ""
        self._levels: dict[str, int] = {}
        self._parents: dict[str, str] = {}

    def start(self, name: str, attributes: Attributes) -> None:
        """Read the beginning of an element."""
        value = attributes.get("val", "")
        if name == "style":
            self._style = attributes.get("styleId", "")
        elif name == "name" and self._style:
            level = _heading_level(value)
            if level:
                self._levels[self._style] = level
        elif name == "basedOn" and self._style:
            self._parents[self._style] = value
        elif name == "outlineLvl" and self._style:
            self._levels.setdefault(self._style, _outline_level(value))

    def end(self, name: str) -> None:
        """Read the end of an element."""
        if name == "style":
            self._style = ""

    def levels(self) -> dict[str, int]:
        """Return the level of each style of headings, also of those based on another one."""
        found = dict(self._levels)
        for style in self._parents:
            above = style
            for _ in range(DEEPEST):
                if above in self._levels or above not in self._parents:
                    break
                above = self._parents[above]
            found[style] = self._levels.get(above, 0)
        return found


class _Body:
    """Writes the text of a part into lines."""

    def __init__(self, levels: Mapping[str, int]) -> None:
        self.text = DocumentLines()
        self._levels = levels
        self._skipped = 0
        self._texts = 0
        self._rows: list[bool] = []  # whether a cell of it was read
        self._starts: dict[str, Callable[[Attributes], None]] = {
            "p": lambda _: self.text.begin_paragraph(),
            "pStyle": self._start_style,
            "outlineLvl": lambda attributes: self._begin_heading(_outline_level(attributes.get("val", ""))),
            "numPr": lambda _: self.text.begin_line("- "),
            "t": lambda _: self._count(1),
            "tab": lambda _: self.text.add(" "),
            "br": lambda _: self.text.begin_line(),
            "cr": lambda _: self.text.begin_line(),
            "noBreakHyphen": lambda _: self.text.add("-"),
            "tr": lambda _: self._start_row(),
            "tc": lambda _: self._start_cell(),
        }
        self._ends: dict[str, Callable[[], None]] = {
            "p": lambda: self.text.end_block(PARAGRAPH),
            "t": lambda: self._count(-1),
            "tc": self.text.end_cell,
            "tr": self._end_row,
            "tbl": lambda: self.text.end_block(PARAGRAPH),
        }

    def start(self, name: str, attributes: Attributes) -> None:
        """Read the beginning of an element."""
        if self._skipped or name in SKIPPED:
            self._skipped += 1
        elif name in self._starts:
            self._starts[name](attributes)

    def end(self, name: str) -> None:
        """Read the end of an element."""
        if self._skipped:
            self._skipped -= 1
        elif name in self._ends:
            self._ends[name]()

    def characters(self, text: str) -> None:
        """Add text."""
        if self._texts and not self._skipped:
            self.text.add(text)

    def _count(self, change: int) -> None:
        self._texts += change

    def _start_style(self, attributes: Attributes) -> None:
        style = attributes.get("val", "")
        self._begin_heading(self._levels.get(style, 0) or _heading_level(style))

    def _begin_heading(self, level: int) -> None:
        if level:
            self.text.begin_heading(level)

    def _start_row(self) -> None:
        self._rows.append(False)
        self.text.begin_row()

    def _start_cell(self) -> None:
        if self._rows:
            self.text.begin_cell(is_first=not self._rows[-1])
            self._rows[-1] = True

    def _end_row(self) -> None:
        if self._rows:
            self._rows.pop()
        self.text.end_block(LINE)


def _heading_level(name: str) -> int:
    """Return the level of a style by its name; 0 for no heading."""
    if name.lower() == "title":
        return 1
    found = re.fullmatch(r"heading ?([1-9])", name, re.IGNORECASE)
    return min(int(found[1]), LEVELS) if found else 0


def _outline_level(value: str) -> int:
    """Return the level of a heading of this outline level, which counts from 0 and is 9 for text."""
    return min(int(value) + 1, LEVELS) if value in set("012345678") else 0
