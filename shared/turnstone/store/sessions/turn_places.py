"""Find the session of a turn: the only read that grows with the sessions of an agent."""

from itertools import islice

from turnstone.domain.refs import SessionRef
from turnstone.ports.records import Get
from turnstone.ports.storage import RangeStore
from turnstone.store.layout.keys import session_list, turn_key
from turnstone.store.layout.listing import ENTRIES_AT_ONCE, entries_of


def session_with_turn(store: RangeStore, agent: tuple[str, str], turn_id: str) -> str | None:
    """Return the id of the agent's session that has the turn, None without one; the agent is a tenant and an id."""
    tenant, agent_id = agent
    entries = entries_of(store, session_list(tenant, agent_id), None, None)
    while some := [str(entry.fields["session_id"]) for entry in islice(entries, ENTRIES_AT_ONCE)]:
        refs = [SessionRef(tenant=tenant, agent_id=agent_id, session_id=session_id) for session_id in some]
        found, _ = store.gather([Get(turn_key(ref, turn_id)) for ref in refs], [])
        for session_id, record in zip(some, found, strict=True):
            if record is not None:
                return session_id
    return None
