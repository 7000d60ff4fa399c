"""Some sessions, two processes and three clients at once, next to a model that computes the expected results.

A turn may be held while its model speaks, so that leases run out under it, others take it over or cancel it, or delete
its session, and it comes back late.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.fakes.models.scripted import Reply, ToolCall, call, calls, scripted_reply
from tests.support.engine.harness import (
    Gate,
    Harness,
    ProcessDied,
    answer,
    attempt,
    client_tool,
    eventually,
    finished_steps,
    serving,
)
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import CallsMismatch, NotFound, TurnEnded, TurnNotAwaiting, TurnRunning, TurnstoneError
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.turns import TurnStatus
from turnstone.services.streams.broadcast import TurnBroadcast
from turnstone.services.turns.recovery import MAX_TAKEOVERS
from turnstone.store.layout.keys import all_turns
from turnstone.store.layout.ranges import all_records

LEASE_S, AWAIT_S = 300, 900
PATIENCE_S = 60.0
IN_MEMORY = Path("/dev/shm")  # thousands of transactions, whose durability others test
PROCESSES_AT_MOST = 6
REPLIES_ENOUGH = 400
DICE = {"dice": {"roll": lambda arguments: "4"}}
LAST_WORDS = "That is all."
READ_ID = "read"
REPLIES: dict[str, tuple[Reply, ...]] = {
    "plain": (LAST_WORDS,),
    "roll": (call("roll", "r"), LAST_WORDS),
    "look": (call("look", "l"), LAST_WORDS),
    "look-twice": (call("look", "l1"), call("look", "l2"), LAST_WORDS),
    "look-and-roll": (calls(call("look", "l"), call("roll", "r")), LAST_WORDS),
    "write": ("look: here", "look: there", LAST_WORDS),  # calls that only its client sees
}
# mostly the same process and the same session, so that conflicts are frequent
PROCESSES, CLIENTS, SESSIONS = st.sampled_from([0, 0, 1]), st.integers(0, 2), st.sampled_from([0, 0, 0, 1])
TEXTS_BETWEEN_DELETIONS = 6
JUMPS_S = (-1_000, -LEASE_S, 1, 60, LEASE_S, AWAIT_S)


@dataclass
class ModelTurn:
    """A turn as it must be.

    Attributes:
        answers: how many the model has given that are stored.
        until: when its lease or its client's time is over.
        runner: the process that runs it under the lock's fence.
        is_queued: no process has run it yet.
        rev: the revision of its record once it has ended: it does not change any more.
    """

    turn_id: str
    text: str
    status: TurnStatus = TurnStatus.IN_PROGRESS
    answers: int = 0
    until: datetime | None = None
    runner: Harness | None = None
    rested_at: datetime | None = None
    takeovers: int = 0
    answers_at_takeover: int = 0
    is_queued: bool = False
    rev: int | None = None

    @property
    def word(self) -> str:
        return self.text.split()[0]

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that the client has to answer."""
        if not self.answers:
            return ()
        return tuple(made for made in scripted_reply(self.reply).calls if made.tool_name == "look")

    @property
    def reply(self) -> Reply:
        return reply_to(self.word, self.answers - 1)

    @property
    def can_reopen(self) -> bool:
        """Return whether it ended with an answer in which its client may have read calls."""
        return self.status is TurnStatus.COMPLETED


def reply_to(word: str, answers: int) -> Reply:
    """Return the model's reply in a turn after so many answers; it repeats its last one."""
    return REPLIES[word][min(answers, len(REPLIES[word]) - 1)]


@dataclass(eq=False)
class ModelSession:
    ref: SessionRef
    turns: list[ModelTurn] = field(default_factory=list)
    last_request: str | None = None

    @property
    def open(self) -> ModelTurn | None:
        return self.turns[-1] if self.turns and not self.turns[-1].status.is_terminal else None


@dataclass
class Request:
    """The last request of a client, to be sent again."""

    session: ModelSession
    by: Attempt
    text: str | None = None
    answered: ModelTurn | None = None


