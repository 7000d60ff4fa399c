"""The double of a turn's memory: it follows its script, and keeps its queries."""

from __future__ import annotations

from dataclasses import dataclass, field

from turnstone.domain.memory.memory_query import MemoryQuery, Retrieved
from turnstone.domain.turns.retrieval import QuerySource
from turnstone.domain.values.content import text_of


@dataclass
class ScriptedRetrieval:
    """Memory that has one context for every query.

    Attributes:
        found: the context, or the error that is raised instead.
        written: the query, or the error that is raised instead; None for the text of the messages.
    """

    found: str | BaseException = "knots breed in the north"
    written: MemoryQuery | BaseException | None = None
    input_shields: tuple[str, ...] = ()
    output_shields: tuple[str, ...] = ()
    bank_ids: tuple[str, ...] = ("shore", "sea")
    sources: list[QuerySource] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)

    def query(self, source: QuerySource) -> MemoryQuery:
        self.sources.append(source)
        if isinstance(self.written, BaseException):
            raise self.written
        return self.written or MemoryQuery(text=" ".join(text_of(message.content) for message in source.messages))

    def retrieve(self, query: str) -> Retrieved:
        self.queries.append(query)
        if isinstance(self.found, BaseException):
            raise self.found
        return Retrieved(self.bank_ids, self.found)
