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


class SegmentQuestion(NamedTuple):
    """A question to the segments of a bank.

    Attributes:
        terms: the analysed text, as `memory/terms` returns it; empty for vectors alone.
        vectors: of the question for each segment, because several banks may have several models; None for keywords
            alone.
        limit: the number of best hits of either kind.
        matches: whether a chunk is a hit, by the values of a filter: its metadata with the attributes of its document,
            which win. None for all.
    """

    terms: Sequence[str]
    vectors: Sequence[Sequence[float] | None]
    limit: int
    matches: Callable[[Mapping[str, Any]], bool] | None = None


class SegmentHit(NamedTuple):
    """A chunk of a segment; a score is 0 where its half of the search did not find it.

    The score by keywords is the weighted part of the question that the chunk covers, below 1.

    Attributes:
        segment: the index among the segments of the search.
        position: of the chunk in its segment.
    """

    segment: int
    position: int
    chunk_id: str
    keyword_score: float
    vector_score: float


class SegmentRow(NamedTuple):
    """A chunk as its segment describes it: its document with that one's attributes, and the metadata of the chunk."""

    document_id: str
    metadata: Mapping[str, Any]
    attributes: Mapping[str, Any]


class OpenSegment(Protocol):
    """A segment, loaded: wholly, or without some of its documents, whose chunks then do not count."""

    @property
    def chunks(self) -> int:
        """The number of chunks that count."""

    @property
    def terms(self) -> int:
        """The number of their terms, repeated ones included."""

    def positions(self) -> Sequence[int]:
        """Return the positions of the chunks that count, ascending."""

    def row(self, position: int) -> SegmentRow:
        """Return the description of a chunk."""

    def positions_of(self, document_id: str) -> Sequence[int]:
        """Return the positions of the document's chunks that count, ascending."""

    def vector(self, position: int) -> Sequence[float] | None:
        """Return the vector of a chunk, of the length 1, which makes the same segment again; None without one."""

    def documents_among(self, document_ids: Sequence[str]) -> Sequence[str]:
        """Return those documents that the segment contains, counted or not."""

    def without(self, document_ids: Collection[str]) -> OpenSegment:
        """Return the segment without these documents. Both share their memory."""


class Segments(Protocol):
    """Builds, opens and searches segments. The same chunks make the same bytes."""

    def build(self, chunks: Sequence[DocumentChunk], attributes: Mapping[str, Mapping[str, Any]]) -> bytes:
        """Return the segment of these chunks, in this order; texts are indexed, not kept.

        Args:
            attributes: of documents, by id; those without any may be left out.
        """

    def open(self, body: bytes) -> OpenSegment:
        """Return the loaded segment. Raises ValueError for a body that is none, or of an unknown version."""

    def merge(self, segments: Sequence[OpenSegment]) -> bytes:
        """Return one segment of the chunks of all that count, in their order."""

    def layered(self, layers: Sequence[tuple[OpenSegment, Collection[str]]]) -> Sequence[OpenSegment]:
        """Return the segments, the oldest first, each without the documents that a later layer contains or drops.

        Args:
            layers: each segment with the documents that it drops from older ones.
        """

    def hits(self, segments: Sequence[OpenSegment], question: SegmentQuestion) -> list[SegmentHit]:
        """Return the best `limit` hits by keywords and the best `limit` by vector, each once, with both scores.

        Document frequencies and lengths are those of all the segments, so that several score as one. Of equal scores
        at the limit, those first in the order of their chunks' ids are hits.
        """


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
