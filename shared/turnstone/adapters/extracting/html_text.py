"""HTML as text: headings as in Markdown, a line for each block and for each row of a table."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from turnstone.adapters.extracting.text_decoding import MARKS, WESTERN, codec_of
from turnstone.adapters.extracting.text_lines import LINE, PARAGRAPH, DocumentLines

HIDDEN = frozenset(("script", "style", "template", "noscript", "svg", "math", "iframe", "object", "canvas", "datalist"))
PARAGRAPHS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "body", "details", "dialog", "div", "dl", "fieldset", "figure"),
        *("footer", "form", "header", "hr", "main", "nav", "ol", "p", "pre", "section", "table", "title", "ul"),
    )
)
LINES = frozenset(("br", "caption", "dd", "dt", "figcaption", "legend", "li", "option", "summary", "tr"))
HEADINGS = {f"h{level}": level for level in range(1, 7)}
CELLS = frozenset(("td", "th"))
PIECE_CHARACTERS = 65_536
_META_CHARSET = re.compile(rb"<meta\s[^>]*?charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
META_WITHIN = 1024


def html_text(body: bytes, charset: str | None) -> str:
    """Return the visible text of a page. Raises ExtractionFailed."""
    lines = _Lines()
    text = decoded(body, charset)
    for begin in range(0, len(text), PIECE_CHARACTERS):
        lines.feed(text[begin : begin + PIECE_CHARACTERS])
    lines.close()
    return lines.text.finished()


def decoded(body: bytes, charset: str | None) -> str:
    """Return a page as characters: by its mark, as declared outside or inside, else UTF-8, else windows-1252.

    Source: the HTML Standard, "Determining the character encoding", with UTF-8 before its default.
    """
    for mark, encoding in MARKS:
        if body.startswith(mark):
            return body.decode(encoding, "replace")
    declared = _META_CHARSET.search(body, 0, META_WITHIN)
    label = charset or (declared[1].decode() if declared else "")
    if label:
        encoding = codec_of(label)
        is_contradiction = charset is None and encoding.startswith("utf-16")
        return body.decode("utf-8" if is_contradiction else encoding, "replace")
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body.decode(WESTERN, "replace")


class _Lines(HTMLParser):
    """Writes the visible text of a page, as it is read, into lines."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = DocumentLines()
        self._hidden: list[str] = []
        self._preformatted = 0
        self._is_first_cell = True

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a line where an element begins one."""
        if tag in HIDDEN:
            self._hidden.append(tag)
        elif tag in HEADINGS:
            self.text.begin_heading(HEADINGS[tag])
        elif tag in PARAGRAPHS:
            self.text.begin_paragraph()
            self._preformatted += tag == "pre"
        elif tag == "li":
            self.text.begin_line("- ")
        elif tag == "tr":
            self.text.begin_row()
            self._is_first_cell = True
        elif tag in CELLS:
            self.text.begin_cell(self._is_first_cell)
            self._is_first_cell = False
        elif tag in LINES:
            self.text.begin_line()
        elif tag == "img" and not self._hidden:
            self.text.add(f" {dict(attrs).get('alt') or ''} ")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a line where an element begins one; a hidden one contains nothing."""
        if tag not in HIDDEN:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """End a line where an element ends one."""
        if tag in self._hidden:
            while self._hidden.pop() != tag:
                pass
        elif tag in CELLS:
            self.text.end_cell()
        elif tag in HEADINGS or tag in PARAGRAPHS:
            self.text.end_block(PARAGRAPH)
            if tag == "pre":
                self._preformatted = max(0, self._preformatted - 1)
        elif tag in LINES:
            self.text.end_block(LINE)

    def handle_data(self, data: str) -> None:
        """Add text."""
        if self._hidden:
            return
        if self._preformatted:
            self.text.add_preformatted(data)
        else:
            self.text.add(data)
