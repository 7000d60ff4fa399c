"""The Markdown pages of the repository, taken apart: fenced blocks, prose, headings, links and named files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "shared" / "turnstone"
DOCS = ROOT / "docs"
FENCE = re.compile(r"^(```+)(.*)$")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SPAN = re.compile(r"(`+)(.+?)\1")
ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
FILE_ENDINGS = ("py", "md", "toml", "json", "yaml", "sh", "txt", "css", "js")
NAMED_FILE = re.compile(rf"[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*(?:/|\.(?:{'|'.join(FILE_ENDINGS)}))")
# files of a user, which the repository does not have
OF_USERS = frozenset({"turnstone.toml", "bench.json", "FILE.py", "weather.py", "blobs/"})


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        words: the words after the fence: the language first, then marks such as `run`.
        line: the line of the opening fence, from 1.
    """

    words: tuple[str, ...]
    text: str
    line: int

    @property
    def language(self) -> str:
        return self.words[0] if self.words else ""


class Page:
    """One page."""

    def __init__(self, path: Path, text: str | None = None) -> None:
        self.path = path
        self.text = path.read_text() if text is None else text

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(part for part in _parts(self.text) if isinstance(part, Block))

    @cached_property
    def prose(self) -> str:
        """The text without fenced blocks, whose lines are left empty; diagrams count as prose."""
        parts = []
        for part in _parts(self.text):
            if isinstance(part, str):
                parts.append(part)
            elif part.language == "mermaid":
                parts.append(f"\n{part.text}\n")
            else:
                parts.append("\n" * (part.text.count("\n") + 2))
        return "".join(parts)

    @property
    def sentences(self) -> str:
        """The prose without code, link targets and comments."""
        without_code = SPAN.sub("``", self.prose)
        return re.sub(r"\]\([^)]*\)", "]", without_code)

    @cached_property
    def links(self) -> list[str]:
        return LINK.findall(SPAN.sub("``", self.prose))

    @cached_property
    def anchors(self) -> set[str]:
        """The anchors of the headings, as GitHub names them, and those that are set by hand."""
        seen: dict[str, int] = {}
        anchors = set(ANCHOR.findall(self.prose))
        for heading in HEADING.findall(self.prose):
            slug = slug_of(heading)
            count = seen.get(slug, 0)
            anchors.add(f"{slug}-{count}" if count else slug)
            seen[slug] = count + 1
        return anchors

    @property
    def code_spans(self) -> list[str]:
        return [code.strip() for _, code in SPAN.findall(self.prose)]

    @property
    def named_files(self) -> list[str]:
        """The files and folders that the page names as code, each as written there."""
        return [code for code in self.code_spans if NAMED_FILE.fullmatch(code) and code not in OF_USERS]


def slug_of(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.replace("`", ""))
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def pages() -> tuple[Page, ...]:
    """Return every page: README, CONTRIBUTING, CHANGELOG and those of docs."""
    at_root = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")]
    return tuple(Page(path) for path in (*at_root, *sorted(DOCS.rglob("*.md"))))


def page(name: str) -> Page:
    return Page(ROOT / name)


def table_keys(page: Page, pattern: str) -> list[str]:
    """Return the names in the first cells of the page's table rows that match the pattern, in order."""
    rows = re.findall(r"^\| *([^|]+?) *\|", page.prose, re.MULTILINE)
    return [code for cell in rows for _, code in SPAN.findall(cell) if re.fullmatch(pattern, code)]


def _parts(text: str) -> Iterator[str | Block]:
    """Yield the text between the blocks, and the blocks."""
    fence, words, begun, lines = "", "", 0, list[str]()
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        found = FENCE.match(line.rstrip("\n"))
        if not fence and found:
            yield "".join(lines)
            fence, words, begun, lines = found[1], found[2], number, []
        elif fence and line.strip() == fence:
            yield Block(tuple(words.split()), "".join(lines), begun)
            fence, lines = "", []
        else:
            lines.append(line)
    assert not fence, f"a block that begins in line {begun} has no end"
    yield "".join(lines)
