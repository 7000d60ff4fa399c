"""Sessions of agents that keep none live for some time after their last use, and are cleaned up then.

Covers: services/sessions/sessions, services/cleanup/cleaning, store/sessions/sessions
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.fakes.models.scripted import call
from tests.support.engine.harness import AWAIT_S, Harness, Held, answer, attempt, client_tool, opens_turn, serving
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import NotFound
from turnstone.domain.lists import ListQuery
from turnstone.domain.refs import SessionRef
from turnstone.services.cleanup.cleaning import RECHECK_AFTER, SENT_AGAIN_AFTER

Serve = Callable[..., Harness]
TTL_S = 600
CLIENT_CALL = call("look", "c1")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    servers = serving(tmp_path)
    yield partial(next(servers), ephemeral_ttl_s=TTL_S)
    next(servers, None)


def ephemeral(server: Harness, agent_id: str | None = None) -> SessionRef:
    agent_id = agent_id or server.agent(enable_session_persistence=False, client_tools=[client_tool()])
    return server.session(agent_id)


def is_there(server: Harness, ref: SessionRef) -> bool:
    """Return whether readers find the session; all of them, or none."""
    listed = server.core.sessions.list(LOCAL_CALLER, ref.agent_id, ListQuery())
    is_listed = ref.session_id in [entry.fields["session_id"] for entry in listed]
    try:
        server.core.sessions.read(LOCAL_CALLER, ref, None)
    except NotFound:
        assert not is_listed
        return False
    assert is_listed
    return True


def left_of(server: Harness, ref: SessionRef) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in server.dump() if ref.session_id in f"{row[0]} {row[4]!r}"]


def test_an_expired_session_is_gone_for_readers_before_its_clean_up(serve: Serve) -> None:
    server = serve()
    ref = ephemeral(server)
    server.clock.advance(TTL_S - 1)
    assert is_there(server, ref)
    server.clock.advance(1)
    assert not is_there(server, ref)
    with pytest.raises(NotFound):
        server.start(ref)
    with pytest.raises(NotFound):
        server.core.deleting.delete_session(LOCAL_CALLER, ref)
    server.clean_up()
    assert left_of(server, ref) == []


def test_a_session_of_an_agent_that_keeps_its_sessions_stays(serve: Serve) -> None:
    server = serve(["hello"])
    ref = server.session(enable_session_persistence=True)
    server.clock.advance(100 * TTL_S)
    assert is_there(server, ref)
    assert server.core.cleaning.due() == ()
    assert server.header(ref).ends_at is None


def test_a_turn_extends_the_session_from_its_opening_and_so_does_a_resume(serve: Serve) -> None:
    server = serve(["hello", CLIENT_CALL, "done"])
    ref = ephemeral(server)
    for use in (lambda: server.whole_turn(ref), lambda: server.paused(ref)):
        server.clock.advance(TTL_S - 1)
        use()
    turn = server.core.turn_store.open_turns()[0]
    server.clock.advance(TTL_S - 1)
    server.drain(server.resume(turn, answer("c1")))
    server.clock.advance(TTL_S - 1)
    assert is_there(server, ref)
    server.clean_up()
    assert is_there(server, ref) is False  # `clean_up` takes minutes
    server.clock.advance(TTL_S)
    server.clean_up()
    assert left_of(server, ref) == []


def test_a_turn_that_took_long_can_be_read_for_as_long_after_its_end(serve: Serve) -> None:
    thinking = Held()
    server = serve([thinking])
    ref = ephemeral(server)
    broadcast = server.start(ref)
    thinking.wait()
    server.clock.advance(TTL_S * 2)
    thinking.open()
    server.drain(broadcast)
    server.clock.advance(TTL_S - 1)
    assert is_there(server, ref)
    server.clock.advance(2)
    assert not is_there(server, ref)


def test_a_turn_costs_no_more_calls_of_the_store(serve: Serve) -> None:
    server = serve(["hello", "hello"])
    counts = []
    for ref in (ephemeral(server), server.session(enable_session_persistence=True)):
        before = len(server.store.calls)
        server.whole_turn(ref)
        counts.append([found.verb for found in server.store.calls[before:]])
    assert counts[0] == counts[1]


def test_a_waiting_turn_keeps_the_session_alive_until_it_ends(serve: Serve) -> None:
    server = serve([CLIENT_CALL, "done"])
    ref = ephemeral(server)
    turn = server.paused(ref)
    server.clock.advance(TTL_S + 1)
    server.run_jobs()
    assert is_there(server, ref)
    server.clock.advance(RECHECK_AFTER.total_seconds())
    server.run_jobs()
    assert is_there(server, ref)
    server.clock.advance(AWAIT_S)
    server.reconcile_due()
    assert turn not in server.core.turn_store.open_turns()
    server.clock.advance(TTL_S - 1)
    assert is_there(server, ref)
    server.clock.advance(1)
    assert not is_there(server, ref)
    server.run_jobs()
    server.clean_up()
    assert left_of(server, ref) == []


@pytest.mark.parametrize("used_after_s", [3, TTL_S - 1])
def test_the_end_of_a_session_used_since_is_deferred(serve: Serve, used_after_s: int) -> None:
    server = serve(["hello"])
    ref = ephemeral(server)
    server.clock.advance(used_after_s)
    server.whole_turn(ref)
    ends_at = server.header(ref).ends_at
    server.clock.advance(TTL_S - used_after_s)
    server.run_jobs()
    assert is_there(server, ref)
    server.clock.advance(used_after_s - 1)
    assert server.core.cleaning.due() == ()
    assert is_there(server, ref)
    server.clock.advance(1)
    (job,) = server.core.cleaning.due()
    assert (job.kind, job.due_at) == ("end_session", ends_at)


def test_a_turn_that_opens_while_the_session_is_being_ended_wins_or_finds_it_gone(serve: Serve) -> None:
    server = serve(["hello"])
    ref = ephemeral(server)
    server.clock.advance(TTL_S - 1)
    other = server.another()

    def ended() -> None:
        server.clock.advance(1)
        other.run_jobs()

    server.store.before(opens_turn, ended)
    with pytest.raises(NotFound):
        server.start(ref)
    assert not is_there(server, ref)


def test_a_session_that_is_used_while_it_is_being_ended_stays(serve: Serve) -> None:
    server = serve(["hello"])
    ref = ephemeral(server)
    server.clock.advance(TTL_S)
    other = server.another()

    def used_where_the_clock_is_behind() -> None:
        server.clock.advance(-1)
        server.whole_turn(ref)
        server.clock.advance(1)

    other.store.before(lambda found: found.verb == "write", used_where_the_clock_is_behind)
    other.run_jobs()
    assert is_there(server, ref)
    server.assert_whole(ref)
    assert [job.kind for job in other.jobs.taken()][-1:] == ["end_session"]
    server.clock.advance(TTL_S)
    server.clean_up()
    assert left_of(server, ref) == []


def test_the_sweeper_sends_the_end_of_a_session(serve: Serve) -> None:
    server = serve()
    ref = ephemeral(server)
    assert server.jobs.taken() == ()
    server.clock.advance(TTL_S)
    assert server.core.cleaning.send_due() == 0
    server.clock.advance(SENT_AGAIN_AFTER.total_seconds())
    assert server.core.cleaning.send_due() == 1
    (job,) = server.jobs.taken()
    server.core.cleaning.run_for(job, SENT_AGAIN_AFTER)
    assert [job.kind for job in server.jobs.taken()] == ["clean_session"]
    server.clean_up()
    assert left_of(server, ref) == []


def test_a_session_deleted_before_its_time_leaves_nothing_either(serve: Serve) -> None:
    server = serve(["hello"])
    agent_id = server.agent(enable_session_persistence=False)
    refs = [ephemeral(server, agent_id) for _ in range(2)]
    server.core.deleting.delete_session(LOCAL_CALLER, refs[0])
    server.core.deleting.delete_agent(LOCAL_CALLER, agent_id)
    server.clock.advance(TTL_S)
    server.clean_up()
    assert [row for row in server.dump() if agent_id in row[0]] == []


def test_a_long_list_of_expired_sessions_is_read_in_parts(serve: Serve) -> None:
    server = serve()
    agent_id = server.agent(enable_session_persistence=False)
    by_key = attempt("s", key="s")
    first = server.core.sessions.create(LOCAL_CALLER, agent_id, "s", by_key)
    for _ in range(30):
        ephemeral(server, agent_id)
    server.clock.advance(TTL_S)
    late = ephemeral(server, agent_id)
    listed = server.core.sessions.list(LOCAL_CALLER, agent_id, ListQuery(limit=5))
    assert [entry.fields["session_id"] for entry in listed] == [late.session_id]
    assert "ends_at" not in next(iter(server.core.sessions.list(LOCAL_CALLER, agent_id, ListQuery()))).fields
    assert server.core.sessions.create(LOCAL_CALLER, agent_id, "s", by_key) == first
