"""Edges of graph banks that a model reads from texts, where the operator has chosen one for that."""

from __future__ import annotations

from collections.abc import Callable

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import InvalidRequest, ModelFailed
from turnstone.domain.memory.banks import Chunking
from turnstone.domain.memory.documents import Edge
from turnstone.domain.memory.texts.chunking import chunks_of
from turnstone.domain.memory.texts.edges import MOST_EDGES, edges_among
from turnstone.domain.provider_data import ProviderData

MOST_PARTS = 32  # of a document, each a request to the model
INSTRUCTIONS = """\
List the facts that the text states about named people, things and places. Write one JSON object per line:
{"subject": "…", "relation": "…", "object": "…"}
Use the names of the text, and short relations such as "works for". Write nothing else; if the text states none, write \
nothing.

Text:
"""
Answer = Callable[[Caller, str, str, ProviderData], str]


class EdgeMaking:
    def __init__(self, model: str | None, answer: Answer) -> None:
        """Use a model, None for none. `answer` returns its text, by caller, model, prompt and provider data."""
        self._model = model
        self._answer = answer

    @property
    def is_configured(self) -> bool:
        return self._model is not None

    def edges(
        self,
        caller: Caller,
        text: str,
        chunking: Chunking,
        provider_data: ProviderData,
        location: tuple[str | int, ...],
    ) -> tuple[Edge, ...]:
        """Return the edges that the model finds in the text, each once.

        Raises:
            InvalidRequest: the text is too long.
            ModelError: the model failed, or its answer to a part is not empty, but has no edges.
        """
        model = self._model or ""
        parts = list(chunks_of(text, chunking))
        field = ".".join(map(str, location))
        if len(parts) > MOST_PARTS:
            problem = f"must have at most {MOST_PARTS} chunks, not {len(parts)}; split the document"
            raise InvalidRequest(f"{field}: {problem}", location)
        found: dict[Edge, None] = {}
        for part in parts:
            lines = self._answer(caller, model, INSTRUCTIONS + part.text, provider_data)
            edges = edges_among(lines)
            if not edges and lines.strip():
                raise ModelFailed(f"model {model!r} answered a text of a graph bank without edges")
            found |= dict.fromkeys(edges)
        return tuple(found)[:MOST_EDGES]
