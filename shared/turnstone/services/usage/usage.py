"""Reports of spent tokens: to callers that may see the agents and sessions, and to admins for all."""

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
    """Dependencies of the reports. `route_of` returns the route with a model's prices."""

    store: UsageStore
    sessions: SessionStore
    rules: AccessRules
    route_of: RouteOf
    clock: Clock


class Usage:
    """Reports of usage. That of deleted agents and sessions stays visible to callers that could see them."""

    def __init__(self, deps: UsageDeps) -> None:
        self._store = deps.store
        self._sessions = deps.sessions
        self._rules = deps.rules
        self._route_of = deps.route_of
        self._clock = deps.clock

    def report(self, caller: Caller, query: UsageQuery) -> UsageReport:
        """Return the usage of all records that the caller may see, of one agent or of one of its sessions.

        Raises:
            NotFound: the agent or session never existed, or the caller may not see it.
            InvalidRequest: a session without its agent, no day, or too many.
        """
        days = query.days(self._clock.now().date())
        count = UsageCount(days)
        has_some = False
        for spent in self._spent(caller, query, days):
            has_some = True
            count.add(spent.day, spent.agent_id, spent.session_id, spent.by_model)
        if not has_some:
            self._check_sight(caller, query)
        has_sessions = query.agent_id is not None
        return count.report(
            lambda model: resolved_route(self._route_of, caller.tenant, model).prices, has_sessions=has_sessions
        )

    def _spent(self, caller: Caller, query: UsageQuery, days: tuple[date, ...]) -> Iterator[Spent]:
        """Yield the usage that matches the query and that the caller may see."""
        if query.session_id is not None:
            if query.agent_id is None:
                raise InvalidRequest("agent_id: is required with session_id", ("query", "agent_id"))
            ref = SessionRef(tenant=caller.tenant, agent_id=query.agent_id, session_id=query.session_id)
            yield from self._visible(caller, self._store.of_session(ref, days))
            return
        for day in days:
            yield from self._visible(caller, self._store.of_tenant(caller.tenant, day, query.agent_id))

    def _visible(self, caller: Caller, spent: Iterable[Spent]) -> Iterator[Spent]:
        if ADMIN in caller.roles:
            yield from spent
            return
        seen = [one for one in spent if self._rules.may_see(caller, one.stamp)]
        agent_ids = list(dict.fromkeys(one.agent_id for one in seen))
        owners: dict[str, Ownership] = {}
        for first in range(0, len(agent_ids), AGENTS_AT_ONCE):
            some = agent_ids[first : first + AGENTS_AT_ONCE]
            owners |= self._store.agent_owners(caller.tenant, some)
        for one in seen:
            stamp = owners.get(one.agent_id)
            if stamp is None or self._rules.may_see(caller, stamp):
                yield one

    def _check_sight(self, caller: Caller, query: UsageQuery) -> None:
        """Raise NotFound unless the agent or session, which spent nothing, exists and the caller may see it."""
        if query.agent_id is None:
            return
        stamp = self._store.agent_owners(caller.tenant, [query.agent_id]).get(query.agent_id)
        if query.session_id is None:
            if stamp is None:
                raise NotFound("agent", query.agent_id)
            if ADMIN not in caller.roles:
                self._rules.check_sight(caller, stamp, "agent", query.agent_id)
            return
        ref = SessionRef(tenant=caller.tenant, agent_id=query.agent_id, session_id=query.session_id)
        session = self._sessions.header(ref)
        if session is None or stamp is None:
            raise NotFound("session", query.session_id)
        if ADMIN not in caller.roles:
            check_session(self._rules, caller, session, stamp, self._clock.now())
