"""Statements of graph banks: read from JSON, named entities, and the sentences of statements.

Entities whose names differ only in case, marks of compatibility or white space are one.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple

from turnstone.domain.memory.documents import DocumentChunk, Edge
from turnstone.domain.memory.texts.chunking import count_tokens

MOST_EDGES = 10_000  # of a document
LONGEST_NAME = 1_024  # characters
LONGEST_TEXT = 32_768
JSON_TYPES = ("application/json", "application/x-ndjson", "application/jsonl", "application/x-jsonlines")
_FIELDS = ("subject", "relation", "object")


class NotEdges(Exception):
    """The text is no list of edges; the message names the wrong part."""


class FoundEdge(NamedTuple):
    """An edge of a document, with its position among the document's edges."""

    edge: Edge
    document_id: str
    position: int

    @property
    def chunk(self) -> DocumentChunk:
        """The edge as a chunk, whose text is the sentence."""
        return chunk_of(self.document_id, self.position, self.edge)


def entity_key(name: str) -> str:
    """Return the name that all spellings of an entity have in common."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def sentence_of(edge: Edge) -> str:
    """Return the edge as a sentence."""
    return edge.text or f"{edge.subject} {edge.relation} {edge.object}."


def chunk_of(document_id: str, position: int, edge: Edge) -> DocumentChunk:
    """Return the edge as a chunk of its document."""
    sentence = sentence_of(edge)
    metadata = {"subject": edge.subject, "relation": edge.relation, "object": edge.object}
    return DocumentChunk(document_id, position, sentence, count_tokens(sentence), metadata)


def is_json(mime_type: str) -> bool:
    """Return whether a document of this type must be a list of edges."""
    return mime_type.partition(";")[0].strip().lower() in JSON_TYPES


def seems_json(text: str) -> bool:
    """Return whether a text is meant as JSON."""
    return text.lstrip()[:1] in ("[", "{")


def edges_in(text: str) -> tuple[Edge, ...]:
    """Return the edges of a JSON list, of an object with the list `edges`, or of lines of JSON, each edge once.

    Raises:
        NotEdges: the text is neither, or has too many edges.
    """
    edges = tuple(dict.fromkeys(_edge(given, number) for number, given in enumerate(_given(text))))
    if len(edges) > MOST_EDGES:
        raise NotEdges(f"has more than {MOST_EDGES} edges; split it")
    return edges


def edges_among(text: str) -> tuple[Edge, ...]:
    """Return the edges in the lines of a model's answer, without lines that are none."""
    found: dict[Edge, None] = {}
    for line in text.splitlines():
        try:
            found |= dict.fromkeys(edges_in(line.strip().rstrip(",")))
        except NotEdges:
            continue
    return tuple(found)


def _given(text: str) -> Iterator[Any]:
    try:
        whole = json.loads(text)
    except ValueError:
        yield from _lines(text)
        return
    except RecursionError:
        raise NotEdges("is nested too deep") from None
    if isinstance(whole, dict) and isinstance(whole.get("edges"), list) and not whole.keys() - {"edges"}:
        whole = whole["edges"]
    yield from whole if isinstance(whole, list) else [whole]


def _lines(text: str) -> Iterator[Any]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            raise NotEdges(f"line {number} is no JSON") from None


def _edge(given: Any, number: int) -> Edge:
    if not isinstance(given, dict):
        raise NotEdges(f"edge {number} is no object")
    if unknown := sorted(given.keys() - {*_FIELDS, "text"}):
        raise NotEdges(f"edge {number} has {unknown[0]!r}, which is no field of an edge")
    names = [_name(given, field, number) for field in _FIELDS]
    text = given.get("text")
    if text is not None and not (isinstance(text, str) and len(text) <= LONGEST_TEXT):
        raise NotEdges(f"edge {number}: 'text' must be a text of at most {LONGEST_TEXT} characters")
    return Edge(names[0], names[1], names[2], text or None)


def _name(given: dict[str, Any], field: str, number: int) -> str:
    value = given.get(field)
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_NAME:
        raise NotEdges(f"edge {number}: {field!r} must be a text of 1 to {LONGEST_NAME} characters")
    return value.strip()
