"""Requests of memory banks as the clients before `/v1` send them, with the bank in the body or the query.

Source: the types of `llama-stack-client` 0.0.53 to 0.0.63 and 0.1.0.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import RootModel

from turnstone.dialects.llama_stack.memory.bank_queries import QueryMemoryBank
from turnstone.dialects.llama_stack.memory.documents import InsertDocuments
from turnstone.dialects.llama_stack.memory.memory_banks import MemoryBank
from turnstone.dialects.llama_stack.requests import only
from turnstone.domain.values.frozen import NullMeansDefault

QUERY: dict[str, dict[str, Any]] = {
    "memory_bank_id": {
        "description": "The id of the memory bank.",
        "schema": {"type": "string"},
        "required": True,
    }
}


class MemoryBankNamed(NullMeansDefault):
    memory_bank_id: str


class InsertIntoBank(InsertDocuments):
    bank_id: str


class QueryBank(QueryMemoryBank):
    bank_id: str


class MemoryBanks(RootModel[tuple[MemoryBank, ...]]):
    """A list of that time: the banks alone."""


def bank_in_query(query: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the id of the bank by its name, nothing without one. Raises InvalidRequest for a repeated one."""
    bank_id = only(query, "memory_bank_id")
    return {} if bank_id is None else {"memory_bank_id": bank_id}
