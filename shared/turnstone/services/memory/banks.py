"""Memory banks: create, read, list, delete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import AlreadyRegistered, NotFound
from turnstone.domain.jobs import Job
from turnstone.domain.memory.banks import Bank, BankKind, VectorSpace
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.supervision import Jobs
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.access.access import AccessRules
from turnstone.services.memory.embedding import BankEmbedding
from turnstone.store.cleanup.jobs import sent
from turnstone.store.memory.banks import KIND, BankStore, StoredBank

if TYPE_CHECKING:  # a list of banks needs no models
    from turnstone.domain.models.routing import ModelRoute


@dataclass(frozen=True, slots=True)
class BankDeps:
    """Dependencies of banks. `route` finds a model by tenant and name."""

    store: BankStore
    rules: AccessRules
    route: Callable[[str, str], ModelRoute]
    embedding: BankEmbedding
    jobs: Callable[[], Jobs]
    clock: Clock
    ids: IdGenerator


class Banks:
    def __init__(self, deps: BankDeps) -> None:
        self._deps = deps

    def register(
        self,
        caller: Caller,
        bank_id: str,
        kind: BankKind,
        model: str | None,
        provider_data: ProviderData,
        attempt: Attempt,
    ) -> Bank:
        """Create the bank, or return the equal one of that name, if the caller may see it.

        Args:
            model: the embedding model of a vector bank; its vectors are measured where their length is not configured.

        Raises:
            AlreadyRegistered: the name is taken.
            IdempotencyMismatch: the request's key was used for another body.
            ModelError: the request for a vector of the model, to measure it, failed.
        """
        space = None if model is None else self._space(caller, model, provider_data)
        now = self._deps.clock.now()
        bank = Bank(bank_id=bank_id, kind=kind, space=space, created_at=now, stamp=owner_of(caller))
        found = self._deps.store.create(caller.tenant, StoredBank(bank, self._deps.ids.order_key(now, None)), attempt)
        if found is None:
            return bank
        is_equal = found.bank.model_copy(update={"created_at": now, "stamp": bank.stamp}) == bank
        if not is_equal or not self._deps.rules.may_see(caller, found.bank.stamp):
            raise AlreadyRegistered(KIND, bank_id)
        return found.bank

    def get(self, caller: Caller, bank_id: str, kind: BankKind) -> Bank:
        """Return the bank. Raises NotFound, also for one of another kind."""
        bank = self.visible(caller, bank_id).bank
        if bank.kind != kind:
            raise NotFound(KIND, bank_id)
        return bank

    def visible(self, caller: Caller, bank_id: str) -> StoredBank:
        """Return the bank with its content's id. Raises NotFound."""
        stored = self._deps.store.get(caller.tenant, bank_id)
        self._deps.rules.check_sight(caller, stored.bank.stamp, KIND, bank_id)
        return stored

    def lent(self, tenant: str, bank_id: str) -> StoredBank:
        """Return a bank that an agent names, and lends to each of its users. Raises NotFound."""
        return self._deps.store.get(tenant, bank_id)

    def list(self, caller: Caller, kind: BankKind) -> tuple[Bank, ...]:
        """Return the banks of this kind that the caller may see, in the order of their ids."""
        all_of_them = (stored.bank for stored in self._deps.store.all(caller.tenant))
        return tuple(bank for bank in all_of_them if bank.kind == kind and self._deps.rules.may_see(caller, bank.stamp))

    def delete(self, caller: Caller, bank_id: str, kind: BankKind) -> None:
        """Delete the bank with its content. Raises NotFound, Forbidden."""
        stored = self._deps.store.get(caller.tenant, bank_id)
        if stored.bank.kind != kind:
            raise NotFound(KIND, bank_id)
        self._deps.rules.check_deletion(caller, stored.bank.stamp, KIND, bank_id)
        now = self._deps.clock.now()
        job = Job(kind="clean_bank", tenant=caller.tenant, order=stored.content_id, since=now, due_at=now)
        self._deps.store.delete(caller.tenant, stored, job)
        sent(self._deps.jobs(), job)

    def _space(self, caller: Caller, model: str, provider_data: ProviderData) -> VectorSpace:
        route = self._deps.route(caller.tenant, model)
        if route.embedding_dimension is not None:
            return VectorSpace(model=model, dimension=route.embedding_dimension)
        return VectorSpace(model=model, dimension=self._deps.embedding.dimension(caller, model, provider_data))
