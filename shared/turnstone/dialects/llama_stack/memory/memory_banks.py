"""Memory banks on the Llama Stack wire, of all four kinds.

Source: the types of `llama-stack-client` 0.0.63 and 0.1.0; name, metadata and expiry are fields of our own. Of
requests, unknown fields are ignored, nulls stand for the default.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from turnstone.dialects.llama_stack.memory.identifiers import BankId
from turnstone.dialects.llama_stack.memory.vector_io import ByNumber
from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.domain.memory.banks import Bank, BankKind, Chunking, NewBank
from turnstone.domain.values.frozen import Frozen, JsonObject, NullMeansDefault

CHUNK_TOKENS = 512
MOST_CHUNK_TOKENS = 8_192
LONGEST_EXPIRY_S = 10 * 365 * 86_400
ChunkTokens = Annotated[int, Field(ge=1, le=MOST_CHUNK_TOKENS), ByNumber]


class ChunkedBankParams(NullMeansDefault):
    chunk_size_in_tokens: ChunkTokens = CHUNK_TOKENS
    overlap_size_in_tokens: Annotated[int, Field(ge=0, lt=MOST_CHUNK_TOKENS), ByNumber] | None = None

    def chunking(self) -> Chunking:
        """Return the lengths. Raises InvalidRequest for an overlap that leaves nothing of a chunk."""
        tokens, overlap = self.chunk_size_in_tokens, self.overlap_size_in_tokens
        if overlap is not None and overlap >= tokens:
            problem = f"must be below chunk_size_in_tokens, which is {tokens}"
            raise InvalidRequest(f"params.overlap_size_in_tokens: {problem}", ("params", "overlap_size_in_tokens"))
        return chunking_of(tokens, overlap)


class VectorBankParams(ChunkedBankParams):
    memory_bank_type: Literal["vector"]
    embedding_model: str = Field(min_length=1)


class KeywordBankParams(ChunkedBankParams):
    memory_bank_type: Literal["keyword"]


class KeyValueBankParams(NullMeansDefault):
    memory_bank_type: Literal["keyvalue"]


class GraphBankParams(ChunkedBankParams):
    memory_bank_type: Literal["graph"]


BankParams = Annotated[
    VectorBankParams | KeywordBankParams | KeyValueBankParams | GraphBankParams, Field(discriminator="memory_bank_type")
]


class RegisterMemoryBank(NullMeansDefault):
    memory_bank_id: BankId
    params: BankParams
    provider_id: str | None = None
    provider_memory_bank_id: str | None = None
    name: Annotated[str, Field(max_length=256)] | None = None
    metadata: JsonObject = {}
    expires_after_s: Annotated[int, Field(ge=60, le=LONGEST_EXPIRY_S), ByNumber] | None = None

    def to_bank(self) -> NewBank:
        """Return the bank to create. Raises Unsupported for another name at its provider."""
        if self.provider_memory_bank_id not in (None, self.memory_bank_id):
            message = "provider_memory_bank_id: must be the memory_bank_id; leave it out"
            raise Unsupported(message, ("provider_memory_bank_id",))
        params = self.params
        return NewBank(
            self.memory_bank_id,
            params.memory_bank_type,
            params.embedding_model if isinstance(params, VectorBankParams) else None,
            Chunking() if isinstance(params, KeyValueBankParams) else params.chunking(),
            self.name,
            self.metadata,
            self.expires_after_s,
            provider_id=self.provider_id,
        )


class MemoryBank(Frozen):
    identifier: str
    provider_resource_id: str
    provider_id: str
    type: Literal["memory_bank"] = "memory_bank"
    memory_bank_type: BankKind
    embedding_model: str | None = None
    embedding_dimension: int | None = None
    chunk_size_in_tokens: int | None = None
    overlap_size_in_tokens: int | None = None
    name: str | None = None
    metadata: dict[str, Any] = {}
    expires_after_s: int | None = None
    created_at: datetime


class MemoryBankList(Frozen):
    data: tuple[MemoryBank, ...]


def chunking_of(tokens: int, overlap: int | None = None) -> Chunking:
    """Return chunks of that length, by default with a quarter of it as overlap."""
    return Chunking(tokens=tokens, overlap=tokens // 4 if overlap is None else overlap)


def memory_bank_of(bank: Bank) -> MemoryBank:
    """Return a bank of any kind."""
    is_chunked = bank.kind != "keyvalue"
    return MemoryBank(
        identifier=bank.bank_id,
        provider_resource_id=bank.bank_id,
        provider_id=bank.provider_id,
        memory_bank_type=bank.kind,
        embedding_model=bank.space.model if bank.space else None,
        embedding_dimension=bank.space.dimension if bank.space else None,
        chunk_size_in_tokens=bank.chunking.tokens if is_chunked else None,
        overlap_size_in_tokens=bank.chunking.overlap if is_chunked else None,
        name=bank.name,
        metadata=dict(bank.metadata),
        expires_after_s=bank.expires_after_s,
        created_at=bank.created_at,
    )


def memory_banks_of(banks: Iterable[Bank]) -> tuple[MemoryBank, ...]:
    """Return banks of any kinds."""
    return tuple(map(memory_bank_of, banks))
