"""Indexes of memory banks: immutable segments, each of some chunks; and the memory of a turn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from turnstone.domain.agents.agents import AgentConfig
    from turnstone.domain.memory.documents import DocumentChunk
    from turnstone.domain.memory.lent_banks import LentBanks
    from turnstone.domain.memory.memory_query import MemoryQuery, Retrieved
    from turnstone.domain.turns.retrieval import QuerySource, TurnMemory
    from turnstone.domain.values.cancellation import StopSignal


class Corpus(NamedTuple):
    """Counts over all parts of a bank, which make the scores of its parts comparable.

    Attributes:
        chunks: the number of chunks.
        terms: the number of their terms, repeated ones included.
        frequencies: the number of chunks that contain the term, of each term of the question.
    """

    chunks: int
    terms: int
    frequencies: Mapping[str, int]


class SegmentQuestion(NamedTuple):
    """A question to one segment.

    Attributes:
        terms: the analysed text, as `memory/terms` returns it; empty for vectors alone.
        vector: None for keywords alone.
        limit: the number of best hits of either kind.
        is_kept: whether a chunk counts, by its document's id and the values of a filter: its metadata with the
            attributes of its document, which win; None for all.
    """

    terms: Sequence[str]
    vector: Sequence[float] | None
    corpus: Corpus
    limit: int
    is_kept: Callable[[str, Mapping[str, Any]], bool] | None = None


class SegmentHit(NamedTuple):
    """A chunk of a segment; a score is 0 where its half of the search did not find it."""

    position: int
    chunk_id: str
    keyword_score: float
    vector_score: float


class SegmentRow(NamedTuple):
    """A chunk as its segment describes it: its document with that one's attributes, and the metadata of the chunk."""

    document_id: str
    metadata: Mapping[str, Any]
    attributes: Mapping[str, Any]

    @property
    def values(self) -> Mapping[str, Any]:
        """The values that filters compare."""
        return {**self.metadata, **self.attributes}


class OpenSegment(Protocol):
    """A segment, loaded."""

    @property
    def chunks(self) -> int:
        """The number of chunks."""

    @property
    def terms(self) -> int:
        """The number of their terms, repeated ones included."""

    def document_ids(self) -> Sequence[str]:
        """Return the document of each chunk, in the order of positions."""

    def row(self, position: int) -> SegmentRow:
        """Return the description of a chunk."""

    def vector(self, position: int) -> Sequence[float] | None:
        """Return the vector of a chunk, of the length 1, which makes the same segment again; None without one."""

    def frequencies(self, terms: Collection[str], dropped: Collection[str] = ()) -> Mapping[str, int]:
        """Return the number of chunks that contain each term, without the chunks of dropped documents."""

    def counted(self, dropped: Collection[str]) -> tuple[int, int]:
        """Return `chunks` and `terms` without the chunks of dropped documents."""

    def hits(self, question: SegmentQuestion) -> list[SegmentHit]:
        """Return the best `limit` hits by keywords and the best `limit` by vector, each once, with both scores."""


class Segments(Protocol):
    """Builds and opens segments. The same chunks make the same bytes."""

    def build(self, chunks: Sequence[DocumentChunk], attributes: Mapping[str, Mapping[str, Any]]) -> bytes:
        """Return the segment of these chunks, in this order; texts are indexed, not kept.

        Args:
            attributes: of documents, by id; those without any may be left out.
        """

    def open(self, body: bytes) -> OpenSegment:
        """Return the loaded segment. Raises ValueError for a body that is none, or of an unknown version."""

    def merge(self, parts: Sequence[tuple[OpenSegment, Collection[str]]]) -> bytes:
        """Return one segment of the chunks of several, without each part's dropped documents, in their order."""


class QueryTools(Protocol):
    """The tools that a turn may use for a query to memory."""

    def query_by(self, name: str, values: Mapping[str, Any], key: str, stop: StopSignal | None) -> str:
        """Return the text of the answer of the tool named as `group/tool`, called with the values that it takes.

        The key is the same whenever the call is run again after a crash.
        Raises Unsupported without such a tool, ToolgroupUnavailable for one without an answer, and StoreUnavailable.
        """


class Retrieval(Protocol):
    """The memory of one turn, read once, before its first inference.

    Attributes:
        input_shields: the shields that judge the query.
        output_shields: the shields that judge the context before it is inserted.
    """

    input_shields: tuple[str, ...]
    output_shields: tuple[str, ...]

    def query(self, source: QuerySource) -> MemoryQuery:
        """Return the query of the turn.

        Raises ModelError, ToolgroupUnavailable, InvalidRequest and StoreUnavailable.
        """

    def retrieve(self, query: str) -> Retrieved:
        """Return the context that the banks have for the query.

        The turn's attachments are stored first; to do so again changes nothing.
        Raises ModelError, InvalidRequest, ContentLost and StoreUnavailable.
        """


class TurnMemories(Protocol):
    """The memory of turns."""

    def refuse(self, tenant: str, config: AgentConfig, banks: LentBanks) -> None:
        """Raise InvalidRequest, naming the field, for memory that no turn of the configuration can read."""

    def of(self, turn: TurnMemory, tools: QueryTools) -> Retrieval:
        """Return the memory of a turn that has some, see `reads_memory`."""
