"""A provider of memory banks in memory, whose calls can fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import hypot
from threading import Lock
from typing import Any

from turnstone.domain.errors import Unsupported
from turnstone.domain.memory.banks import Bank, BankRef
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.memory.filters import Filter
from turnstone.ports.memory_providers import Insertion, InsertionRef, ProviderHit, ProviderQuestion

Call = Callable[[str], None]


class BanksInMemory:
    """BankProvider over dictionaries.

    Attributes:
        banks: insertions by id, of each bank.
        before: called with the name of each method that calls the store, before it; raises to fail the call.
        after: called in the same way after it.
    """

    def __init__(self, provider_id: str = "elsewhere", most_hits: int = 100) -> None:
        self.provider_id = provider_id
        self.most_hits = most_hits
        self.banks: dict[tuple[str, str], dict[str, Insertion]] = {}
        self.before: Call = lambda _: None
        self.after: Call = lambda _: None
        self.is_closed = False
        self._lock = Lock()

    def refuse_bank(self, bank: Bank) -> None:
        if bank.space is None:
            raise Unsupported(f"provider_id: {self.provider_id!r} stores banks of vectors only", ("provider_id",))

    def refuse_filters(self, filters: Filter) -> None:
        pass

    def refuse_insertion(self, insertion: Insertion) -> None:
        pass

    def create(self, ref: BankRef, dimension: int) -> None:
        self._called("create", lambda: self.banks.setdefault(ref[:2], {}))

    def put(self, ref: BankRef, insertions: Sequence[Insertion]) -> None:
        def act() -> None:
            for each in insertions:
                self.banks.setdefault(ref[:2], {}).setdefault(each.insertion_id, each)

        self._called("put", act)

    def drop(self, ref: BankRef, insertions: Sequence[InsertionRef]) -> None:
        def act() -> None:
            for each in insertions:
                self.banks.get(ref[:2], {}).pop(each.insertion_id, None)

        self._called("drop", act)

    def search(self, ref: BankRef, question: ProviderQuestion) -> list[ProviderHit]:
        def act() -> list[ProviderHit]:
            hits = [
                ProviderHit(each.insertion_id, chunk._replace(vector=None), each.attributes, _cosine(chunk, question))
                for each in self.banks.get(ref[:2], {}).values()
                for chunk in each.chunks
                if question.filters is None or question.filters.matches({**chunk.metadata, **each.attributes})
            ]
            hits.sort(key=lambda hit: (-hit.cosine, hit.chunk.chunk_id))
            return hits[: min(question.limit, self.most_hits)]

        return list(self._called("search", act))

    def chunks(self, ref: BankRef, insertion: InsertionRef) -> tuple[DocumentChunk, ...]:
        def act() -> tuple[DocumentChunk, ...]:
            found = self.banks.get(ref[:2], {}).get(insertion.insertion_id)
            chunks = () if found is None else found.chunks
            return tuple(chunk._replace(vector=_unit(chunk.vector or ())) for chunk in chunks)

        return tuple(self._called("chunks", act))

    def remove(self, ref: BankRef) -> None:
        self._called("remove", lambda: self.banks.pop(ref[:2], None))

    def check(self) -> str:
        return "a dictionary"

    def close(self) -> None:
        self.is_closed = True

    def _called(self, name: str, act: Callable[[], Any]) -> Any:
        self.before(name)
        with self._lock:
            result = act()
        self.after(name)
        return result


def _cosine(chunk: DocumentChunk, question: ProviderQuestion) -> float:
    one, other = _unit(chunk.vector or ()), _unit(question.vector)
    return sum(a * b for a, b in zip(one, other, strict=True))


def _unit(vector: Sequence[float]) -> list[float]:
    return [number / hypot(*vector) for number in vector]
