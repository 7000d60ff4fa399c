"""What was spent: read by those who may see the agents and sessions that spent it, and by admins all of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date

from turnstone.domain.access.access import ADMIN, Ownership
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.models.routing import RouteOf, resolved_route
from turnstone.domain.refs import SessionRef
from turnstone.domain.usage.usage_report import UsageCount, UsageQuery, UsageReport
from turnstone.ports.system import Clock
from turnstone.services.access.access import AccessRules, check_session
from turnstone.store.sessions.sessions import SessionStore
from turnstone.store.usage.usage import Spent, UsageStore

AGENTS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class UsageDeps:
    """What it takes to tell what was spent. `route_of` tells the prices of a model."""

    store: UsageStore
    sessions: SessionStore
    rules: AccessRules
    route_of: RouteOf
    clock: Clock


class Usage:
    """Reports of what was spent. What deleted agents and sessions spent stays visible to those who could see them."""

    def __init__(self, deps: UsageDeps) -> None:
        self._store = deps.store
        self._sessions = deps.sessions
        self._rules = deps.rules
        self._route_of = deps.route_of
        self._clock = deps.clock

    def report(self, caller: Caller, wanted: UsageQuery) -> UsageReport:
        """Return what was spent by all the caller may see, by one agent or by one of its sessions.

        Raises:
            NotFound: the agent or session is not there, nor was; or the caller may not see it.
            InvalidRequest: a session without its agent, no day, or too many.
        """
        days = wanted.days(self._clock.now().date())
        count = UsageCount(days)
        has_some = False
        for spent in self._spent(caller, wanted, days):
            has_some = True
            count.add(spent.day, spent.agent_id, spent.session_id, spent.by_model)
        if not has_some:
            self._check_sight(caller, wanted)
        has_sessions = wanted.agent_id is not None
        return count.report(
            lambda model: resolved_route(self._route_of, caller.tenant, model).prices, has_sessions=has_sessions
        )

    def _spent(self, caller: Caller, wanted: UsageQuery, days: tuple[date, ...]) -> Iterator[Spent]:
        """Yield what the caller may see of what is wanted."""
        if wanted.session_id is not None:
            if wanted.agent_id is None:
                raise InvalidRequest("agent_id: is required with session_id", ("query", "agent_id"))
            ref = SessionRef(tenant=caller.tenant, agent_id=wanted.agent_id, session_id=wanted.session_id)
            yield from self._visible(caller, self._store.of_session(ref, days))
            return
        for day in days:
            yield from self._visible(caller, self._store.of_tenant(caller.tenant, day, wanted.agent_id))

    def _visible(self, caller: Caller, spent: Iterable[Spent]) -> Iterator[Spent]:
        if ADMIN in caller.roles:
            yield from spent
            return
        seen = [one for one in spent if self._rules.may_see(caller, one.stamp)]
        agent_ids = list(dict.fromkeys(one.agent_id for one in seen))
        stamps: dict[str, Ownership] = {}
        for first in range(0, len(agent_ids), AGENTS_AT_ONCE):
            some = agent_ids[first : first + AGENTS_AT_ONCE]
            stamps |= self._store.agent_owners(caller.tenant, some)
        for one in seen:
            stamp = stamps.get(one.agent_id)
            if stamp is None or self._rules.may_see(caller, stamp):
                yield one

    def _check_sight(self, caller: Caller, wanted: UsageQuery) -> None:
        """Raise NotFound unless what spent nothing is there, and for the caller to see."""
        if wanted.agent_id is None:
            return
        stamp = self._store.agent_owners(caller.tenant, [wanted.agent_id]).get(wanted.agent_id)
        if wanted.session_id is None:
            if stamp is None:
                raise NotFound("agent", wanted.agent_id)
            if ADMIN not in caller.roles:
                self._rules.check_sight(caller, stamp, "agent", wanted.agent_id)
            return
        ref = SessionRef(tenant=caller.tenant, agent_id=wanted.agent_id, session_id=wanted.session_id)
        session = self._sessions.header(ref)
        if session is None or stamp is None:
            raise NotFound("session", wanted.session_id)
        if ADMIN not in caller.roles:
            check_session(self._rules, caller, session, stamp, self._clock.now())
