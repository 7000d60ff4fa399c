"""Search in banks whose chunks a provider stores: found chunks count if their insertion does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from turnstone.domain.errors import StoreUnavailable, Unsupported
from turnstone.domain.memory.banks import Bank, BankRef
from turnstone.domain.memory.questions import BankQuestion, Weighted
from turnstone.ports.memory_providers import BankProviders, ProviderHit, ProviderQuestion
from turnstone.ports.system import Clock
from turnstone.store.memory.provided import CurrentInsertion, ProvidedStore

SPARE = 8  # hits that may turn out not to count, before more are requested
TRIES = 8
CLOCKS_DIFFER = timedelta(seconds=30)  # at most, between processes


@dataclass(frozen=True, slots=True)
class ProvidedSearchDeps:
    store: ProvidedStore
    providers: BankProviders
    clock: Clock


class ProvidedSearch:
    def __init__(self, deps: ProvidedSearchDeps) -> None:
        self._deps = deps

    def has(self, bank: Bank) -> bool:
        """Return whether another store has the chunks of the bank."""
        return not self._deps.providers.is_own(bank.provider_id)

    def refuse(self, banks: Sequence[Bank], question: BankQuestion) -> None:
        """Raise Unsupported, which names the parameter, for a question that one of the providers can't answer.

        Raises MemoryProviderMissing, too.
        """
        for bank in banks:
            name, provider = bank.provider_id, self._deps.providers.of(bank.provider_id)
            if question.mode not in (None, "vector"):
                problem = f"{name!r}, which stores {bank.bank_id!r}, searches by vectors only; leave it out"
                raise _unsupported(question.fields.mode, problem)
            if question.ranker != Weighted():
                problem = f"{name!r}, which stores {bank.bank_id!r}, has one score for each chunk; leave it out"
                raise _unsupported(question.fields.ranker, problem)
            if question.max_chunks > provider.most_hits:
                problem = f"{name!r}, which stores {bank.bank_id!r}, finds {provider.most_hits} at most"
                raise _unsupported(question.fields.max_chunks, problem)
            if question.filters is not None:
                provider.refuse_filters(question.filters)

    def found(self, ref: BankRef, provider_id: str, question: BankQuestion) -> list[ProviderHit]:
        """Return the best chunks that count, the best first; none for a question without a vector.

        A document that was replaced or dropped while the provider searched could be found in part, or not at all: if
        that is possible, the search is done again.

        Raises:
            MemoryProviderError: the provider failed.
            StoreUnavailable: documents were replaced during each of several searches.
        """
        if question.vector is None:
            return []
        provider, before = self._deps.providers.of(provider_id), dict[str, CurrentInsertion]()
        limit = min(question.max_chunks + SPARE, provider.most_hits)
        tries = 0
        while tries < TRIES:
            began_at = self._deps.clock.now()
            hits = provider.search(ref, ProviderQuestion(question.vector, limit, question.filters))
            listed = self._deps.store.listed(ref, list(dict.fromkeys(hit.chunk.document_id for hit in hits)))
            is_certain = all(
                each == before.get(document_id) or _is_before(began_at, each) for document_id, each in listed.items()
            )
            before = listed
            if not is_certain:
                tries += 1
                continue
            counting = [hit for hit in hits if _counts(hit, listed)]
            if len(counting) >= question.max_chunks or len(hits) < limit or limit == provider.most_hits:
                return counting[: question.max_chunks]
            limit = min(2 * limit, provider.most_hits)
        raise StoreUnavailable("the memory bank changes faster than it can be read, try again")


def _unsupported(location: tuple[str, ...], problem: str) -> Unsupported:
    return Unsupported(f"{'.'.join(location)}: {problem}", location)


def _is_before(began_at: datetime, listed: CurrentInsertion) -> bool:
    return listed.since < began_at - CLOCKS_DIFFER


def _counts(hit: ProviderHit, listed: dict[str, CurrentInsertion]) -> bool:
    found = listed.get(hit.chunk.document_id)
    return found is not None and found.insertion.insertion_id == hit.insertion_id
