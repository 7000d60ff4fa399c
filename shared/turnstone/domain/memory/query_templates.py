"""Templates of queries to memory: texts with values, loops and conditions, of bounded work and output.

The syntax is a part of Jinja's: `{{ path }}`, `{% for name in path %}`, `{% if path %}` with `not`, `==` or `!=`,
`{% else %}`, `{# comment #}`, and `-` inside a tag to strip the white space next to it. A path reads plain values:
`messages[-1].content`. There are no filters, no calls and no attributes of objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic_core import to_json

MOST_TEMPLATE_CHARACTERS = 16_384
MOST_OUTPUT_CHARACTERS = 65_536
MOST_NODES = 20_000  # visited while one query is made
MOST_LEVELS = 8
MOST_NESTED_LOOPS = 2
_CLOSING = {"{{": "}}", "{%": "%}", "{#": "#}"}
_PATH = re.compile(r"""[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[-?\d{1,6}\]|\["[^"\]]*"\]|\['[^'\]]*'\])*""", re.ASCII)
_PARTS = re.compile(r"""\.?([A-Za-z_]\w*)|\[(-?\d+)\]|\[["']([^\]]*)["']\]""", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TEXT = re.compile(r'"([^"]*)"|' r"'([^']*)'")

Path = tuple[str | int, ...]


class TooMuchWork(Exception):
    """A template visits more nodes, or makes more text, than one query may."""


class Shown(NamedTuple):
    """A value in the text."""

    path: Path


class Loop(NamedTuple):
    name: str
    path: Path
    body: tuple[Node, ...]


class Branch(NamedTuple):
    """A condition; `other` is None for a value alone, a path or a text for a comparison."""

    path: Path
    is_negated: bool
    other: Path | str | None
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]


Node = str | Shown | Loop | Branch


class Template(NamedTuple):
    """A parsed template."""

    nodes: tuple[Node, ...]

    def rendered(self, values: Mapping[str, Any]) -> str:
        """Return the text with these values: texts, numbers, booleans, lists and mappings. Raises TooMuchWork."""
        return _Rendering().text_of(self.nodes, values)


def parsed_template(text: str) -> Template:
    """Return the template. Raises ValueError, which names the wrong tag."""
    if len(text) > MOST_TEMPLATE_CHARACTERS:
        raise ValueError(f"a template has {MOST_TEMPLATE_CHARACTERS} characters at most")
    return Template(_Parsing(text).nodes())


class _Tag(NamedTuple):
    kind: str
    words: str

    @property
    def shown(self) -> str:
        return f"{self.kind} {self.words[:80]} {_CLOSING[self.kind]}"


class _Parsing:
    def __init__(self, text: str) -> None:
        self._pieces = _pieces(text)

    def nodes(self) -> tuple[Node, ...]:
        nodes, end = self._until((), 0, 0)
        assert end is None  # noqa: S101 - without expected ends the text's is the only one
        return nodes

    def _until(self, ends: Sequence[str], level: int, loops: int) -> tuple[tuple[Node, ...], str | None]:
        """Return the nodes before one of these tags, and that tag; None at the end of the text."""
        nodes: list[Node] = []
        for piece in self._pieces:
            if isinstance(piece, str):
                nodes.append(piece)
            elif piece.kind == "{{":
                nodes.append(Shown(_path(piece.words, piece)))
            elif piece.words in ends:
                return tuple(nodes), piece.words
            else:
                nodes.append(self._block(piece, level + 1, loops))
        if ends:
            raise ValueError(f"a tag {{% {ends[-1]} %}} is missing")
        return tuple(nodes), None

    def _block(self, tag: _Tag, level: int, loops: int) -> Node:
        if level > MOST_LEVELS:
            raise ValueError(f"blocks are nested {MOST_LEVELS} deep at most")
        word, _, rest = tag.words.partition(" ")
        if word == "for":
            if loops == MOST_NESTED_LOOPS:
                raise ValueError(f"loops are nested {MOST_NESTED_LOOPS} deep at most")
            name, _, path = rest.partition(" in ")
            if not _NAME.fullmatch(name.strip()):
                raise _wrong(tag)
            body, _ = self._until(("endfor",), level, loops + 1)
            return Loop(name.strip(), _path(path, tag), body)
        if word == "if":
            return self._choice(rest, tag, level, loops)
        raise _wrong(tag)

    def _choice(self, condition: str, tag: _Tag, level: int, loops: int) -> Branch:
        given = condition.strip()
        is_negated = given.startswith("not ")
        left, sign, right = given.removeprefix("not ").partition("==")
        if not sign:
            left, sign, right = left.partition("!=")
            is_negated ^= bool(sign)
        other: Path | str | None = None
        if sign:
            quoted = _TEXT.fullmatch(right.strip())
            other = (quoted[1] or quoted[2] or "") if quoted else _path(right, tag)
        body, end = self._until(("else", "endif"), level, loops)
        otherwise: tuple[Node, ...] = ()
        if end == "else":
            otherwise, _ = self._until(("endif",), level, loops)
        return Branch(_path(left, tag), is_negated, other, body, otherwise)


