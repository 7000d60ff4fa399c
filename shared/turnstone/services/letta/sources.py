"""Sources of Letta's API: create, read, list, change and delete the banks of uploaded files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from turnstone.domain.access.access import Ownership, owner_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.agents.archives import PASSAGES, Passage, PassageQuery
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.letta.sources import MOST_SOURCES, NewSource, SourceChanges, SourceQuery
from turnstone.domain.memory.banks import SOURCE_KIND, SOURCE_PREFIX, Bank, SourceFields, VectorSpace
from turnstone.domain.turns.attempts import Attempt
from turnstone.services.memory.turns.lending import caller_of
from turnstone.store.memory.banks import StoredBank

if TYPE_CHECKING:  # few requests list passages
    from turnstone.ports.system import Clock, IdGenerator
    from turnstone.services.access.access import AccessRules
    from turnstone.services.agents.passages import Passages
    from turnstone.services.memory.banks import Banks
    from turnstone.store.memory.bank_reads import BankReads
    from turnstone.store.memory.banks import BankStore

MOST_SCANNED = 1_000


@dataclass(frozen=True, slots=True)
class SourceDeps:
    """Dependencies of sources.

    Attributes:
        passages: returns the passages of banks, which only their list needs.
        space: returns the tenant's space of vectors, None where none is configured: passages are found by keywords.
    """

    banks: Banks
    store: BankStore
    reads: BankReads
    passages: Callable[[], Passages]
    rules: AccessRules
    space: Callable[[str], VectorSpace | None]
    clock: Clock
    ids: IdGenerator


class Sources:
    def __init__(self, deps: SourceDeps) -> None:
        self._deps = deps

    def create(self, caller: Caller, new: NewSource, attempt: Attempt) -> Bank:
        """Create a source, also under a name that another has; return it, or that of an earlier attempt.

        Raises IdempotencyMismatch, and NotFound if that is deleted.
        """
        now, space = self._deps.clock.now(), self._deps.space(caller.tenant)
        order = self._deps.ids.order_key(now, None)
        bank = Bank(
            bank_id=f"{SOURCE_PREFIX}{order}",
            kind="keyword" if space is None else "vector",
            name=new.name,
            description=new.description,
            space=space,
            chunking=PASSAGES,
            metadata=new.metadata,
            created_at=now,
            source=SourceFields(embedding_config=new.embedding_config, updated_at=now),
            stamp=owner_of(caller),
        )
        stored = StoredBank(bank, order)
        return (self._deps.store.create(caller.tenant, stored, attempt) or stored).bank

    def get(self, caller: Caller, source_id: str) -> Bank:
        """Return the source. Raises NotFound."""
        return self.visible(caller, source_id).bank

    def visible(self, caller: Caller, source_id: str) -> StoredBank:
        """Return the source with its content's id. Raises NotFound."""
        stored = self._existing(caller.tenant, source_id)
        self._deps.rules.check_sight(caller, stored.bank.stamp, SOURCE_KIND, source_id)
        return stored

    def named(self, caller: Caller, name: str) -> Bank:
        """Return the oldest source of that name that the caller may see. Raises NotFound."""
        ids = islice(self._deps.store.ids_named(caller.tenant, name), MOST_SCANNED)
        while some := list(islice(ids, MOST_SOURCES)):
            found = self._deps.reads.find(caller.tenant, some)
            for stored in found.values():
                if self._deps.rules.may_see(caller, stored.bank.stamp):
                    return stored.bank
        raise NotFound(SOURCE_KIND, name)

    def list(self, caller: Caller, query: SourceQuery) -> Iterator[Bank]:
        """Yield the requested sources that the caller may see, in the order of their creation.

        Raises NotFound for an unknown `after`.
        """
        if query.after is not None:
            self.visible(caller, query.after)
        stored = islice(self._deps.store.sources(caller.tenant, query.after, query.limit + 1), MOST_SCANNED)
        shown = (each.bank for each in stored if self._deps.rules.may_see(caller, each.bank.stamp))
        return islice(shown, query.limit)

    def change(self, caller: Caller, source_id: str, changes: SourceChanges) -> Bank:
        """Return the changed source. Raises NotFound, Forbidden."""
        self._check_change(caller, source_id, "change")
        now = self._deps.clock.now()

        def changed(bank: Bank) -> Bank:
            before = bank.source or SourceFields(updated_at=now)
            fields = before.model_copy(update={**changes.of_fields, "updated_at": now})
            return bank.model_copy(update={**changes.of_bank, "source": fields})

        return self._deps.banks.update(caller, source_id, None, changed).bank

    def delete(self, caller: Caller, source_id: str) -> None:
        """Delete the source with its content, which no agent finds any more. Raises NotFound, Forbidden."""
        self._check_change(caller, source_id, "delete")
        self._deps.banks.delete(caller, source_id)

    def list_passages(self, caller: Caller, source_id: str, query: PassageQuery) -> tuple[Passage, ...]:
        """Return the part of the passages, oldest first. Raises NotFound, also for an unknown `after` or `before`."""
        return self._deps.passages().list(caller.tenant, [self.visible(caller, source_id)], query)

    def lent(self, tenant: str, owner: Ownership, source_ids: Sequence[str]) -> tuple[Bank, ...]:
        """Return those of an agent's sources that exist and that its owner may see."""
        namer, found = caller_of(tenant, owner), self._deps.reads.find(tenant, source_ids)
        banks = (stored.bank for stored in found.values())
        return tuple(each for each in banks if each.source and self._deps.rules.may_see(namer, each.stamp))

    def attached(
        self, caller: Caller, owner: Ownership, before: Sequence[str], source_ids: Sequence[str]
    ) -> tuple[str, ...]:
        """Return the next sources of an agent, without repetitions and those deleted since.

        Raises:
            NotFound: the caller or the owner of the agent, which lends its sources, may not see a new one.
            InvalidRequest: there are too many.
        """
        named_ids = list(dict.fromkeys(source_ids))
        found = self._deps.reads.find(caller.tenant, named_ids) if named_ids else {}
        namers = (caller, caller_of(caller.tenant, owner))
        for source_id in named_ids:
            stored = found.get(source_id)
            if source_id in before:
                continue
            if stored is None or stored.bank.source is None:
                raise NotFound(SOURCE_KIND, source_id)
            for namer in namers:
                self._deps.rules.check_sight(namer, stored.bank.stamp, SOURCE_KIND, source_id)
        left = tuple(each for each in named_ids if each in found)
        if len(left) > MOST_SOURCES:
            raise InvalidRequest(f"source_ids: an agent has at most {MOST_SOURCES} sources", ("source_ids",))
        return left

    def _existing(self, tenant: str, source_id: str) -> StoredBank:
        stored = self._deps.store.find(tenant, source_id)
        if stored is None or stored.bank.source is None:
            raise NotFound(SOURCE_KIND, source_id)
        return stored

    def _check_change(self, caller: Caller, source_id: str, act: str) -> None:
        stamp = self._existing(caller.tenant, source_id).bank.stamp
        if act == "change":
            self._deps.rules.check_sight(caller, stamp, SOURCE_KIND, source_id)  # which the answer needs
        self._deps.rules.check_deletion(caller, stamp, SOURCE_KIND, source_id, act)
