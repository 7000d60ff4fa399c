"""Shields: their registration, and their verdicts outside of any turn."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from typing import TYPE_CHECKING

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.registry.registry import Shield
from turnstone.domain.shields.verdicts import ShieldQuestion
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.turns import SafetyViolation
from turnstone.ports.system import Clock
from turnstone.services.shields.lookup import ShieldLookup
from turnstone.services.shields.shielding import Shieldings
from turnstone.services.threads.executor import TurnExecutor
from turnstone.store.registry.registry import RegistryStore

if TYPE_CHECKING:
    from turnstone.domain.messages.messages import Message


WHOLE_SHIELD = ("provider_resource_id", "provider_id", "params")


class Shields:
    """Shields registered here, and those that come with the server."""

    def __init__(
        self,
        store: RegistryStore[Shield],
        lookup: ShieldLookup,
        shieldings: Shieldings,
        clock: Clock,
        executor: TurnExecutor,
    ) -> None:
        self._store = store
        self._lookup = lookup
        self._shieldings = shieldings
        self._clock = clock
        self._executor = executor

    def list(self, caller: Caller) -> tuple[Shield, ...]:
        there = {shield.identifier: shield for shield in self._store.list(caller.tenant)} | {**self._lookup.configured}
        return tuple(there[name] for name in sorted(there))

    def get(self, caller: Caller, shield_id: str) -> Shield:
        """Return the shield. Raises NotFound."""
        found = self._lookup.configured.get(shield_id) or self._store.find(caller.tenant, shield_id)
        if found is None:
            raise NotFound("shield", shield_id)
        return found

    def register(
        self, caller: Caller, shield: Shield, attempt: Attempt, given: Collection[str] = WHOLE_SHIELD
    ) -> Shield:
        """Return the registered shield, or the operator's if it agrees with the given fields.

        Raises InvalidRequest, AlreadyRegistered, IdempotencyMismatch.
        """
        there = self._lookup.configured.get(shield.identifier)
        if there is not None and shield.agrees_with(there, given):
            return there
        self._refuse_configured(shield.identifier)
        self._shieldings.refuse_wrong(caller.tenant, shield)
        self._store.register(caller.tenant, shield, attempt, self._clock.now())
        return shield

    def unregister(self, caller: Caller, shield_id: str) -> None:
        """Remove the shield. Raises NotFound, InvalidRequest for one that comes with the server."""
        self._refuse_configured(shield_id)
        self._store.remove(caller.tenant, shield_id)

    def run(
        self, caller: Caller, shield_id: str, messages: tuple[Message, ...], provider_data: ProviderData
    ) -> SafetyViolation | None:
        """Return the shield's violation: of the last message if that is the model's, else of all of them.

        Raises NotFound, Overloaded, StoreUnavailable.
        """
        if shield_id not in self._lookup.find(caller.tenant, [shield_id]):
            raise NotFound("shield", shield_id)
        is_output = messages[-1].role == "assistant"
        question = ShieldQuestion(
            judged=messages[-1:] if is_output else messages,
            touchpoint="assistant-output" if is_output else "user-input",
            before=messages[:-1] if is_output else (),
            provider_data=provider_data,
        )
        judging = self._shieldings.of(caller.tenant).judge((shield_id,), question)
        with self._executor.permit(caller.tenant), closing(judging) as verdicts:
            return next(verdicts).violation

    def _refuse_configured(self, shield_id: str) -> None:
        if shield_id in self._lookup.configured:
            message = f"shield_id: {shield_id!r} comes with the server and can't be changed; choose another name"
            raise InvalidRequest(message, ("shield_id",))
