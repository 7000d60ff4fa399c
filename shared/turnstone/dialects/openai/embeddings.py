"""OpenAI's embeddings: the request, and the reply.

Source: the OpenAI API reference; base64 is of single-precision floats, little-endian.
"""

import sys
from array import array
from base64 import b64encode
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator
from pydantic_core import to_json

from turnstone.dialects.json_objects import after_entries, before_entries
from turnstone.dialects.openai.strict import OpenBody
from turnstone.domain.models.inference import TextsToEmbed
from turnstone.domain.models.requests import Embedded
from turnstone.domain.values.frozen import Frozen, Many
from turnstone.domain.values.numbers import Count

MAX_TEXTS = 10_000
TOKENS = "send texts, not tokens: this server does not know the model's tokenizer"


class CreateEmbedding(OpenBody):
    model: str
    input: str | Annotated[Many[str], Field(min_length=1, max_length=MAX_TEXTS)]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Count | None = None
    user: str | None = None

    @field_validator("input", mode="before")
    @classmethod
    def refuse_tokens(cls, value: Any) -> Any:
        if isinstance(value, list) and value and isinstance(value[0], int | list):
            raise ValueError(TOKENS)
        return value

    def to_texts(self) -> TextsToEmbed:
        texts = (self.input,) if isinstance(self.input, str) else self.input
        extras = dict(self.further) if self.user is None else {**self.further, "user": self.user}
        return TextsToEmbed(self.model, texts, self.dimensions, extras=extras)


class Embedding(Frozen):
    object: Literal["embedding"] = "embedding"
    index: int
    embedding: tuple[float, ...] | str


class EmbeddingUsage(Frozen):
    prompt_tokens: int
    total_tokens: int


class EmbeddingList(Frozen):
    object: Literal["list"] = "list"
    data: tuple[Embedding, ...]
    model: str
    usage: EmbeddingUsage


def embeddings_frame(embedded: Embedded, body: CreateEmbedding) -> tuple[bytes, Iterator[bytes], bytes]:
    """Return the JSON of a reply before, between and after the entries."""
    tokens = embedded.tokens or 0
    tail = {"model": body.model, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
    entries = (
        to_json({"object": "embedding", "index": index, "embedding": _written(vector, body.encoding_format)})
        for index, vector in enumerate(embedded.vectors)
    )
    return before_entries({"object": "list"}, "data"), entries, after_entries(tail)


def _written(vector: tuple[float, ...], encoding_format: Literal["float", "base64"]) -> tuple[float, ...] | str:
    if encoding_format == "float":
        return vector
    singles = array("f", vector)
    if sys.byteorder == "big":
        singles.byteswap()
    return b64encode(singles.tobytes()).decode()
