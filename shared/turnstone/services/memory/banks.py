"""Memory banks: create, read, list, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import AlreadyRegistered, InvalidRequest, NotFound
from turnstone.domain.memory.banks import EMBEDDED_PROVIDER, Bank, BankKind, BankRef, NewBank, VectorSpace
from turnstone.domain.memory.lent_banks import bank_of_session
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.memory_providers import BankProvider, BankProviders
from turnstone.ports.supervision import Jobs
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.access.access import AccessRules
from turnstone.services.memory.embedding import BankEmbedding
from turnstone.store.cleanup.jobs import sent
from turnstone.store.layout.contention import retried
from turnstone.store.memory.banks import KIND, BankStore, StoredBank, cleaning_of, with_expiry

if TYPE_CHECKING:  # a list of banks needs no models
    from turnstone.domain.models.routing import ModelRoute
    from turnstone.domain.sessions.sessions import Session


@dataclass(frozen=True, slots=True)
class BankDeps:
    """Dependencies of banks.

    Attributes:
        route: finds an embedding model by tenant and name. Raises InvalidRequest for an unknown one.
        providers: returns the providers of the content.
    """

    store: BankStore
    rules: AccessRules
    route: Callable[[str, str], ModelRoute]
    embedding: BankEmbedding
    jobs: Callable[[], Jobs]
    clock: Clock
    ids: IdGenerator
    providers: Callable[[], BankProviders]


class Banks:
    def __init__(self, deps: BankDeps) -> None:
        self._deps = deps

    def register(self, caller: Caller, new: NewBank, provider_data: ProviderData, attempt: Attempt) -> Bank:
        """Create the bank, or return the equal one of that name, if the caller may see it.

        The length of vectors is measured where it is not configured. A bank that names no provider is equal to one of
        any provider: the operator may choose another one for new banks. If its provider fails now, a new bank exists,
        and is made there with its first content.

        Raises:
            AlreadyRegistered: the name is taken.
            InvalidRequest: there is no such model; the message lists the others.
            Unsupported: there is no such provider, or it can't store such a bank.
            MemoryProviderError: the provider failed.
            IdempotencyMismatch: the request's key was used for another body.
            ModelError: the request for a vector of the model, to measure it, failed.
        """
        now = self._deps.clock.now()
        stored = self._new(caller, new, provider_data, now)
        bank = stored.bank
        provider = self._provider(bank)
        if provider is not None:
            provider.refuse_bank(bank)
        found = self._deps.store.create(caller.tenant, stored, attempt)
        if found is not None and found.is_over(now):
            self._remove(caller.tenant, found)
            found = self._deps.store.create(caller.tenant, stored, attempt)
        if found is None:
            if provider is not None and bank.space is not None:
                ref = BankRef(caller.tenant, stored.content_id, bank.bank_id)
                provider.create(ref, bank.space.dimension)
            return bank
        same: dict[str, Any] = {"created_at": now, "stamp": bank.stamp}
        if new.provider_id is None:
            same["provider_id"] = bank.provider_id
        is_equal = found.bank.model_copy(update=same) == bank
        if not is_equal or not self._deps.rules.may_see(caller, found.bank.stamp):
            raise AlreadyRegistered(KIND, new.bank_id)
        return found.bank

    def create(self, caller: Caller, new: NewBank, provider_data: ProviderData, attempt: Attempt) -> StoredBank:
        """Create a bank under a name that is not in use; return it, or that of an earlier attempt.

        Raises:
            IdempotencyMismatch, ModelError: as `register` does.
            NotFound: the bank of an earlier attempt is deleted.
        """
        stored = self._new(caller, new, provider_data, self._deps.clock.now())
        return self._deps.store.create(caller.tenant, stored, attempt) or stored

    def get(self, caller: Caller, bank_id: str, kind: BankKind | None = None) -> Bank:
        """Return the bank. Raises NotFound, also for one of another kind, unless any kind is allowed."""
        return self.visible(caller, bank_id, kind).bank

    def visible(self, caller: Caller, bank_id: str, kind: BankKind | None = None) -> StoredBank:
        """Return the bank with its content's id. Raises NotFound, also for one of another kind."""
        stored = self.lent(caller.tenant, bank_id)
        if kind not in (None, stored.bank.kind):
            raise NotFound(KIND, bank_id)
        self._deps.rules.check_sight(caller, stored.bank.stamp, KIND, bank_id)
        return stored

    def of_session(self, caller: Caller, session: Session) -> Bank | None:
        """Return the bank that the session made, else the one that it names; None without one that the caller may see.

        Reads nothing for a session without banks.
        """
        made = [bank_of_session(session.session_id)] if session.has_bank else []
        for name in (*made, *([session.vector_db_id] if session.vector_db_id is not None else [])):
            stored = self._deps.store.find(caller.tenant, name)
            if (
                stored
                and not stored.is_over(self._deps.clock.now())
                and self._deps.rules.may_see(caller, stored.bank.stamp)
            ):
                return stored.bank
        return None

    def lent(self, tenant: str, bank_id: str) -> StoredBank:
        """Return a bank that an agent names, and lends to each of its users. Raises NotFound."""
        stored = self._deps.store.get(tenant, bank_id)
        if stored.is_over(self._deps.clock.now()):
            raise NotFound(KIND, bank_id)
        return stored

    def touch(self, tenant: str, banks: Sequence[StoredBank]) -> None:
        """Record a use of the banks that expire when they are not used, at most once in an hour each."""
        now = self._deps.clock.now()
        for stored in banks:
            if stored.needs_touch(now):
                self._deps.store.touch(tenant, stored, now)

    def list(self, caller: Caller, kind: BankKind | None = None) -> tuple[Bank, ...]:
        """Return the banks that the caller may see, of this kind or of any, in the order of their ids."""
        return tuple(stored.bank for stored in self.every(caller, kind))

    def every(self, caller: Caller, kind: BankKind | None = None) -> tuple[StoredBank, ...]:
        """Return the banks of `list` with the ids of their contents."""
        now = self._deps.clock.now()
        return tuple(
            stored
            for stored in self._deps.store.all(caller.tenant)
            if kind in (None, stored.bank.kind)
            and not stored.is_over(now)
            and self._deps.rules.may_see(caller, stored.bank.stamp)
        )

    def update(self, caller: Caller, bank_id: str, kind: BankKind | None, change: Callable[[Bank], Bank]) -> StoredBank:
        """Replace name, metadata and expiry of the bank; return it. That is a use of the bank.

        Raises:
            NotFound, Forbidden: the caller may not change it.
        """

        def act() -> StoredBank:
            before = self.visible(caller, bank_id, kind)
            self._deps.rules.check_deletion(caller, before.bank.stamp, KIND, bank_id, "change")
            now = self._deps.clock.now()
            changed = with_expiry(change(before.bank), before.content_id, now, before.rev + 1)
            if before.bank.source is None:
                changed = changed._replace(used_at=now)
            self._deps.store.replace(caller.tenant, before, changed)
            return changed

        return retried(act, "the memory bank changes too fast, try again")

    def delete(self, caller: Caller, bank_id: str, kind: BankKind | None = None) -> None:
        """Delete the bank with its content. Raises NotFound, Forbidden."""
        stored = self.lent(caller.tenant, bank_id)
        if kind not in (None, stored.bank.kind):
            raise NotFound(KIND, bank_id)
        self._deps.rules.check_deletion(caller, stored.bank.stamp, KIND, bank_id)
        self._remove(caller.tenant, stored)

    def _remove(self, tenant: str, stored: StoredBank) -> None:
        now = self._deps.clock.now()
        job = cleaning_of(tenant, stored, now)
        self._deps.store.delete(tenant, stored, job)
        sent(self._deps.jobs(), job)

    def _provider(self, bank: Bank) -> BankProvider | None:
        """Return the other store that has the bank's content, None for this server."""
        if bank.provider_id == EMBEDDED_PROVIDER or self._deps.providers().is_own(bank.provider_id):
            return None
        return self._deps.providers().of(bank.provider_id)

    def _new(self, caller: Caller, new: NewBank, provider_data: ProviderData, now: datetime) -> StoredBank:
        bank = Bank(
            bank_id=new.bank_id,
            kind=new.kind,
            name=new.name,
            provider_id=self._deps.providers().chosen(new.kind, new.provider_id),
            description=new.description,
            space=None if new.model is None else self._space(caller, new.model, provider_data),
            chunking=new.chunking,
            metadata=new.metadata,
            created_at=now,
            expires_after_s=new.expires_after_s,
            lives_with=new.lives_with,
            stamp=owner_of(caller),
        )
        if bank.space is not None and new.dimension not in (None, bank.space.dimension):
            problem = f"the vectors of {new.model!r} have {bank.space.dimension} dimensions; leave it out"
            raise InvalidRequest(f"embedding_dimension: {problem}", ("embedding_dimension",))
        return with_expiry(bank, self._deps.ids.order_key(now, None), now)

    def _space(self, caller: Caller, model: str, provider_data: ProviderData) -> VectorSpace:
        route = self._deps.route(caller.tenant, model)
        if route.embedding_dimension is not None:
            return VectorSpace(model=model, dimension=route.embedding_dimension)
        return VectorSpace(model=model, dimension=self._deps.embedding.dimension(caller, model, provider_data))
