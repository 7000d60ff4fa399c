"""Chunking of files, and their attributes, on OpenAI's wire.

Source: the API reference of OpenAI, for the limits and for `auto`.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from turnstone.dialects.openai.strict import StrictRequest
from turnstone.domain.memory.banks import Chunking
from turnstone.domain.values.frozen import Frozen

SHORTEST_CHUNK, LONGEST_CHUNK = 100, 4_096
MOST_PAIRS, LONGEST_NAME, LONGEST_VALUE = 16, 64, 512


def whole(value: Any) -> Any:
    """Return the value of a field for a number. Raises PydanticCustomError for a text or a boolean."""
    if isinstance(value, str | bool):
        raise PydanticCustomError("int_type", "Input should be a whole number")
    return value


PairName = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Attributes = Annotated[
    dict[PairName, Annotated[StrictStr, Field(max_length=LONGEST_VALUE)] | StrictInt | StrictFloat | StrictBool],
    Field(max_length=MOST_PAIRS),
]


class AutoChunking(StrictRequest):
    """Chunks of the vector store's own length."""

    type: Literal["auto"]


class ChunkLengths(StrictRequest):
    """The length of chunks and of their overlap, in tokens."""

    max_chunk_size_tokens: Annotated[int, Field(ge=SHORTEST_CHUNK, le=LONGEST_CHUNK), BeforeValidator(whole)]
    chunk_overlap_tokens: Annotated[int, Field(ge=0, le=LONGEST_CHUNK // 2), BeforeValidator(whole)]

    @model_validator(mode="after")
    def overlap_by_half_at_most(self) -> Self:
        if self.chunk_overlap_tokens > self.max_chunk_size_tokens / 2:
            raise ValueError("chunk_overlap_tokens must be at most half of max_chunk_size_tokens")
        return self


class StaticChunking(StrictRequest):
    """Chunks of a length."""

    type: Literal["static"]
    static: ChunkLengths


ChunkingStrategy = Annotated[AutoChunking | StaticChunking, Field(discriminator="type")]


class UsedChunkLengths(Frozen):
    max_chunk_size_tokens: int
    chunk_overlap_tokens: int


class UsedChunking(Frozen):
    """The chunking of a file."""

    type: Literal["static"] = "static"
    static: UsedChunkLengths


class UnknownChunking(Frozen):
    """The chunking of a document that was not inserted as a file."""

    type: Literal["other"] = "other"


def chunking_in(strategy: AutoChunking | StaticChunking | None) -> Chunking | None:
    """Return the lengths that a request names, None for those of the store."""
    if not isinstance(strategy, StaticChunking):
        return None
    lengths = strategy.static
    return Chunking(tokens=lengths.max_chunk_size_tokens, overlap=lengths.chunk_overlap_tokens)


def used_chunking(chunking: Chunking | None) -> UsedChunking | UnknownChunking:
    """Return the chunking of a document."""
    if chunking is None:
        return UnknownChunking()
    lengths = UsedChunkLengths(max_chunk_size_tokens=chunking.tokens, chunk_overlap_tokens=chunking.overlap)
    return UsedChunking(static=lengths)