class _Rendering:
    """One query in the making, and the rest of its budget."""

    def __init__(self) -> None:
        self._nodes_left = MOST_NODES
        self._characters_left = MOST_OUTPUT_CHARACTERS

    def text_of(self, nodes: Sequence[Node], values: Mapping[str, Any]) -> str:
        return "".join(self._parts(nodes, values))

    def _parts(self, nodes: Sequence[Node], values: Mapping[str, Any]) -> Iterator[str]:
        for node in nodes:
            self._nodes_left -= 1
            if self._nodes_left < 0:
                raise TooMuchWork(f"it visits more than {MOST_NODES} tags and texts")
            match node:
                case str():
                    yield self._counted(node)
                case Shown(path):
                    yield self._counted(_as_text(_value(path, values), self._characters_left))
                case Loop(name, path, body):
                    for item in _items(_value(path, values)):
                        self._nodes_left -= 1
                        if self._nodes_left < 0:
                            raise TooMuchWork(f"it visits more than {MOST_NODES} tags and texts")
                        yield from self._parts(body, {**values, name: item})
                case Branch(path, is_negated, other, body, otherwise):
                    yield from self._parts(body if _holds(path, other, values) != is_negated else otherwise, values)

    def _counted(self, text: str) -> str:
        self._characters_left -= len(text)
        if self._characters_left < 0:
            raise TooMuchWork(f"it makes more than {MOST_OUTPUT_CHARACTERS} characters")
        return text


def _pieces(text: str) -> Iterator[str | _Tag]:
    """Yield the texts and tags, without comments."""
    at, is_stripped = 0, False
    while at < len(text):
        start = min((found for kind in _CLOSING if (found := text.find(kind, at)) >= 0), default=len(text))
        between = text[at:start]
        if is_stripped:
            between = between.lstrip()
        kind = text[start : start + 2]
        if not kind:
            yield between
            return
        end = text.find(_CLOSING[kind], start + 2)
        if end < 0:
            raise ValueError(f"the tag {text[start : start + 40]!r} has no end {_CLOSING[kind]}")
        inside = text[start + 2 : end]
        if inside.startswith("-"):
            between, inside = between.rstrip(), inside[1:]
        is_stripped = inside.endswith("-")
        if between:
            yield between
        if kind != "{#":
            yield _Tag(kind, " ".join(inside.removesuffix("-").split()))
        at = end + 2


def _path(text: str, tag: _Tag) -> Path:
    given = text.strip()
    if not _PATH.fullmatch(given):
        raise _wrong(tag)
    return tuple(
        name or (int(number) if number else key) for name, number, key in (m.groups() for m in _PARTS.finditer(given))
    )


def _value(path: Path, values: Any) -> Any:
    """Return the value, None where there is none."""
    found = values
    for part in path:
        if isinstance(found, Mapping):
            found = found.get(part)
        elif isinstance(found, list | tuple) and isinstance(part, int) and -len(found) <= part < len(found):
            found = found[part]
        else:
            return None
    return found


def _items(value: Any) -> Sequence[Any]:
    if isinstance(value, Mapping):
        return list(value)
    return value if isinstance(value, list | tuple) else ()


def _holds(path: Path, other: Path | str | None, values: Mapping[str, Any]) -> bool:
    found = _value(path, values)
    if other is None:
        return bool(found)
    expected = other if isinstance(other, str) else _value(other, values)
    return bool(found == expected)


def _as_text(value: Any, most: int) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list | tuple | Mapping) and len(value) > most:
        raise TooMuchWork(f"it makes more than {MOST_OUTPUT_CHARACTERS} characters")
    return to_json(value).decode()


def _wrong(tag: _Tag) -> ValueError:
    allowed = "{{ path }}, {% for name in path %}, {% if path %} and {% else %}"
    return ValueError(f"{tag.shown!r} can't be read; a template has {allowed} alone")
