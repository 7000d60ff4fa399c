"""Vector stores on OpenAI's wire.

Source: the types of `openai` 3.54.0, and of `llama-stack-client` 0.2.12 to 0.3.5, whose fields name the embedding model
and the provider.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field

from turnstone.dialects.openai.pages import HAS_MORE, OF_LIST
from turnstone.dialects.openai.strict import StrictRequest
from turnstone.dialects.openai.vector_stores.chunking import (
    LONGEST_VALUE,
    MOST_PAIRS,
    ChunkingStrategy,
    PairName,
    chunking_in,
    whole,
)
from turnstone.dialects.openai.vector_stores.entries import end_ids
from turnstone.domain.errors import Unsupported
from turnstone.domain.memory.banks import Bank, NewBank
from turnstone.domain.memory.vector_stores import AUTO, MOST_IN_BATCH, FileCounts, StorePage, StoreState
from turnstone.domain.values.frozen import Frozen, Many

DAY_S = 86_400
MOST_DIMENSIONS = 8_192
# Source: the vector stores inside of a Llama Stack server, which applications name in their set-up
StoreMetadata = Annotated[dict[PairName, Annotated[str, Field(max_length=LONGEST_VALUE)]], Field(max_length=MOST_PAIRS)]
StoreName = Annotated[str, Field(max_length=256)]


class StoreExpiry(Frozen):
    """When an unused vector store expires."""

    model_config = ConfigDict(extra="forbid")

    anchor: Literal["last_active_at"]
    days: Annotated[int, Field(ge=1, le=365), BeforeValidator(whole)]


class CreateVectorStore(StrictRequest):
    """A vector store, with files to insert."""

    name: StoreName | None = None
    description: Annotated[str, Field(max_length=LONGEST_VALUE)] | None = None
    file_ids: Annotated[Many[str], Field(max_length=MOST_IN_BATCH)] = ()
    chunking_strategy: ChunkingStrategy | None = None
    expires_after: StoreExpiry | None = None
    metadata: StoreMetadata = {}
    embedding_model: Annotated[str, Field(min_length=1)] | None = None
    embedding_dimension: Annotated[int, Field(ge=1, le=MOST_DIMENSIONS), BeforeValidator(whole)] | None = None
    provider_id: str | None = None
    provider_vector_db_id: str | None = None

    def to_bank(self) -> NewBank:
        """Return the bank to create, which has no id yet. Raises Unsupported for an id at its provider."""
        if self.provider_vector_db_id is not None:
            problem = "a vector store gets an id of its own; leave it out"
            raise Unsupported(f"provider_vector_db_id: {problem}", ("provider_vector_db_id",))
        return NewBank(
            bank_id="",
            kind="vector",
            model=self.embedding_model,
            chunking=chunking_in(self.chunking_strategy) or AUTO,
            name=self.name,
            metadata=self.metadata,
            expires_after_s=_seconds(self.expires_after),
            description=self.description,
            dimension=self.embedding_dimension,
            provider_id=self.provider_id,
        )


class UpdateVectorStore(Frozen):
    """A change of a vector store; a field left out keeps its value, null removes it."""

    model_config = ConfigDict(extra="forbid")

    name: StoreName | None = None
    expires_after: StoreExpiry | None = None
    metadata: StoreMetadata | None = None

    def changed(self, bank: Bank) -> Bank:
        """Return the bank with the change."""
        values = {
            "name": self.name,
            "expires_after": _seconds(self.expires_after),
            "metadata": self.metadata or {},
        }
        given = {name: value for name, value in values.items() if name in self.model_fields_set}
        if "expires_after" in given:
            given["expires_after_s"] = given.pop("expires_after")
        return bank.model_copy(update=given)


class StoreFileCounts(Frozen):
    in_progress: int
    completed: int
    failed: int
    cancelled: int
    total: int

    @classmethod
    def of(cls, counts: FileCounts) -> Self:
        return cls(
            in_progress=counts.in_progress,
            completed=counts.completed,
            failed=counts.failed,
            cancelled=counts.cancelled,
            total=counts.total,
        )


class VectorStoreObject(Frozen):
    """A vector store."""

    id: str
    object: Literal["vector_store"] = "vector_store"
    created_at: int
    name: str
    description: str | None
    usage_bytes: int
    file_counts: StoreFileCounts
    status: Literal["in_progress", "completed"]
    expires_after: StoreExpiry | None
    expires_at: int | None
    last_active_at: int
    metadata: dict[str, Any]

    @classmethod
    def of(cls, state: StoreState) -> Self:
        bank, counts, used_at, ends_at = state
        lives_s = bank.expires_after_s
        days = None if lives_s is None else max(1, -(-lives_s // DAY_S))
        return cls(
            id=bank.bank_id,
            created_at=int(bank.created_at.timestamp()),
            name=bank.name or "",
            description=bank.description,
            usage_bytes=counts.size_bytes,
            file_counts=StoreFileCounts.of(counts),
            status="in_progress" if counts.in_progress else "completed",
            expires_after=None if days is None else StoreExpiry(anchor="last_active_at", days=days),
            expires_at=None if ends_at is None else int(ends_at.timestamp()),
            last_active_at=int((used_at or bank.created_at).timestamp()),
            metadata=dict(bank.metadata),
        )


class VectorStoreList(Frozen):
    """A part of the list of vector stores."""

    object: OF_LIST = "list"
    data: tuple[VectorStoreObject, ...]
    first_id: str
    last_id: str
    has_more: HAS_MORE

    @classmethod
    def of(cls, page: StorePage) -> Self:
        data: Sequence[VectorStoreObject] = tuple(map(VectorStoreObject.of, page.stores))
        return cls(data=tuple(data), has_more=page.has_more, **end_ids(data))


class VectorStoreDeleted(Frozen):
    """The vector store is gone."""

    id: str
    object: Literal["vector_store.deleted"] = "vector_store.deleted"
    deleted: Literal[True] = True


def _seconds(expiry: StoreExpiry | None) -> int | None:
    return None if expiry is None else expiry.days * DAY_S
