"""Lists in the order of creation, read part by part, at a cost that grows with the part.

Covers: services/access/visible_list, store/layout/listing, services/agents/agents, services/sessions/sessions
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from tests.benchmarks.counted_store import CountedStore
from tests.support.engine.harness import Harness, attempt, serving
from tests.support.stores.session_lists import fill
from turnstone.adapters.machine.system import RandomIds
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.access.access import Ownership
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.lists import ListQuery, checked_cursor
from turnstone.ports.records import Get, Put, Range, Record, RevIs
from turnstone.services.access.access import AccessRules
from turnstone.services.access.visible_list import MOST_HIDDEN, Listing
from turnstone.services.sessions.sessions import SessionDeps, Sessions
from turnstone.store.agents.agents import AgentStore
from turnstone.store.layout.frames import frame, private_part, wire_part
from turnstone.store.layout.keys import agent_key, agent_list, session_key, session_list
from turnstone.store.layout.listing import ListEntry
from turnstone.store.sessions.sessions import SessionStore

Serve = Callable[..., Harness]
EVERYONE = Ownership()
OTHER_OWNER = Ownership(owner="somebody else")


def without_owner(record: Record) -> Put:
    """Return the write that removes the owner from a record, as in records of older versions."""
    if b"\n" not in record.body:
        fields = from_json(record.body)
        del fields["stamp"]
        return Put(record.key, to_json(fields), dict(record.attributes), when=(RevIs(record.rev),))
    private = private_part(record.body)
    del private["stamp"]
    body = frame(private, wire_part(record.body))
    return Put(record.key, body, dict(record.attributes), when=(RevIs(record.rev),))


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    yield from serving(tmp_path)


def listed(server: Harness, agent_id: str, **query: object) -> tuple[list[str], Listing]:
    listing = server.core.sessions.list(LOCAL_CALLER, agent_id, ListQuery(**query))
    return [entry.fields["session_id"] for entry in listing], listing


def entries(owners: list[Ownership]) -> Iterator[ListEntry]:
    return (ListEntry(f"{number:05}", {"number": number}, owner) for number, owner in enumerate(owners))


def test_sessions_are_listed_in_the_order_of_their_creation_as_soon_as_they_are_there(serve: Serve) -> None:
    server = serve()
    agent_id = server.agent()
    made: list[str] = []
    for _ in range(5):
        made.append(server.session(agent_id).session_id)
        server.clock.advance(1)
        found, listing = listed(server, agent_id)
        assert (found, listing.has_more, listing.cursor) == (made, False, None)


@pytest.mark.parametrize(
    ("query", "expected", "has_more"),
    [
        ({}, [0, 1, 2, 3, 4], False),
        ({"limit": 0}, [], True),
        ({"limit": 2}, [0, 1], True),
        ({"limit": 5}, [0, 1, 2, 3, 4], False),
        ({"start_index": 3}, [3, 4], False),
        ({"start_index": 1, "limit": 2}, [1, 2], True),
        ({"start_index": 3, "limit": 2}, [3, 4], False),
        ({"start_index": 9, "limit": 2}, [], False),
    ],
)
def test_a_part_of_a_list_is_the_requested_one(
    serve: Serve, query: dict[str, int], expected: list[int], has_more: bool
) -> None:
    server = serve()
    agent_id = server.agent()
    made = []
    for _ in range(5):
        server.clock.advance(1)
        made.append(server.session(agent_id).session_id)
    found, listing = listed(server, agent_id, **query)
    assert (found, listing.has_more) == ([made[number] for number in expected], has_more)


def test_agents_are_listed_whole_and_by_name(serve: Serve) -> None:
    server = serve()
    ids = []
    for name in ("one", "two", "one"):
        server.clock.advance(1)
        ids.append(server.agent(name=name))
    _, every = server.core.agents.list(LOCAL_CALLER, ListQuery())
    whole = [server.core.agents.wire(LOCAL_CALLER, agent_id) for agent_id in ids]
    assert list(every) == whole
    listing, named = server.core.agents.list(LOCAL_CALLER, ListQuery(name="one", limit=5))
    assert list(named) == [whole[0], whole[2]]
    assert (listing.has_more, listing.cursor) == (False, None)


@pytest.mark.parametrize("start_index", [0, 2])
def test_a_list_with_a_limit_of_zero_reports_whether_there_are_entries_and_a_cursor(
    serve: Serve, start_index: int
) -> None:
    server = serve()
    agent_id = server.agent()
    _, empty = listed(server, agent_id, limit=0)
    assert (empty.has_more, empty.cursor) == (False, None)
    made = []
    for _ in range(4):
        server.clock.advance(1)
        made.append(server.session(agent_id).session_id)
    found, none = listed(server, agent_id, limit=0, start_index=start_index)
    assert (found, none.has_more) == ([], True)
    assert listed(server, agent_id, cursor=checked_cursor(str(none.cursor)))[0] == made[start_index:]
    _, again = listed(server, agent_id, limit=0, cursor=none.cursor)
    assert (again.has_more, again.cursor) == (True, none.cursor)
    _, some = listed(server, agent_id, limit=3)
    _, last = listed(server, agent_id, limit=0, cursor=some.cursor)
    assert (last.has_more, last.cursor) == (True, some.cursor)
    _, rest = listed(server, agent_id, limit=1, cursor=last.cursor)
    assert (rest.has_more, rest.cursor) == (False, None)


def test_a_list_of_the_sessions_of_an_unknown_agent_is_not_found(serve: Serve) -> None:
    with pytest.raises(NotFound):
        serve().core.sessions.list(LOCAL_CALLER, "unknown", ListQuery())


@given(
    owners=st.lists(st.sampled_from([EVERYONE, OTHER_OWNER]), max_size=40),
    limit=st.integers(1, 7),
    start=st.integers(0, 5),
)
def test_a_list_read_by_cursors_is_the_list(owners: list[Ownership], limit: int, start: int) -> None:
    rules = AccessRules(owner_only=True)
    shown = [number for number, owner in enumerate(owners) if rules.may_see(LOCAL_CALLER, owner)]
    found: list[int] = []
    cursor: str | None = None
    has_more = True
    while has_more:
        behind = (entry for entry in entries(owners) if cursor is None or entry.order > cursor)
        query = ListQuery(limit=limit, cursor=cursor, start_index=0 if found or cursor else start)
        listing = Listing(behind, query, lambda entry: rules.may_see(LOCAL_CALLER, entry.stamp))
        part = [entry.fields["number"] for entry in listing]
        assert len(part) <= limit
        assert listing.has_more == (listing.cursor is not None)
        found += part
        cursor, has_more = listing.cursor, listing.has_more
    assert found == shown[start:]


def test_of_a_list_that_hides_nearly_everything_a_request_reads_a_bounded_part() -> None:
    reads: list[str] = []

    def read_entries() -> Iterator[ListEntry]:
        for entry in entries([OTHER_OWNER] * 5_000 + [EVERYONE]):
            reads.append(entry.order)
            yield entry

    rules = AccessRules(owner_only=True)
    listing = Listing(read_entries(), ListQuery(limit=10), lambda entry: rules.may_see(LOCAL_CALLER, entry.stamp))
    assert list(listing) == []
    assert (listing.has_more, listing.cursor, len(reads)) == (True, reads[-1], MOST_HIDDEN)


@pytest.mark.parametrize("cursor", ["x", "", "#", "019b76da-a800-7000-8000-00000000000", "turn:0", "é" * 36])
def test_a_cursor_that_was_not_issued_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="cursor"):
        checked_cursor(cursor)


@pytest.mark.slow
def test_the_thousandth_page_of_a_hundred_thousand_sessions_costs_as_much_as_the_first(tmp_path: Path) -> None:
    """No turn is read: turns are in other partitions, which a list does not read."""
    sqlite = SqliteRangeStore(tmp_path / "turnstone.db")
    counted = CountedStore(sqlite)
    server = Harness(tmp_path)
    agent_id = server.agent()
    orders = fill(sqlite, agent_id, 100_000)
    sessions = Sessions(
        SessionDeps(
            store=SessionStore(counted),
            agents=AgentStore(counted),
            rules=AccessRules(owner_only=False),
            supervisor=server.supervisor,
            clock=server.clock,
            ids=RandomIds(),
            ephemeral_for_s=1.0,
            check_bank=lambda caller, bank_id: None,
        )
    )
    costs = []
    for page in (0, 1, 999, 4_999):
        cursor = orders[page * 20 - 1] if page else None
        counted.taken()
        listing = sessions.list(LOCAL_CALLER, agent_id, ListQuery(limit=20, cursor=cursor))
        assert [entry.order for entry in listing] == orders[page * 20 : page * 20 + 20]
        bill = counted.taken()
        costs.append((bill.calls, bill.read_units))
    assert set(costs[:3]) == {costs[0]}
    assert costs[0] == (2, 3)
    server.close()
    sqlite.close()


def test_listing_while_agents_are_made_misses_none_that_was_there(serve: Serve) -> None:
    server = serve()
    for _ in range(3):
        server.clock.advance(1)
        server.agent()
    first, part = server.core.agents.list(LOCAL_CALLER, ListQuery(limit=2))
    assert len(list(part)) == 2
    server.core.agents.create(LOCAL_CALLER, AgentConfig(model="m", instructions=""), attempt())
    _, rest = server.core.agents.list(LOCAL_CALLER, ListQuery(limit=9, cursor=first.cursor))
    assert len(list(rest)) == 2


def test_records_without_an_owner_are_listed_and_read(serve: Serve) -> None:
    server = serve()
    agent_id = server.agent()
    ref = server.session(agent_id)
    ranges = [Range(agent_list("local")), Range(session_list("local", agent_id))]
    keys = [agent_key("local", agent_id), session_key(ref)]
    found, pages = server.records.gather([Get(key) for key in keys], ranges)
    owned = [*found, *(record for page in pages for record in page.records)]
    server.records.write([without_owner(record) for record in owned if record])
    assert len(owned) == 4
    assert listed(server, agent_id)[0] == [ref.session_id]
    _, agents = server.core.agents.list(LOCAL_CALLER, ListQuery())
    assert len(list(agents)) == 1
    assert server.core.agents.wire(LOCAL_CALLER, agent_id)
    assert server.core.sessions.read(LOCAL_CALLER, ref, None)
