"""Vector databases on the Llama Stack wire: memory banks with vectors.

Source: the types of `llama-stack-client` 0.2.12; of requests, unknown fields are ignored, nulls stand for the default.
"""

from typing import Literal

from pydantic import Field

from turnstone.dialects.llama_stack.memory.identifiers import BankId
from turnstone.domain.errors import Unsupported
from turnstone.domain.memory.banks import Bank, NewBank
from turnstone.domain.values.frozen import Frozen, NullMeansDefault

MOST_DIMENSIONS = 8_192


class RegisterVectorDb(NullMeansDefault):
    vector_db_id: BankId
    embedding_model: str = Field(min_length=1)
    embedding_dimension: int | None = Field(default=None, ge=1, le=MOST_DIMENSIONS)
    provider_id: str | None = None
    provider_vector_db_id: str | None = None

    def to_bank(self) -> NewBank:
        """Return the bank to create. Raises Unsupported for another name at its provider."""
        if self.provider_vector_db_id not in (None, self.vector_db_id):
            message = "provider_vector_db_id: must be the vector_db_id; leave it out"
            raise Unsupported(message, ("provider_vector_db_id",))
        return NewBank(self.vector_db_id, "vector", self.embedding_model, provider_id=self.provider_id)


class VectorDb(Frozen):
    identifier: str
    provider_resource_id: str
    provider_id: str
    type: Literal["vector_db"] = "vector_db"
    embedding_model: str
    embedding_dimension: int


class VectorDbList(Frozen):
    data: tuple[VectorDb, ...]


def vector_db_of(bank: Bank) -> VectorDb:
    """Return a bank of the kind `vector` as a vector database. Raises ValueError for one without vectors."""
    if bank.space is None:
        raise ValueError(f"{bank.bank_id!r} has no vectors")
    return VectorDb(
        identifier=bank.bank_id,
        provider_resource_id=bank.bank_id,
        provider_id=bank.provider_id,
        embedding_model=bank.space.model,
        embedding_dimension=bank.space.dimension,
    )
