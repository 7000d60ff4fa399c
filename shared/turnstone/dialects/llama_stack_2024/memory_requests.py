"""Requests of memory banks as the clients before `/v1` send them, with the bank in the body or the query.

Source: the types of `llama-stack-client` 0.0.53 to 0.0.63 and 0.1.0.
"""

from pydantic import RootModel

from turnstone.dialects.llama_stack.memory.bank_queries import QueryMemoryBank
from turnstone.dialects.llama_stack.memory.documents import InsertDocuments
from turnstone.dialects.llama_stack.memory.memory_banks import MemoryBank
from turnstone.domain.values.frozen import NullMeansDefault


class MemoryBankNamed(NullMeansDefault):
    memory_bank_id: str


class InsertIntoBank(InsertDocuments):
    bank_id: str


class QueryBank(QueryMemoryBank):
    bank_id: str


class MemoryBanks(RootModel[tuple[MemoryBank, ...]]):
    """A list of that time: the banks alone."""
