"""Chunks of vector databases on the Llama Stack wire.

Source: the types of `llama-stack-client` 0.2.12; of requests, unknown fields are ignored, nulls stand for the default.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from pydantic import Strict as ByType
from pydantic_core import PydanticCustomError

from turnstone.dialects.llama_stack.memory.documents import metadata_of
from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.domain.memory.filters import parsed
from turnstone.domain.memory.insertions import GivenChunk
from turnstone.domain.memory.questions import (
    LONGEST_QUESTION,
    BankQuestion,
    Hit,
    ReciprocalRank,
    SearchMode,
    Weighted,
    check_question,
)
from turnstone.domain.values.content import Content, ImageItem, items_of, text_of
from turnstone.domain.values.frozen import Frozen, JsonObject, JsonValue, Many, NullMeansDefault

MOST_CHUNKS_FOUND = 1_000
MOST_TOKENS = 1_000_000


def _whole(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return value


ByNumber = BeforeValidator(_whole)  # follows the limits, which it would hide from the JSON schema
Whole = Annotated[int, ByNumber]
Number = Annotated[float, ByType()]
SearchedContent = Annotated[Content, Field(description=f"A text of {LONGEST_QUESTION:,} characters at most.")]


class InsertedChunk(NullMeansDefault):
    content: Content
    metadata: JsonObject = {}
    embedding: Many[Number] | None = None

    def to_given(self, index: int) -> GivenChunk:
        """Return the chunk. Raises Unsupported for an image."""
        document_id = self.metadata.get("document_id")
        return GivenChunk(
            text_in(self.content, ("chunks", index, "content")),
            self.metadata,
            document_id if isinstance(document_id, str) else "",
            self.embedding,
        )


class InsertChunks(NullMeansDefault):
    vector_db_id: str
    chunks: Many[InsertedChunk]
    ttl_seconds: int | None = None

    def to_given(self) -> list[GivenChunk]:
        """Return the chunks. Raises Unsupported for a time to live, or an image."""
        if self.ttl_seconds is not None:
            raise Unsupported("ttl_seconds: chunks have no time to live on this server; leave it out", ("ttl_seconds",))
        return [chunk.to_given(index) for index, chunk in enumerate(self.chunks)]


class RrfRanker(NullMeansDefault):
    type: Literal["rrf"]
    impact_factor: Number = Field(default=60.0, gt=0, le=1e6)


class WeightedRanker(NullMeansDefault):
    type: Literal["weighted"]
    alpha: Number = Field(default=0.5, ge=0, le=1)


class QueryParams(NullMeansDefault):
    max_chunks: Whole = Field(default=3, ge=1, le=MOST_CHUNKS_FOUND)
    score_threshold: Number = Field(default=0.0, ge=0, le=1)
    mode: Literal["vector", "keyword", "hybrid"] = "hybrid"
    ranker: Annotated[RrfRanker | WeightedRanker, Field(discriminator="type")] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS), ByNumber] | None = None
    filters: JsonValue = None

    @property
    def chosen_mode(self) -> SearchMode | None:
        """The mode, None if it was left out."""
        return self.mode if "mode" in self.model_fields_set else None

    def to_question(self, text: str) -> BankQuestion:
        """Return the question of this text. Raises InvalidRequest for a wrong filter."""
        return BankQuestion(
            text,
            None,
            self.chosen_mode,
            self.max_chunks,
            None if self.filters is None else parsed(self.filters, ("params", "filters")),
            ranker_of(self.ranker),
            self.score_threshold,
            self.max_tokens,
        )


class QueryChunks(NullMeansDefault):
    vector_db_id: str
    query: SearchedContent
    params: QueryParams = QueryParams.model_construct()

    def to_question(self) -> BankQuestion:
        """Return the question. Raises Unsupported for an image, InvalidRequest without a text or for a wrong filter."""
        return self.params.to_question(question_in(self.query, ("query",)))


class FoundChunk(Frozen):
    content: str
    metadata: dict[str, Any]
    embedding: tuple[float, ...] | None = None


class FoundChunks(Frozen):
    chunks: tuple[FoundChunk, ...]
    scores: tuple[float, ...]


def found_chunks(hits: Sequence[Hit]) -> FoundChunks:
    """Return the hits as chunks and their scores, the best first."""
    return FoundChunks(
        chunks=tuple(FoundChunk(content=hit.chunk.text, metadata=metadata_of(hit)) for hit in hits),
        scores=tuple(hit.score for hit in hits),
    )


def ranker_of(given: RrfRanker | WeightedRanker | None) -> Weighted | ReciprocalRank:
    """Return the ranker of a request."""
    match given:
        case RrfRanker():
            return ReciprocalRank(given.impact_factor)
        case WeightedRanker():
            return Weighted(given.alpha)
    return Weighted()


def question_in(content: Content, location: tuple[str | int, ...], *, may_be_empty: bool = False) -> str:
    """Return the text of a question. Raises Unsupported for an image, InvalidRequest without a text or if too long."""
    text = text_in(content, location, may_be_empty=may_be_empty)
    check_question(text, location)
    return text


def text_in(content: Content, location: tuple[str | int, ...], *, may_be_empty: bool = False) -> str:
    """Return the text of a content. Raises Unsupported for an image, InvalidRequest without a text."""
    name = ".".join(map(str, location))
    if any(isinstance(item, ImageItem) for item in items_of(content)):
        raise Unsupported(f"{name}: memory banks search texts only; leave images out", location)
    text = text_of(content)
    if not (text.strip() or may_be_empty):
        raise InvalidRequest(f"{name}: must have a text", location)
    return text