class SessionMachine(RuleBasedStateMachine):
    """Rules act on the processes and on the model alike; the invariants compare the two."""

    steps = 0
    kinds: set[str] = set()

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(prefix="sessions", dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
        self._servers: Iterator[Callable[..., Harness]] = serving(self.folder)
        self.waiting: dict[int, list[tuple[str, Gate]]] = {}
        self.freed: set[str] = set()
        self.remembered: dict[str, ModelTurn] = {}
        self.requests: dict[int, Request] = {}
        self.followed: list[tuple[ModelSession, TurnBroadcast]] = []
        self.gone: list[ModelSession] = []
        self.texts = self.texts_at_deletion = 0
        self.watched_since_s: dict[tuple[object, ...], float] = {}

    @initialize()
    def begin(self) -> None:
        self.first = next(self._servers)(lease_seconds=LEASE_S, await_seconds=AWAIT_S)
        self.latest = self._now
        self.processes = [self._process(), self._process()]
        self.front = self.first.another(tools=DICE, is_on_lambda=True)
        self.sessions = self._sessions_of_a_new_agent()

    # ---- rules

    @rule(
        at=PROCESSES,
        client=CLIENTS,
        session=SESSIONS,
        word=st.sampled_from(list(REPLIES)),
        held_at=st.sampled_from(["never", "0", "1"]),
        has_key=st.booleans(),
    )
    def start_turn(self, at: int, client: int, session: int, word: str, held_at: str, has_key: bool) -> None:
        self.texts += 1
        by = attempt(f"request {self.texts}", key=f"key {self.texts}" if has_key else None)
        self.requests[client] = Request(self.sessions[session], by, text=f"{word} {held_at} {self.texts}")
        self._send(self.processes[at], self.requests[client])
        self._count("start turn")

    @rule(
        client=CLIENTS,
        session=SESSIONS,
        word=st.sampled_from(list(REPLIES)),
        held_at=st.sampled_from(["never", "0", "1"]),
        has_key=st.booleans(),
    )
    def queue(self, client: int, session: int, word: str, held_at: str, has_key: bool) -> None:
        """Start a turn in the background, over a process that runs none itself."""
        self.texts += 1
        by = attempt(f"request {self.texts}", key=f"key {self.texts}" if has_key else None)
        request = self.requests[client] = Request(self.sessions[session], by, text=f"{word} {held_at} {self.texts}")
        expected = self._expected(self.front, request)
        if isinstance(expected, type):
            assert self._refusal(lambda: self.front.start_in_background(request.session.ref, by=by)) is expected
        else:
            opened = self.front.start_in_background(request.session.ref, str(request.text), by=by)
            assert opened.is_queued
            self._opened(request, expected, opened.ref.turn_id).is_queued = True
        self._count("queue")

    @precondition(lambda self: any(session.turns for session in self.sessions))
    @rule(at=PROCESSES, client=CLIENTS, session=SESSIONS, has_key=st.booleans())
    def answer(self, at: int, client: int, session: int, has_key: bool) -> None:
        of_turn = self.sessions[session]
        if not of_turn.turns:
            return
        self.texts += 1
        by = attempt(f"request {self.texts}", key=f"key {self.texts}" if has_key else None)
        self.requests[client] = Request(of_turn, by, answered=of_turn.turns[-1])
        self._send(self.processes[at], self.requests[client])
        self._count("answer")

    @precondition(lambda self: self.requests)
    @rule(at=PROCESSES, client=CLIENTS)
    def repeat(self, at: int, client: int) -> None:
        """Send the client's last request again, with its key or its count of retries."""
        if (request := self.requests.get(client)) is None:
            return
        self._send(
            self.processes[at], Request(**{**vars(request), "by": request.by.model_copy(update={"is_retry": True})})
        )
        self._count("repeat")

    @precondition(lambda self: self._all_open(TurnStatus.AWAITING_INPUT))
    @rule(at=PROCESSES)
    def answer_wrongly(self, at: int) -> None:
        for session, turn in self._all_open(TurnStatus.AWAITING_INPUT):
            if not self._is_over(turn):
                of_turn = self._ref(session, turn)
                assert (
                    self._refusal(lambda of_turn=of_turn: self.processes[at].resume(of_turn, answer("x")))
                    is CallsMismatch
                )
                self._count("answer wrongly")

    @precondition(lambda self: self._all_open(TurnStatus.AWAITING_INPUT))
    @rule(at=PROCESSES, client=CLIENTS)
    def answer_too_late(self, at: int, client: int) -> None:
        session, turn = self._all_open(TurnStatus.AWAITING_INPUT)[0]
        assert turn.until is not None
        self.first.clock.at = max(self._now, turn.until)
        self.texts += 1
        self.requests[client] = Request(session, attempt(f"request {self.texts}"), answered=turn)
        self._send(self.processes[at], self.requests[client])
        self._count("answer too late")

    @precondition(lambda self: self.texts % 3 == 0 and any(session.turns for session in self.sessions))
    @rule(at=PROCESSES, session=SESSIONS)
    def cancel(self, at: int, session: int) -> None:
        of_turn, process = self.sessions[session], self.processes[at]
        if not of_turn.turns:
            return
        turn = of_turn.turns[-1]
        if not turn.status.is_terminal:
            self._end(turn, TurnStatus.CANCELLED)
        expected = None if turn.status is TurnStatus.CANCELLED else TurnEnded
        ref = self._ref(of_turn, turn)
        assert self._refusal(lambda: process.core.cancelling.cancel(LOCAL_CALLER, ref, attempt())) is expected
        self._quiesce(process)
        self._count("cancel")

    @precondition(lambda self: self._may_delete())
    @rule(at=PROCESSES, session=SESSIONS)
    def delete_session(self, at: int, session: int) -> None:
        gone = self.sessions[session]
        self.processes[at].core.deleting.delete_session(LOCAL_CALLER, gone.ref)
        self._lose(gone)
        self.sessions[session] = ModelSession(self.first.session(gone.ref.agent_id))
        self._count("delete session")

    @precondition(lambda self: self._may_delete())
    @rule(at=PROCESSES)
    def delete_agent(self, at: int) -> None:
        self.processes[at].core.deleting.delete_agent(LOCAL_CALLER, self.sessions[0].ref.agent_id)
        self._lose(*self.sessions)
        self.sessions = self._sessions_of_a_new_agent()
        self._count("delete agent")

    @precondition(lambda self: self.gone)
    @rule(at=PROCESSES)
    def request_deleted(self, at: int) -> None:
        """Request every change of a deleted session, and reconcile its last turn."""
        process, gone = self.processes[at], self.gone[-1]
        changes: list[Callable[[], object]] = [
            lambda: process.start(gone.ref, "plain never"),
            lambda: process.core.deleting.delete_session(LOCAL_CALLER, gone.ref),
        ]
        if gone.turns:
            ref = self._ref(gone, gone.turns[-1])
            changes += [
                lambda: process.core.cancelling.cancel(LOCAL_CALLER, ref, attempt()),
                lambda: process.resume(ref, answer("l")),
            ]
            process.core.recovery.reconcile(ref)
        assert [self._refusal(change) for change in changes] == [NotFound] * len(changes)
        self._quiesce(process)
        self._count("request deleted")

    @precondition(lambda self: self.gone)
    @rule(at=PROCESSES)
    def clean_up(self, at: int) -> None:
        """Do a part of each job that is due."""
        cleaning = self.processes[at].core.cleaning
        for job in cleaning.due():
            cleaning.run_for(job, timedelta(0))
        self._count("clean up")

    @precondition(lambda self: any(self.waiting.values()))
    @rule(at=PROCESSES)
    def let_go(self, at: int) -> None:
        """Let the model speak on in whatever this process runs."""
        process = self.processes[at]
        held, self.waiting[id(process)] = self.waiting[id(process)], []
        for text, gate in held:
            self.freed.add(text)
            for session in self.sessions:
                if session.open is not None and (session.open.text, session.open.runner) == (text, process):
                    self._run_on(session.open, process)
            gate.open()
        self._quiesce(process)
        self._count("let go")

    @precondition(lambda self: any(session.turns for session in self.sessions))
    @rule(at=PROCESSES, session=SESSIONS)
    def reconcile(self, at: int, session: int) -> None:
        of_turn = self.sessions[session]
        if not of_turn.turns:
            return
        process, turn = self.processes[at], of_turn.turns[-1]
        if turn.status is TurnStatus.AWAITING_INPUT and self._is_over(turn):
            self._end(turn, TurnStatus.EXPIRED)
        elif turn.is_queued:
            self._run_on(turn, process)
        elif turn.status is TurnStatus.IN_PROGRESS and self._is_over(turn, process):
            self._reconciled(turn, process)
        process.core.recovery.reconcile(self._ref(of_turn, turn))
        self._quiesce(process)
        self._count("reconcile")

    @precondition(lambda self: self._all_open(TurnStatus.IN_PROGRESS))
    @rule(at=PROCESSES)
    def hand_over(self, at: int) -> None:
        """Leave all that runs here to other processes."""
        process = self.processes[at]
        for session, turn in self._all_open(TurnStatus.IN_PROGRESS):
            if turn.runner is process:
                turn.runner, turn.until = None, self._now
                process.turns.hand_off(self._ref(session, turn))
                self._count("hand over")

    @precondition(lambda self: len(self.waiting) < PROCESSES_AT_MOST)
    @rule(at=PROCESSES)
    def crash(self, at: int) -> None:
        """Kill the process, and start another."""
        process = self.processes[at]
        process.store.is_dead = True
        for session in self.sessions:
            if session.open is not None and session.open.runner is process:
                session.open.runner = None
        self._open_gates(process)
        self.processes[at] = self._process()
        self._count("crash")

    @rule(seconds=st.sampled_from(JUMPS_S))
    def jump(self, seconds: int) -> None:
        self.latest = max(self.latest, self._now)
        if seconds < 0:
            self.first.clock.set_back(-seconds)
        else:
            self.first.clock.advance(seconds)
        self._count("jump")

    @precondition(lambda self: any(session.open for session in self.sessions))
    @rule()
    def wait_in_vain(self) -> None:
        """Let the time of every open turn run out, and no more."""
        until = [session.open.until for session in self.sessions if session.open is not None]
        self.first.clock.at = max([self._now, *(at for at in until if at is not None)])
        self._count("wait in vain")

    # ---- invariants

    @invariant()
    def every_turn_is_where_it_must_be(self) -> None:
        for session in self.sessions:
            records = all_records(self.first.records, all_turns(session.ref))
            assert [(t.turn_id, t.status) for t in session.turns] == [
                (record.key.sk.removeprefix("turn:"), record.attributes["status"]) for record in records
            ]
            for turn, record in zip(session.turns, records, strict=True):
                if turn.status.is_terminal:
                    turn.rev = turn.rev or record.rev
                    assert turn.rev == record.rev

    @invariant()
    def what_is_deleted_stays_gone(self) -> None:
        for gone in self.gone[-2:]:
            assert (
                self._refusal(lambda ref=gone.ref: self.first.core.sessions.read(LOCAL_CALLER, ref, None)) is NotFound
            )

    @invariant()
    def emitted_steps_are_stored_and_records_whole(self) -> None:
        if type(self).steps % 8 == 0:
            self._assert_whole()

    def teardown(self) -> None:
        if hasattr(self, "sessions"):
            for process in self.processes:
                self._open_gates(process)
                self._quiesce(process)
            self._assert_usable()
            self._assert_nothing_left()
        self._servers.close()  # type: ignore[attr-defined]
        rmtree(self.folder)

    # ---- the model

    def _send(self, process: Harness, request: Request) -> None:
        session = request.session
        if session in self.gone:
            assert self._refusal(self._asker(process, request)) is NotFound
            return
        joined = self._joined(process, request)
        is_elsewhere = joined is not None and process.core.broadcasts.find(self._ref(session, joined)) is None
        if joined is not None and is_elsewhere and joined.status is TurnStatus.IN_PROGRESS and not joined.is_queued:
            self._is_over(joined, process)  # which begins to watch it
        expected = joined or self._expected(process, request)
        of_turn = self._asker(process, request)
        if isinstance(expected, type):
            assert self._refusal(of_turn) is expected
            self._quiesce(process)
            return
        broadcast = of_turn()
        self.followed.append((session, broadcast))
        if joined is None:
            self._taken(process, request, expected, broadcast.ref.turn_id)
        assert (joined or session.turns[-1]).turn_id == broadcast.ref.turn_id
        self._quiesce(process)

    def _asker(self, process: Harness, request: Request) -> Callable[[], TurnBroadcast]:
        if request.text is not None:
            return lambda: process.start(request.session.ref, str(request.text), by=request.by)
        assert request.answered is not None
        turn = request.answered
        responses = [answer(made.call_id) for made in turn.calls] or [answer(READ_ID)]
        return lambda: process.resume(self._ref(request.session, turn), *responses, by=request.by)

    def _joined(self, process: Harness, request: Request) -> ModelTurn | None:
        """Return the turn that the request opened or resumed before, if it must be taken for a repetition."""
        if request.by.key in self.remembered:
            return self.remembered[str(request.by.key)]
        session = request.session
        if not request.by.is_retry or session.last_request != request.by.fingerprint:
            return None
        turn = session.turns[-1]
        is_broadcast_here = process.core.broadcasts.find(self._ref(session, turn)) is not None
        if turn.status is TurnStatus.IN_PROGRESS or is_broadcast_here:
            return turn
        assert turn.rested_at is not None
        is_recent = self._now - turn.rested_at <= timedelta(seconds=request.by.repeated_within_s)
        return turn if is_recent else None

    def _expected(self, process: Harness, request: Request) -> type[TurnstoneError] | ModelTurn | None:
        """Return the error that must refuse the request, else the turn that it resumes or ends."""
        turn = request.session.open
        if request.text is not None:
            if turn is not None and turn.is_queued:
                return TurnRunning
            is_busy = turn is not None and turn.status is TurnStatus.IN_PROGRESS
            if turn is not None and is_busy and (not self._is_over(turn, process) or turn.runner is process):
                return TurnRunning
            return turn
        newest = request.session.turns[-1] if request.session.turns else None
        if request.answered is newest and newest is not None and newest.can_reopen:
            self._count("open again")
            return newest
        if turn is not request.answered or turn is None or turn.status is not TurnStatus.AWAITING_INPUT:
            return TurnNotAwaiting
        if self._is_over(turn):
            self._end(turn, TurnStatus.EXPIRED)
            return TurnNotAwaiting
        return turn

    def _taken(self, process: Harness, request: Request, holder: Any, turn_id: str) -> None:
        self._run_on(self._opened(request, holder, turn_id), process)

    def _opened(self, request: Request, holder: Any, turn_id: str) -> ModelTurn:
        """Note the turn that the request opened or resumed; a new one ends the holder."""
        session = request.session
        turn: ModelTurn = holder
        if request.text is not None:
            if holder is not None:
                self._end(holder, self._ending_of(holder))
            turn = ModelTurn(turn_id, request.text)
            session.turns.append(turn)
        session.last_request = request.by.fingerprint
        if request.by.key is not None:
            self.remembered[request.by.key] = turn
        return turn

    def _ending_of(self, holder: ModelTurn) -> TurnStatus:
        if holder.status is TurnStatus.IN_PROGRESS:
            return TurnStatus.FAILED
        return TurnStatus.EXPIRED if self._is_over(holder) else TurnStatus.CANCELLED

    def _run_on(self, turn: ModelTurn, process: Harness) -> None:
        """Advance the turn to its gate, its pause or its end."""
        turn.rev, turn.is_queued = None, False
        turn.status, turn.runner = TurnStatus.IN_PROGRESS, process
        turn.until = self._now + timedelta(seconds=LEASE_S)
        while not self._is_held(turn.text, turn.answers):
            turn.answers += 1
            turn.rested_at = self._now
            if turn.calls:
                turn.status, turn.runner = TurnStatus.AWAITING_INPUT, None
                turn.until = self._now + timedelta(seconds=AWAIT_S)
                return
            if not scripted_reply(turn.reply).calls:
                self._end(turn, TurnStatus.COMPLETED)
                return

    def _reconciled(self, turn: ModelTurn, process: Harness) -> None:
        if turn.runner is process:
            turn.until = self._now + timedelta(seconds=LEASE_S)
            return
        in_vain = turn.takeovers if turn.answers == turn.answers_at_takeover else 0
        if in_vain >= MAX_TAKEOVERS:
            self._end(turn, TurnStatus.FAILED)
            return
        turn.takeovers, turn.answers_at_takeover = in_vain + 1, turn.answers
        self._run_on(turn, process)

    def _end(self, turn: ModelTurn, status: TurnStatus) -> None:
        turn.status, turn.runner, turn.until, turn.rested_at = status, None, None, self._now
        turn.is_queued = False

    def _may_delete(self) -> bool:
        """Return whether there were enough requests since the last deletion."""
        return self.texts >= self.texts_at_deletion + TEXTS_BETWEEN_DELETIONS

    def _lose(self, *sessions: ModelSession) -> None:
        self.gone += sessions
        self.followed = [(of, broadcast) for of, broadcast in self.followed if of not in sessions]
        self.texts_at_deletion = self.texts

    def _sessions_of_a_new_agent(self) -> list[ModelSession]:
        agent_id = self.first.agent(toolgroups=["dice"], client_tools=[client_tool()])
        return [ModelSession(self.first.session(agent_id)) for _ in range(2)]

    def _is_over(self, turn: ModelTurn, process: Harness | None = None) -> bool:
        """Return whether the turn's time is over, for a process that checks it now.

        A lease that ends later than any granted now was granted before the clock was set back. It is over for a process
        that has watched it for as long as a lease lasts.
        """
        assert turn.until is not None
        is_of_now = turn.until <= self._now + timedelta(seconds=LEASE_S)
        if process is None or turn.status is not TurnStatus.IN_PROGRESS or is_of_now:
            return self._now >= turn.until
        now_s = self.first.clock.monotonic_s()
        lease = id(process), turn.turn_id, turn.until, turn.takeovers
        return now_s >= self.watched_since_s.setdefault(lease, now_s) + LEASE_S

    def _is_held(self, text: str, answers: int) -> bool:
        return text.split()[1] == str(answers) and text not in self.freed

    def _all_open(self, status: TurnStatus) -> list[tuple[ModelSession, ModelTurn]]:
        return [(s, s.open) for s in self.sessions if s.open is not None and s.open.status is status]

    @property
    def _now(self) -> datetime:
        return self.first.clock.now()

    # ---- the processes

    def _process(self) -> Harness:
        process = self.first.another(tools=DICE)
        self.waiting[id(process)] = []
        replying = threading.Lock()

        def reply(request: InferenceRequest) -> Reply:
            of_turn = max(n for n, message in enumerate(request.messages) if message.role == "user")
            text = str(request.messages[of_turn].content)
            answers = len([message for message in request.messages[of_turn:] if message.role == "assistant"])
            if self._is_held(text, answers):
                gate = PatientGate()
                with replying:
                    self.waiting[id(process)].append((text, gate))
                gate.pass_through()
            return reply_to(text.split()[0], answers)

        process.inference._script += [reply] * REPLIES_ENOUGH
        return process

    def _quiesce(self, process: Harness) -> None:
        """Wait until every run of the process has ended or is held."""
        running, waiting = process.core.executor._running, self.waiting[id(process)]
        eventually(lambda: len(running) == len(waiting), PATIENCE_S)

    def _open_gates(self, process: Harness) -> None:
        held, self.waiting[id(process)] = self.waiting[id(process)], []
        for _, gate in held:
            gate.open()
        self._quiesce(process)

    def _refusal(self, act: Callable[[], object]) -> type[Exception] | None:
        try:
            act()
        except TurnstoneError as error:
            return type(error)
        return None

    def _ref(self, session: ModelSession, turn: ModelTurn) -> TurnRef:
        return session.ref.turn(turn.turn_id)

    def _assert_whole(self) -> None:
        for session in self.sessions:
            self.first.assert_whole(session.ref)
            stored = [step for state in self.first.states(session.ref) for step in state.turn.steps]
            ids = {step.step_id: step for step in stored}
            assert len(ids) == len(stored)
            emitted = [
                step for of, broadcast in self.followed if of is session for step in finished_steps(broadcast.events)
            ]
            assert [step for step in emitted if ids.get(step.step_id) != step] == []

    def _assert_usable(self) -> None:
        """Assert that a new process can continue every session once the leases are over."""
        self._assert_whole()
        self.latest = max(self.latest, self._now)
        self.first.clock.at = self.latest + timedelta(seconds=LEASE_S + AWAIT_S)
        last = self._process()
        for session in self.sessions:
            if session.open is not None and session.open.is_queued:
                self.freed.add(session.open.text)
                last.core.recovery.reconcile(self._ref(session, session.open))
                last.settle()
            broadcast = last.start(session.ref, "plain never again")
            last.drain(broadcast)
            state = last.state(broadcast.ref)
            assert state.status is TurnStatus.COMPLETED
        self._assert_whole()

    def _assert_nothing_left(self) -> None:
        """Assert that the jobs come to their end, and that no record of deleted sessions is left then."""
        self.first.clean_up()
        assert self.first.core.cleaning.due() == ()
        kept = {session.ref.session_id for session in self.sessions}
        partitions = {
            pk for pk, *_ in self.first.dump() if "|session:" in pk or "|agent:" in pk or pk.startswith("job:")
        }
        agent_id = self.sessions[0].ref.agent_id
        assert {pk.split("|")[1] for pk in partitions} == {
            f"agent:{agent_id}",
            f"session:{agent_id}",
            *(f"session:{agent_id}:{session_id}" for session_id in kept),
        }

    def _count(self, kind: str) -> None:
        type(self).steps += 1
        type(self).kinds.add(kind)


class PatientGate(Gate):
    def pass_through(self) -> None:
        self.reached.set()
        if not self._opened.wait(PATIENCE_S):
            raise ProcessDied
