"""An opening stores its session and the records beside it or nothing; with patience it waits for the session.

Covers: services/turns/opening, services/streams/session_queues, http/server/waiting
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.scripted import Scripted
from tests.support.engine.either_store import Make
from tests.support.engine.harness import (
    LEASE_S,
    Harness,
    Held,
    Server,
    attempt,
    eventually,
    opens_turn,
    serving,
)
from tests.support.server.asgi_client import Raw, answer_of, scope_of
from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import Conflict, NotFound, StoreUnavailable, TurnAwaited
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.refs import SessionRef
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.turns.turns import NewTurn, TurnStatus
from turnstone.http.replies import TurnReply
from turnstone.http.request import Request
from turnstone.http.route import Route
from turnstone.http.server.app import build_app
from turnstone.http.server.endpoint import BodyLimits
from turnstone.http.server.hosting import OneMachine
from turnstone.ports.records import Absent, Key, Put
from turnstone.services.streams import session_queues
from turnstone.services.threads.slots import QueueLimits
from turnstone.services.turns.run_request import BesideConflict, Opening

Serve = Callable[..., Harness]
HELLO = NewTurn(messages=(UserMessage(content="hello"),))
BESIDE = Key("local|notes", "note:1")
NOTE = Put(BESIDE, b"{}", when=(Absent(),))
LIMIT_S = 20.0


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    yield from serving(tmp_path)


def drafted(server: Server, **fields: Any) -> tuple[SessionRef, Session]:
    """Return a session that is not stored yet, of a new agent."""
    agent_id, now = server.agent(), server.clock.now()
    ids = server.turns._deps.ids
    session = Session(
        agent_id=agent_id,
        session_id=ids.new_id(),
        session_name="made by its turn",
        started_at=now,
        order=ids.order_key(now, None),
        stamp=owner_of(LOCAL_CALLER),
        **fields,
    )
    ref = SessionRef(tenant=LOCAL_CALLER.tenant, agent_id=agent_id, session_id=session.session_id)
    return ref, session


# ── one write for all ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_session_its_turn_and_the_records_beside_are_stored_in_one_write(make: Make) -> None:
    server = make("done")
    ref, session = drafted(server)
    before = len(server.store.calls)
    broadcast = server.turns.start(LOCAL_CALLER, ref, Opening(HELLO, create=session, beside=(NOTE,)), attempt())
    server.drain(broadcast)
    writes = [call for call in server.store.calls[before:] if call.verb == "write" and opens_turn(call)]
    assert len(writes) == 1
    assert server.state(broadcast.ref).status is TurnStatus.COMPLETED
    assert server.records.get(BESIDE) is not None
    listed = server.core.sessions.list(LOCAL_CALLER, ref.agent_id, _all())
    assert [entry.fields["session_id"] for entry in listed] == [ref.session_id]
    server.assert_whole(ref)


def _all() -> Any:
    from turnstone.domain.lists import ListQuery

    return ListQuery()


def test_in_the_background_likewise(make: Make) -> None:
    server = make("done")
    ref, session = drafted(server)
    opening = Opening(HELLO, create=session, beside=(NOTE,))
    turn = server.turns.start_in_background(LOCAL_CALLER, ref, opening, attempt()).ref
    server.core.recovery.see_through(turn, server.clock.now() + timedelta(hours=1))
    eventually(lambda: server.state(turn).status is TurnStatus.COMPLETED)
    server.settle()
    assert server.records.get(BESIDE) is not None
    server.assert_whole(ref)


@pytest.mark.parametrize("is_lost", [False, True], ids=["before its effect", "after it"])
def test_when_the_write_fails_all_is_stored_or_nothing_and_a_retry_stores_it_once(make: Make, is_lost: bool) -> None:
    server = make("done")
    ref, session = drafted(server)
    opening = Opening(HELLO, create=session, beside=(NOTE,))

    def fail() -> None:
        raise StoreUnavailable("no answer")

    (server.store.after if is_lost else server.store.before)(opens_turn, fail)
    by = attempt("same", key="key")
    with pytest.raises(StoreUnavailable):
        server.turns.start(LOCAL_CALLER, ref, opening, by)
    assert (server.records.get(BESIDE) is not None) is is_lost
    if is_lost:
        assert [state.status for state in server.states(ref)] == [TurnStatus.IN_PROGRESS]
        server.clock.advance(LEASE_S)
    else:
        with pytest.raises(NotFound):
            server.start(ref)
    again = server.turns.start_in_background(LOCAL_CALLER, ref, opening, by)
    assert len(server.states(ref)) == 1
    server.core.recovery.see_through(again.ref, server.clock.now() + timedelta(hours=1))
    eventually(lambda: server.state(again.ref).status is TurnStatus.COMPLETED)
    server.settle()


def test_the_same_opening_joins_the_turn_that_it_opened(serve: Serve) -> None:
    thinking = Held("once")
    server = serve([thinking])
    ref, session = drafted(server)
    by = attempt("same")
    opening = Opening(HELLO, create=session)
    first = server.turns.start(LOCAL_CALLER, ref, opening, by)
    second = server.turns.start(LOCAL_CALLER, ref, opening, by)
    thinking.open()
    assert second.ref == first.ref
    server.drain(first)
    assert server.turns.start(LOCAL_CALLER, ref, opening, by).ref == first.ref
    assert len(server.states(ref)) == 1


def test_a_record_beside_that_exists_stores_nothing(make: Make) -> None:
    server = make()
    ref, session = drafted(server)
    server.records.write([NOTE])
    with pytest.raises(BesideConflict) as found:
        server.turns.start(LOCAL_CALLER, ref, Opening(HELLO, create=session, beside=(NOTE,)), attempt())
    assert isinstance(found.value.conflict, Conflict)
    assert found.value.conflict.found is not None
    with pytest.raises(NotFound):
        server.start(ref)
    assert server.states(ref) == []


def test_without_its_agent_no_session_is_created(make: Make) -> None:
    server = make()
    ref, session = drafted(server)
    server.store.before(opens_turn, lambda: server.core.deleting.delete_agent(LOCAL_CALLER, ref.agent_id))
    with pytest.raises(NotFound) as missing:
        server.turns.start(LOCAL_CALLER, ref, Opening(HELLO, create=session), attempt())
    assert missing.value.kind == "agent"
    assert server.states(ref) == []


def test_an_ephemeral_session_that_a_turn_creates_ends_after_its_time(serve: Serve) -> None:
    server = serve(["done"])
    ref, session = drafted(server, lives_for_s=60)
    server.drain(server.turns.start(LOCAL_CALLER, ref, Opening(HELLO, create=session), attempt()))
    server.clock.advance(61)
    server.run_jobs()
    with pytest.raises(NotFound):
        server.start(ref)


# ── patience ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Pending:
    """A request of the app under way."""

    def __init__(self, app: Any, target: str) -> None:
        self.sent: list[Any] = []
        self._left = asyncio.Event()
        self._body = [{"type": "http.request", "body": b"", "more_body": False}]
        self.task = asyncio.ensure_future(app(scope_of(Raw("POST", target.encode())), self._receive, self._send))

    def leave(self) -> None:
        self._left.set()

    async def status(self) -> int:
        await asyncio.wait_for(self.task, LIMIT_S)
        return answer_of(self.sent).status

    async def _receive(self) -> Any:
        if self._body:
            return self._body.pop()
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)


class Patient:
    """A server with a route whose turns have patience."""

    def __init__(self, server: Harness, patience_s: float = LIMIT_S) -> None:
        def endpoint(request: Request) -> TurnReply:
            ref = SessionRef(tenant=request.caller.tenant, **request.path_params)
            new = NewTurn(messages=(UserMessage(content=request.query["text"][0]),))
            opening = Opening(new, patience_s=patience_s)
            return TurnReply(request.use_cases.turns.start(request.caller, ref, opening, attempt()))

        route = Route("POST", "/{agent_id}/{session_id}", endpoint, None)
        self.server = server
        self.app = build_app([route], server.core, BodyLimits(1_000, 1_000), OneMachine())
        self.queues = server.core.session_queues

    def send(self, ref: SessionRef, text: str) -> Pending:
        return Pending(self.app, f"/{ref.agent_id}/{ref.session_id}?text={text}")

    async def waiting(self, number: int) -> None:
        deadline = asyncio.get_running_loop().time() + LIMIT_S
        while self.queues.waiting != number:
            assert asyncio.get_running_loop().time() < deadline, f"{self.queues.waiting} wait, not {number}"
            await asyncio.sleep(0.001)

    def run(self, test: Callable[[], Awaitable[None]]) -> None:
        asyncio.run(asyncio.wait_for(test(), 2 * LIMIT_S))  # type: ignore[arg-type]
        assert self.queues.waiting == 0
        self.server.settle()


def busy(serve: Serve, *more: Scripted, **settings: Any) -> tuple[Patient, Held, SessionRef]:
    """Return a server with a running turn, what holds it, and its session."""
    thinking = Held("first")
    server = serve([thinking, *more])
    ref = server.session()
    server.start(ref)
    thinking.wait()
    return Patient(server, **settings), thinking, ref


def texts_in(server: Server, ref: SessionRef) -> list[object]:
    return [state.turn.input_messages[0].content for state in server.states(ref)]


def test_patient_requests_are_served_in_order_of_arrival_without_a_thread(serve: Serve) -> None:
    there, thinking, ref = busy(serve, *["ok"] * 20)
    texts = [f"text-{number}" for number in range(12)]  # more than the threads of a route

    async def test() -> None:
        requests = []
        for number, text in enumerate(texts, 1):
            requests.append(there.send(ref, text))
            await there.waiting(number)
        other = there.send(there.server.session(ref.agent_id), "elsewhere")
        assert await other.status() == 200
        assert all(request.sent == [] for request in requests)
        thinking.open()
        assert [await request.status() for request in requests] == [200] * len(texts)

    there.run(test)
    assert texts_in(there.server, ref) == ["hello", *texts]


def test_after_its_patience_a_request_is_refused(serve: Serve) -> None:
    there, thinking, ref = busy(serve, patience_s=0.05)

    async def test() -> None:
        assert await there.send(ref, "too early").status() == 409
        thinking.open()

    there.run(test)
    assert texts_in(there.server, ref) == ["hello"]


def test_a_client_that_leaves_is_not_served_and_the_next_one_is(serve: Serve) -> None:
    there, thinking, ref = busy(serve, "ok")

    async def test() -> None:
        gone, stays = there.send(ref, "gone"), there.send(ref, "stays")
        await there.waiting(2)
        gone.leave()
        await there.waiting(1)
        thinking.open()
        assert await stays.status() == 200

    there.run(test)
    assert texts_in(there.server, ref) == ["hello", "stays"]


def test_a_stop_refuses_waiting_requests(serve: Serve) -> None:
    there, thinking, ref = busy(serve)

    async def test() -> None:
        request = there.send(ref, "never")
        await there.waiting(1)
        there.queues.stop()
        assert await request.status() == 503
        assert await there.send(ref, "nor this").status() == 503
        thinking.open()

    there.run(test)


def test_beyond_the_most_a_request_is_refused_at_once(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_queues, "MOST_OF_A_TENANT", 1)
    there, thinking, ref = busy(serve, "ok")

    async def test() -> None:
        first = there.send(ref, "first")
        await there.waiting(1)
        assert await there.send(ref, "second").status() == 409
        thinking.open()
        assert await first.status() == 200

    there.run(test)


def test_a_turn_of_another_process_is_waited_for_by_polling(serve: Serve) -> None:
    thinking = Held("there")
    other = serve([thinking])
    ref = other.session()
    running = other.start(ref)
    thinking.wait()
    there = Patient(other.another(["here"]))

    async def test() -> None:
        request = there.send(ref, "patient")
        await there.waiting(1)
        thinking.open()
        await asyncio.to_thread(other.drain, running)
        assert await request.status() == 200

    there.run(test)
    assert texts_in(there.server, ref) == ["hello", "patient"]


def test_a_turn_whose_process_died_is_superseded_once_its_lease_is_over(serve: Serve) -> None:
    dead = serve([lambda request: dead.store.die()])
    ref = dead.session()
    dead.drain(dead.start(ref))
    there = Patient(dead.another(["here"]))

    async def test() -> None:
        request = there.send(ref, "patient")
        await there.waiting(1)
        dead.clock.advance(LEASE_S)
        assert await request.status() == 200

    there.run(test)
    assert [state.status for state in there.server.states(ref)] == [TurnStatus.FAILED, TurnStatus.COMPLETED]


def test_the_first_of_a_session_waits_for_a_slot_before_the_next_of_it(serve: Serve) -> None:
    there, thinking, ref = busy(serve, "ok", "ok")
    executor = there.server.core.executor
    executor._slots.limits = QueueLimits(LIMIT_S, 9, 9)

    async def test() -> None:
        requests = [there.send(ref, "one")]
        await there.waiting(1)
        requests.append(there.send(ref, "two"))
        await there.waiting(2)
        executor._slots._capacity = 0  # the slot of the running turn is not granted again
        thinking.open()
        while executor.queued == 0:
            await asyncio.sleep(0.001)
        executor._slots._capacity = 64
        with executor.permit(ref.tenant):
            pass  # its release serves the queue
        assert [await request.status() for request in requests] == [200, 200]

    there.run(test)
    assert texts_in(there.server, ref) == ["hello", "one", "two"]


def test_a_request_does_not_overtake_those_that_wait(serve: Serve) -> None:
    there, thinking, ref = busy(serve, "ok")
    server, order = there.server, there.server.header(ref).lock.order
    waiter = there.queues.join(TurnAwaited(ref.turn(str(order)), LIMIT_S), lambda _: None)
    thinking.open()
    server.settle()
    opening = Opening(HELLO, patience_s=LIMIT_S)
    with pytest.raises(TurnAwaited):
        server.turns.start(LOCAL_CALLER, ref, opening, attempt())
    first = there.queues.within(waiter, lambda: server.turns.start(LOCAL_CALLER, ref, opening, attempt()))
    server.drain(first)
    there.queues.leave(waiter)
    assert there.queues.waiting == 0
