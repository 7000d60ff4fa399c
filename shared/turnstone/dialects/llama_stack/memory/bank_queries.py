"""Queries of memory banks on the Llama Stack wire.

Source: the types of `llama-stack-client` 0.0.63 and 0.1.0, whose `params` are free: `max_chunks` and `score_threshold`
are those of a server of that time, the others of our own. Of requests, unknown fields are ignored.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from turnstone.dialects.llama_stack.memory.documents import document_named_by, metadata_of
from turnstone.dialects.llama_stack.memory.vector_io import (
    ByNumber,
    QueryParams,
    SearchedContent,
    question_in,
)
from turnstone.domain.memory.questions import BankQuery, Hit
from turnstone.domain.values.frozen import Frozen, Many, NullMeansDefault

MOST_NAMES = 100
MOST_DEPTH = 3
ManyNames = Annotated[Many[str], Field(max_length=MOST_NAMES)]


class BankQueryParams(QueryParams):
    keys: ManyNames = ()
    entities: ManyNames = ()
    depth: Annotated[int, Field(ge=1, le=MOST_DEPTH), ByNumber] | None = None


class QueryMemoryBank(NullMeansDefault):
    query: SearchedContent
    params: BankQueryParams = BankQueryParams.model_construct()

    def to_query(self) -> BankQuery:
        """Return the query. Raises Unsupported for an image, InvalidRequest without a text or for a wrong filter."""
        params = self.params
        is_named = bool(params.keys or params.entities)
        question = params.to_question(question_in(self.query, ("query",), may_be_empty=is_named))
        given = frozenset(params.model_fields_set)
        return BankQuery(question, params.keys, params.entities, params.depth, given)


class RecalledChunk(Frozen):
    content: str
    document_id: str
    token_count: int
    metadata: dict[str, Any]


class RecalledChunks(Frozen):
    chunks: tuple[RecalledChunk, ...]
    scores: tuple[float, ...]


def recalled_chunks(hits: Sequence[Hit]) -> RecalledChunks:
    """Return the hits as chunks and their scores."""
    return RecalledChunks(
        chunks=tuple(
            RecalledChunk(
                content=hit.chunk.text,
                document_id=document_named_by(hit),
                token_count=hit.chunk.tokens,
                metadata=metadata_of(hit),
            )
            for hit in hits
        ),
        scores=tuple(hit.score for hit in hits),
    )
