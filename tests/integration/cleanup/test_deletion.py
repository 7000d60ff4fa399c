"""A deleted session or agent is gone at once for every caller, also during turns, and nothing of it is left afterwards.

Covers: services/cleanup/deleting, services/cleanup/cleaning, adapters/machine/local_jobs
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import pytest

from tests.fakes.models.scripted import Scripted, ScriptedReply, call
from tests.support.engine.harness import (
    LEASE_S,
    Harness,
    Held,
    Matches,
    ProcessDied,
    answer,
    attempt,
    call_number,
    client_tool,
    completes_turn,
    eventually,
    outline,
    pauses_turn,
    renews,
    saves_step,
    serving,
)
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import Forbidden, NotFound
from turnstone.domain.lists import ListQuery
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.ports.records import MAX_OPERATIONS, Put, Range, RevIs
from turnstone.services.cleanup.cleaning import LATE_PAYLOADS, RECORDS_AT_ONCE, SENT_AGAIN_AFTER, SESSIONS_AT_ONCE
from turnstone.store.layout.keys import session_key, session_partition, turn_key
from turnstone.store.layout.oversize import RECORD_BYTES, OversizeStore

Serve = Callable[..., Harness]
CLIENT_CALL = call("look", "c1")
DICE = {"dice": {"roll": lambda arguments: "4"}}
ANN = Caller(tenant="local", principal="ann", teams=("red",))
MATE = Caller(tenant="local", principal="mate", teams=("red",))
ADMIN = Caller(tenant="local", principal="root", roles=("admin",), teams=("red",))
UNSEEING_ADMIN = Caller(tenant="local", principal="root", roles=("admin",))
STRANGER = Caller(tenant="local", principal="stranger")
FOREIGN_ADMIN = Caller(tenant="other", principal="ann", roles=("admin",), teams=("red",))
KEY = attempt("said", key="k")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    yield from serving(tmp_path)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Serve]:
    """Make servers, each over a folder of its own."""
    made = []

    def make(*arguments: Any) -> Harness:
        made.append(serving(Path(mkdtemp(dir=tmp_path))))
        return next(made[-1])(*arguments)

    yield make
    for servers in made:
        next(servers, None)


def delete_session(server: Harness, ref: SessionRef) -> None:
    server.core.deleting.delete_session(LOCAL_CALLER, ref)


def delete_agent(server: Harness, ref: SessionRef) -> None:
    server.core.deleting.delete_agent(LOCAL_CALLER, ref.agent_id)


DELETIONS = [delete_session, delete_agent]
either = pytest.mark.parametrize("delete", DELETIONS, ids=lambda delete: str(delete.__name__))


def left_of(server: Harness, ref: SessionRef) -> list[tuple[str, str]]:
    """Return the keys of the records that name the session."""
    return [(row[0], row[1]) for row in server.dump() if ref.session_id in f"{row[0]} {row[4]!r}"]


def uses(server: Harness, turn: TurnRef) -> dict[str, Callable[[], object]]:
    core = server.core
    return {
        "get session": lambda: core.sessions.read(LOCAL_CALLER, turn.session, None),
        "get some turns": lambda: core.sessions.read(LOCAL_CALLER, turn.session, (turn.turn_id,)),
        "get turn": lambda: core.reader.read(LOCAL_CALLER, turn).turn,
        "get step": lambda: core.reader.read(LOCAL_CALLER, turn).step("s"),
        "create turn": lambda: server.start(turn.session),
        "repeat the turn": lambda: server.start(turn.session, by=KEY),
        "retry the turn": lambda: server.start(turn.session, by=attempt("said", is_retry=True)),
        "resume": lambda: server.resume(turn, answer("c1")),
        "delete session": lambda: delete_session(server, turn),
    }


@either
def test_a_deleted_session_is_gone_for_every_reader_before_and_after_it_is_cleaned_up(
    serve: Serve, delete: Callable[[Harness, SessionRef], None]
) -> None:
    server = serve([CLIENT_CALL])
    ref = server.session(client_tools=[client_tool()])
    turn = server.paused(ref, by=KEY)
    delete(server, ref)
    for _ in range(2):
        for name, use in uses(server, turn).items():
            with pytest.raises(NotFound) as gone:
                use()
            assert gone.value.kind == "session", name
        assert server.reconcile_turn(turn) is None or delete is delete_agent
        server.clean_up()
    assert left_of(server, ref) == []
    assert server.core.turn_store.open_turns() == []


def test_a_deleted_agent_is_gone_for_every_reader_and_leaves_nothing(serve: Serve) -> None:
    server = serve(["hello"])
    agent_id = server.agent()
    others = server.session()
    ref = server.session(agent_id)
    server.whole_turn(ref)
    core = server.core
    core.deleting.delete_agent(LOCAL_CALLER, agent_id)
    for use in (
        lambda: core.agents.wire(LOCAL_CALLER, agent_id),
        lambda: core.sessions.create(LOCAL_CALLER, agent_id, "s", attempt()),
        lambda: core.sessions.list(LOCAL_CALLER, agent_id, ListQuery()),
        lambda: core.deleting.delete_agent(LOCAL_CALLER, agent_id),
    ):
        with pytest.raises(NotFound) as gone:
            use()
        assert gone.value.kind == "agent"
    _, agents = core.agents.list(LOCAL_CALLER, ListQuery())
    assert len(list(agents)) == 1
    server.clean_up()
    assert [row for row in server.dump() if agent_id in f"{row[0]} {row[4]!r}"] == []
    assert server.header(others).session_id == others.session_id


def test_a_deleted_session_is_in_no_list_and_its_neighbours_are(serve: Serve) -> None:
    server = serve()
    agent_id = server.agent()
    refs = []
    for _ in range(3):
        refs.append(server.session(agent_id))
        server.clock.advance(1)
    delete_session(server, refs[1])
    for _ in range(2):
        listed = [e.fields["session_id"] for e in server.core.sessions.list(LOCAL_CALLER, agent_id, ListQuery())]
        assert listed == [refs[0].session_id, refs[2].session_id]
        server.clean_up()


@pytest.mark.parametrize(
    ("caller", "refusal"),
    [(ANN, None), (ADMIN, None), (UNSEEING_ADMIN, None), (MATE, Forbidden), (STRANGER, NotFound)],
    ids=["owner", "admin", "an admin of no team", "with read access", "without access"],
)
@pytest.mark.parametrize("kind", ["agent", "session"])
def test_only_its_owner_and_an_admin_may_delete_a_session(
    serve: Serve, kind: str, caller: Caller, refusal: type[Exception] | None
) -> None:
    server = serve()
    core = server.core
    agent_id = core.agents.create(ANN, AgentConfig(model="m", instructions=""), attempt())
    session_id = core.sessions.create(ANN, agent_id, "hers", attempt())
    ref = SessionRef(tenant=caller.tenant, agent_id=agent_id, session_id=session_id)

    def delete() -> None:
        if kind == "agent":
            core.deleting.delete_agent(caller, agent_id)
        else:
            core.deleting.delete_session(caller, ref)

    before = server.dump()
    if refusal is None:
        delete()
        assert server.dump() != before
        return
    with pytest.raises(refusal):
        delete()
    assert server.dump() == before


def test_a_session_is_judged_by_its_own_owner_not_by_its_agents(serve: Serve) -> None:
    core = serve().core
    agent_id = core.agents.create(ANN, AgentConfig(model="m", instructions=""), attempt())
    session_id = core.sessions.create(MATE, agent_id, "his", attempt())
    ref = SessionRef(tenant="local", agent_id=agent_id, session_id=session_id)
    with pytest.raises(Forbidden):
        core.deleting.delete_session(ANN, ref)
    core.deleting.delete_session(MATE, ref)


def test_another_tenant_deletes_nothing(serve: Serve) -> None:
    server = serve()
    ref = server.session()
    with pytest.raises(NotFound):
        server.core.deleting.delete_agent(FOREIGN_ADMIN, ref.agent_id)
    with pytest.raises(NotFound):
        server.core.deleting.delete_session(FOREIGN_ADMIN, ref.model_copy(update={"tenant": "other"}))


WRITES = {"step": saves_step, "end": completes_turn}


@either
@pytest.mark.parametrize("write", WRITES)
def test_a_running_turn_stores_nothing_more_and_its_listener_receives_that_it_is_gone(
    serve: Serve, delete: Callable[[Harness, SessionRef], None], write: str
) -> None:
    server = serve([call("roll", "r"), "done"], DICE)
    ref = server.session(toolgroups=["dice"])

    def delete_and_clean() -> None:
        delete(server, ref)
        server.run_jobs()

    server.store.before(WRITES[write], delete_and_clean)
    assert outline(server.whole_turn(ref)).endswith("failed:gone")
    server.clean_up()
    assert left_of(server, ref) == []


@either
def test_a_turn_does_not_pause_into_a_deleted_session(
    serve: Serve, delete: Callable[[Harness, SessionRef], None]
) -> None:
    server = serve([CLIENT_CALL])
    ref = server.session(client_tools=[client_tool()])

    def delete_and_clean() -> None:
        delete(server, ref)
        server.run_jobs()

    server.store.before(pauses_turn, delete_and_clean)
    assert outline(server.whole_turn(ref)).endswith("failed:gone")
    server.clean_up()
    assert left_of(server, ref) == []


LATER_WRITES = {
    "step": (saves_step, call("roll", "r")),
    "pause": (pauses_turn, CLIENT_CALL),
    "end": (completes_turn, "done"),
}


@pytest.mark.parametrize("is_cleaned", [False, True], ids=["deleted", "cleaned up"])
@pytest.mark.parametrize("write", LATER_WRITES)
def test_a_turn_whose_session_another_process_deletes_restores_nothing(
    serve: Serve, write: str, is_cleaned: bool
) -> None:
    writes, reply = LATER_WRITES[write]
    server = serve([reply, "never"], DICE)
    other = server.another()
    ref = server.session(toolgroups=["dice"], client_tools=[client_tool()])
    left: list[list[Any]] = []

    def delete_elsewhere() -> None:
        delete_session(other, ref)
        if is_cleaned:
            other.run_jobs()
        left.append(server.dump())

    server.store.before(writes, delete_elsewhere)
    assert outline(server.whole_turn(ref)).endswith("failed:gone")
    assert left == [server.dump()]


@pytest.mark.slow
def test_a_renewal_finds_out_that_the_session_is_deleted_and_the_engine_stops(serve: Serve) -> None:
    thinking = Held(ScriptedReply(texts=("a", "b", "c")))
    server = serve([thinking], lease_seconds=0.3)
    ref = server.session()
    broadcast = server.start(ref)
    thinking.wait()
    renewed: list[None] = []
    delete_session(server.another(), ref)
    server.store.after(renews, lambda: renewed.append(None))
    lease = server.core.leases.find(broadcast.ref)
    assert lease is not None
    eventually(lambda: lease.is_lost)
    thinking.open()
    assert outline(server.drain(broadcast)) == "start S:infer failed:gone"
    assert (renewed, left_of(server, ref)[:0]) == ([], [])
    server.clean_up()
    assert left_of(server, ref) == []


@either
def test_a_listener_in_the_deleting_process_is_notified_at_once_and_the_run_ends_at_its_next_event(
    serve: Serve, delete: Callable[[Harness, SessionRef], None]
) -> None:
    thinking, also_thinking = Held(ScriptedReply(texts=("a", "b", "c"))), Held("done")
    server = serve([thinking, also_thinking])
    ref, other = server.session(), server.session()
    broadcast = server.start(ref)
    thinking.wait()
    neighbour = server.start(other)
    also_thinking.wait()
    delete(server, ref)
    assert outline(list(broadcast.wait())) == "start S:infer failed:gone"
    assert not neighbour.is_over
    calls = len(server.store.calls)
    assert server.core.leases.find(broadcast.ref) is not None
    thinking.open()
    eventually(lambda: server.core.leases.find(broadcast.ref) is None)
    assert "write" not in [found.verb for found in server.store.calls[calls:]]
    also_thinking.open()
    assert outline(server.drain(neighbour)).endswith("complete")


def test_a_turn_of_a_dead_process_is_not_taken_over_in_a_deleted_session(serve: Serve) -> None:
    server = serve(["never"])
    ref = server.session()
    server.store.before(completes_turn, server.store.die)
    broadcast = server.start(ref)
    server.drain(broadcast)
    heir = server.another(["never told"])
    delete_agent(heir, ref)
    server.clock.advance(LEASE_S)
    assert heir.reconcile_turn(broadcast.ref) is None
    heir.clean_up()
    assert heir.reconcile_turn(broadcast.ref) is None
    assert (left_of(heir, ref), heir.inference.requests) == ([], [])


def test_a_deletion_succeeds_while_a_turn_moves_the_header(serve: Serve) -> None:
    server = serve(["one", "two"])
    ref = server.session()

    def moves(found: Any) -> bool:
        return found.verb == "write" and any(isinstance(o.when[0], RevIs) for o in found.operations if o.when)

    server.store.before(moves, lambda: server.another(["one"]).whole_turn(ref))
    delete_session(server, ref)
    with pytest.raises(NotFound):
        server.whole_turn(ref)


def test_a_session_whose_agent_is_deleted_during_its_creation_does_not_begin(serve: Serve) -> None:
    server = serve()
    agent_id = server.agent()
    other = server.another()
    server.store.before(
        lambda found: found.verb == "write", lambda: other.core.deleting.delete_agent(LOCAL_CALLER, agent_id)
    )
    with pytest.raises(NotFound) as gone:
        server.core.sessions.create(LOCAL_CALLER, agent_id, "s", attempt())
    assert gone.value.kind == "agent"
    other.clean_up()
    assert [row for row in server.dump() if agent_id in f"{row[0]} {row[4]!r}"] == []


@either
def test_of_two_deletions_at_once_one_finds_the_session_gone_and_leaves_no_job(
    serve: Serve, delete: Callable[[Harness, SessionRef], None]
) -> None:
    server = serve()
    ref = server.session()
    other = server.another()
    server.store.before(lambda found: found.verb == "write", lambda: delete(other, ref))
    with pytest.raises(NotFound) as gone:
        delete(server, ref)
    kind, identifier = ("session", ref.session_id) if delete is delete_session else ("agent", ref.agent_id)
    assert (gone.value.kind, gone.value.identifier) == (kind, identifier)
    assert (len(other.jobs.taken()), server.jobs.taken()) == (1, ())
    assert len(server.core.cleaning.due()) == 1
    server.clean_up()
    assert left_of(server, ref) == []


def test_a_request_with_a_key_that_is_repeated_resurrects_nothing(serve: Serve) -> None:
    server = serve(["hello"])
    core = server.core
    agent_id = server.agent()
    by = attempt("session", key="s")
    session_id = core.sessions.create(LOCAL_CALLER, agent_id, "s", by)
    ref = SessionRef(tenant="local", agent_id=agent_id, session_id=session_id)
    server.whole_turn(ref, by=KEY)
    assert any(sk.startswith("idempotency:") for pk, sk in left_of(server, ref))
    delete_session(server, ref)
    server.clean_up()
    assert core.sessions.create(LOCAL_CALLER, agent_id, "s", by) == session_id
    with pytest.raises(NotFound):
        server.whole_turn(ref, by=KEY)
    with pytest.raises(NotFound):
        core.sessions.read(LOCAL_CALLER, ref, None)


# ---- the clean-up


def large() -> str:
    return Random(0).randbytes(RECORD_BYTES).hex()


@either
def test_payloads_are_removed_too_also_those_that_a_dying_process_left(
    serve: Serve, tmp_path: Path, delete: Callable[[Harness, SessionRef], None]
) -> None:
    server = serve(["hello"])
    core = server.core
    agent_id = core.agents.create(
        LOCAL_CALLER, AgentConfig(model="scripted", instructions=large(), name=large()), attempt()
    )
    session_id = core.sessions.create(LOCAL_CALLER, agent_id, large(), attempt())
    ref = SessionRef(tenant="local", agent_id=agent_id, session_id=session_id)
    server.whole_turn(ref, large())
    kept = 2 if delete is delete_session else 0
    assert len(server.blobs()) > 4
    delete(server, ref)
    server.run_jobs()
    assert len(server.blobs()) == kept

    class Dying(SqliteRangeStore):
        def write(self, operations: Any, nonce: str | None = None) -> None:
            raise ProcessDied

    dying = Dying(tmp_path / "turnstone.db")
    with pytest.raises(ProcessDied):
        OversizeStore(dying, FileBlobStore(tmp_path / "blobs")).write(
            [Put(turn_key(ref, "t"), large().encode(), when=(RevIs(1),))]
        )
    dying.close()
    assert len(server.blobs()) == kept + 1
    server.clock.advance(LATE_PAYLOADS.total_seconds())
    server.run_jobs()
    assert len(server.blobs()) == kept
    assert server.core.cleaning.due() == ()


def test_a_job_whose_sending_failed_is_sent_again_some_minutes_later(serve: Serve) -> None:
    server = serve()
    ref = server.session()
    server.jobs.is_down = True
    delete_session(server, ref)
    server.jobs.is_down = False
    assert server.core.cleaning.send_due() == 0
    server.clock.advance(SENT_AGAIN_AFTER.total_seconds())
    assert server.core.cleaning.send_due() == 1
    (job,) = server.jobs.taken()
    assert (job.kind, job.session_ref) == ("clean_session", ref)


def test_a_job_that_is_sent_twice_is_done_once_and_continues_once(serve: Serve) -> None:
    server = serve()
    delete_session(server, server.session())
    (job,) = server.jobs.taken()
    server.core.cleaning.run_for(job, LATE_PAYLOADS)
    before = len(server.store.calls)
    server.core.cleaning.run_for(job, LATE_PAYLOADS)
    assert [found.verb for found in server.store.calls[before:]] == ["get"]
    (again,) = server.jobs.taken()
    assert (again.since, again.due_at) == (job.since, job.since + LATE_PAYLOADS)
    server.clock.advance(LATE_PAYLOADS.total_seconds())
    for _ in range(2):
        server.core.cleaning.run_for(again, LATE_PAYLOADS)
    assert (server.jobs.taken(), server.core.cleaning.due()) == ((), ())


def test_two_runs_of_one_job_at_once_leave_one_successor(serve: Serve) -> None:
    server = serve()
    delete_session(server, server.session())
    (job,) = server.jobs.taken()
    other = server.another()
    server.store.before(lambda found: found.verb == "write", lambda: other.core.cleaning.run_for(job, LATE_PAYLOADS))
    server.core.cleaning.run_for(job, LATE_PAYLOADS)
    assert (len(server.jobs.taken()), len(other.jobs.taken())) == (0, 1)


def test_the_sessions_of_an_agent_are_cleaned_each_by_a_job_of_its_own(serve: Serve) -> None:
    server = serve()
    agent_id = server.agent()
    refs = [server.session(agent_id) for _ in range(2 * SESSIONS_AT_ONCE + 1)]
    server.core.deleting.delete_agent(LOCAL_CALLER, agent_id)
    (job,) = server.jobs.taken()
    server.core.cleaning.run_for(job, LATE_PAYLOADS)
    assert [server.records.get(session_key(ref)) for ref in refs] == [None] * len(refs)
    sent = [job for job in server.jobs.taken() if job.kind == "clean_session"]
    assert sorted(job.session_id for job in sent) == sorted(ref.session_id for ref in refs)
    server.clean_up()
    assert [row for row in server.dump() if agent_id in row[0]] == []


def filled(server: Harness, ref: SessionRef, turns: int) -> None:
    """Store turns with a step each beside them, in batches."""
    puts = [Put(turn_key(ref, f"{number:06}"), b"turn", {"status": "completed"}) for number in range(turns)]
    for first in range(0, turns, MAX_OPERATIONS):
        server.records.write(puts[first : first + MAX_OPERATIONS])


def test_ten_thousand_turns_are_removed_in_parts_of_bounded_calls(serve: Serve) -> None:
    server = serve()
    ref = server.session()
    filled(server, ref, 10_000)
    delete_session(server, ref)
    before = len(server.store.calls)
    parts = server.run_jobs()
    calls = [found.verb for found in server.store.calls[before:]]
    assert parts == 10_000 // RECORDS_AT_ONCE + 1
    assert calls.count("clear") == parts + 1  # the last part reads the list's entry, too
    assert len(calls) <= 4 * parts + 2
    assert left_of(server, ref) == [key for key in left_of(server, ref) if key[0].startswith("job:")]
    server.clean_up()
    assert left_of(server, ref) == []


def test_a_job_continues_within_its_time_without_being_sent(serve: Serve) -> None:
    server = serve()
    ref = server.session()
    filled(server, ref, 3 * RECORDS_AT_ONCE)
    delete_session(server, ref)
    (job,) = server.jobs.taken()
    server.core.cleaning.run_for(job, LATE_PAYLOADS)
    assert server.records.range(Range(session_partition(ref))).records == ()


def acting(server: Harness, moment: str) -> Callable[[Matches, Callable[[], object]], None]:
    return server.store.before if moment == "before" else server.store.after


def scene(fresh: Serve) -> tuple[Harness, SessionRef]:
    script: list[Scripted] = [call("roll", "r"), "done", CLIENT_CALL]
    server = fresh(script, DICE)
    ref = server.session(toolgroups=["dice"], client_tools=[client_tool()])
    server.whole_turn(ref)
    server.paused(ref, by=KEY)
    return server, ref


@either
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_any_call_of_deletion_and_clean_up(
    fresh: Serve, delete: Callable[[Harness, SessionRef], None], moment: str
) -> None:
    def to_the_end(server: Harness, ref: SessionRef) -> None:
        delete(server, ref)
        server.clean_up()

    server, ref = scene(fresh)
    before = len(server.store.calls)
    to_the_end(server, ref)
    assert left_of(server, ref) == []
    numbers = range(before + 1, len(server.store.calls) + 1)
    assert len(numbers) > 8
    for number in numbers:
        server, ref = scene(fresh)
        acting(server, moment)(call_number(number), server.store.die)
        with suppress(ProcessDied):
            to_the_end(server, ref)
        assert server.store.is_dead or number > numbers[-1] - 3  # jobs of one shard are read in one call
        heir = server.another()
        with suppress(NotFound):
            delete(heir, ref)
        heir.clean_up()
        heir.clean_up()
        assert left_of(heir, ref) == [], f"call {number}"
        assert heir.core.cleaning.due() == ()
        assert heir.core.turn_store.open_turns() == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_any_call_after_the_deletion_needs_no_second_deletion(fresh: Serve, moment: str) -> None:
    """Once the session is gone for a reader, the next sweep for due jobs removes the rest."""
    server, ref = scene(fresh)
    before = len(server.store.calls)
    delete_agent(server, ref)
    deleted = len(server.store.calls)
    server.clean_up()
    for number in range(deleted, len(server.store.calls) + 1):
        if number == deleted and moment == "before":
            continue
        server, ref = scene(fresh)
        assert len(server.store.calls) == before
        acting(server, moment)(call_number(number), server.store.die)
        with suppress(ProcessDied):
            delete_agent(server, ref)
            server.clean_up()
        heir = server.another()
        heir.clean_up()
        heir.clean_up()
        assert left_of(heir, ref) == [], f"call {number}"
