"""Memory banks: their kinds and settings."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from turnstone.domain.access.access import Ownership
from turnstone.domain.refs import SessionRef
from turnstone.domain.values.frozen import Frozen, JsonObject

BankKind = Literal["vector", "keyword", "keyvalue", "graph"]
SEARCHED: tuple[BankKind, ...] = ("vector", "keyword")  # those of documents in chunks
EVERY_KIND: tuple[BankKind, ...] = (*SEARCHED, "keyvalue", "graph")
EMBEDDED_PROVIDER = "turnstone-memory"
MOST_CHUNKS = 50_000
SOURCE_KIND = "source"
SOURCE_PREFIX = f"{SOURCE_KIND}-"


class VectorSpace(Frozen):
    """The embedding model of a bank and the length of its vectors; fixed for the life of the bank."""

    model: str
    dimension: int


class Chunking(Frozen):
    """The length of chunks and of the overlap of neighbours, in tokens."""

    tokens: int = 512
    overlap: int = 128


class SourceFields(Frozen):
    """The fields of a source that its bank lacks.

    Attributes:
        embedding_config: as sent, None without one.
    """

    embedding_config: JsonObject | None = None
    updated_at: datetime


class Bank(Frozen):
    """A memory bank.

    Attributes:
        bank_id: chosen by its creator, unique in the tenant.
        name: shown to people; None without one.
        description: likewise.
        provider_id: the store of its content, for the life of the bank.
        space: None where nothing is embedded: in every kind but `vector`.
        expires_after_s: seconds without a query or an insertion after which the bank is removed; None for never.
        lives_with: the session that removes the bank when it is deleted; None for a bank of its own.
        lives_with_agent: likewise, the agent.
        source: of a bank that is a source of agents, None for any other.
    """

    bank_id: str
    kind: BankKind
    name: str | None = None
    description: str | None = None
    provider_id: str = EMBEDDED_PROVIDER
    space: VectorSpace | None = None
    chunking: Chunking = Chunking.model_construct()
    metadata: Mapping[str, Any] = {}
    created_at: datetime
    expires_after_s: int | None = None
    lives_with: SessionRef | None = None
    lives_with_agent: str | None = None
    source: SourceFields | None = None
    stamp: Ownership = Ownership.model_construct()


class NewBank(NamedTuple):
    """A bank to create; its fields are those of `Bank`.

    Attributes:
        model: the embedding model of a vector bank, None for the other kinds.
        provider_id: the store of its content; None for the one that the operator chose for banks of its kind.
        dimension: the length that the model's vectors must have, None for any.
    """

    bank_id: str
    kind: BankKind
    model: str | None = None
    chunking: Chunking = Chunking.model_construct()
    name: str | None = None
    metadata: Mapping[str, Any] = MappingProxyType({})
    expires_after_s: int | None = None
    lives_with: SessionRef | None = None
    description: str | None = None
    dimension: int | None = None
    provider_id: str | None = None


class BankRef(NamedTuple):
    """A bank's content; `bank_id` is for errors and hits."""

    tenant: str
    content_id: str
    bank_id: str

    @property
    def is_of_source(self) -> bool:
        """Whether the bank is a source of agents."""
        return self.bank_id.startswith(SOURCE_PREFIX)
