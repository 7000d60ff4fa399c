"""Run shields: in parallel, each within its time limit; a failing shield follows its `on_failure` setting."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import InvalidRequest, ShieldFailed
from turnstone.domain.models.routing import ModelRoute, Target
from turnstone.domain.registry.registry import LLAMA_GUARD, Shield
from turnstone.domain.shields.verdicts import ShieldQuestion
from turnstone.domain.turns.turns import SafetyViolation, Verdict
from turnstone.ports.shields import RunnableShield, ShieldKinds
from turnstone.services.shields.lookup import ShieldLookup
from turnstone.services.threads.daemon_threads import DaemonThreads
from turnstone.services.threads.pending import Pending, Unanswered, awaiting

if TYPE_CHECKING:
    from turnstone.domain.shields.shields import ShieldParams
    from turnstone.domain.tools.agent_tools import AgentTool

log = logging.getLogger(__name__)
MAX_PARALLEL_SHIELDS = 256
MAX_PARALLEL_SHIELDS_OF_TENANT = 64
Location = tuple[str | int, ...]
# clients recognise a refusal by its first two words
STOPPED = "I can't help with that: a safety check stopped it."
NOT_JUDGED = "I can't answer that now: a safety check did not work. Please try again later."


class Shieldings:
    """Runs the shields of tenants."""

    def __init__(self, lookup: ShieldLookup, kinds: ShieldKinds, route: Callable[[str, str], ModelRoute]) -> None:
        """Use `route` to find the providers of a tenant's model, for shields that have one."""
        self._lookup = lookup
        self._kinds = kinds
        self._route = route
        self._threads = DaemonThreads(MAX_PARALLEL_SHIELDS, "shield", MAX_PARALLEL_SHIELDS_OF_TENANT)

    def of(self, tenant: str) -> TenantShielding:
        """Return the runner of the tenant's shields."""
        return TenantShielding(self._lookup, partial(self._made, tenant), self._threads, tenant)

    def refuse_unusable(self, tenant: str, config: AgentConfig) -> None:
        """Raise InvalidRequest, naming the field, if the configuration names a shield that can't be used."""
        holders: list[tuple[Location, AgentConfig | AgentTool]] = [((), config)]
        holders += ((("tools", index), tool) for index, tool in enumerate(config.tools))
        named = [
            ((*location, field_name), name)
            for location, holder in holders
            for field_name in ("input_shields", "output_shields")
            for name in getattr(holder, field_name)
        ]
        found = self._lookup.find(tenant, [name for _, name in named]) if named else {}
        for location, name in named:
            where = ".".join(map(str, location))
            if name not in found:
                raise InvalidRequest(f"{where}: there is no shield {name!r}; register it first", location)
            try:
                self._made(tenant, found[name])
            except InvalidRequest as wrong:
                raise InvalidRequest(f"{where}: shield {name!r}: {wrong}", location) from wrong

    def refuse_wrong(self, tenant: str, registered: Shield) -> None:
        """Raise InvalidRequest, naming the field, if no such shield can be made."""
        self._made(tenant, registered)

    def _made(self, tenant: str, registered: Shield) -> tuple[RunnableShield, tuple[Target, ...]]:
        """Return the shield, and the providers of its model if it has one. Raises InvalidRequest."""
        shield = self._kinds.build(registered)
        if registered.provider_id != LLAMA_GUARD:
            return shield, ()
        try:
            return shield, self._route(tenant, registered.provider_resource_id).targets
        except InvalidRequest as unknown:
            raise InvalidRequest(f"provider_shield_id: {unknown}", ("provider_shield_id",)) from unknown


class TenantShielding:
    """Runs one tenant's shields, for the engine."""

    def __init__(
        self,
        lookup: ShieldLookup,
        make: Callable[[Shield], tuple[RunnableShield, tuple[Target, ...]]],
        threads: DaemonThreads,
        tenant: str,
    ) -> None:
        self._lookup = lookup
        self._make = make
        self._threads = threads
        self._tenant = tenant

    def judge(self, shield_ids: Sequence[str], question: ShieldQuestion) -> Generator[Verdict, None, None]:
        """Yield the verdict of each shield, in this order, while all of them run. Raises StoreUnavailable."""
        found = self._lookup.find(self._tenant, shield_ids)
        started = [self._started(name, found.get(name), question) for name in shield_ids]
        with awaiting([one.awaited for one in started], question.stop):
            for one in started:
                yield one.verdict()

    def _started(self, shield_id: str, registered: Shield | None, question: ShieldQuestion) -> _StartedShield:
        from turnstone.domain.shields.shields import ShieldParams, params_of  # only where a turn has shields

        started = _StartedShield(shield_id, ShieldParams())
        try:
            if registered is None:
                raise ShieldFailed("this shield is no longer registered")
            started.params = params_of(registered)
            shield, targets = self._make(registered)
        except (InvalidRequest, ShieldFailed) as problem:
            started.awaited.fail(ShieldFailed(str(problem)))
            return started
        own = question._replace(targets=targets, stop=started.awaited.stop)
        started.awaited.begin(self._threads, lambda: shield.judge(own), self._tenant)
        return started


@dataclass(slots=True)
class _StartedShield:
    """A shield whose verdict is pending."""

    shield_id: str
    params: ShieldParams
    awaited: Pending[Verdict] = field(default_factory=Pending)

    def verdict(self) -> Verdict:
        """Return the shield's verdict within its time limit, or that of its `on_failure` setting."""
        try:
            verdict = self.awaited.answer(self.params.timeout_seconds)
        except (Unanswered, ShieldFailed) as failed:
            return self._failed(str(failed))
        violation = self._with_settings(verdict.violation)
        return verdict.model_copy(update={"shield_id": self.shield_id, "violation": violation})

    def _with_settings(self, violation: SafetyViolation | None) -> SafetyViolation | None:
        if violation is None:
            return None
        changes = {
            "violation_level": self.params.violation_level,
            "user_message": self.params.user_message or violation.user_message or STOPPED,
            "metadata": {"shield_id": self.shield_id, **violation.metadata},
        }
        return violation.model_copy(update=changes)

    def _failed(self, why: str) -> Verdict:
        log.warning("shield %r could not judge: %s", self.shield_id, why)
        return Verdict(
            shield_id=self.shield_id,
            violation=SafetyViolation(
                violation_level="error" if self.params.on_failure == "block" else "warn",
                user_message=NOT_JUDGED if self.params.on_failure == "block" else None,
                metadata={"shield_id": self.shield_id, "failure": why},
            ),
        )
