"""Run a turn: drain the engine, publish its events and commit the end. No other module does."""

import logging
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, assert_never

from turnstone.domain.errors import (
    Conflict,
    ContentLost,
    InvalidRequest,
    LeaseLost,
    ModelError,
    NotFound,
    Overloaded,
    StoreUnavailable,
    ToolgroupUnavailable,
    TurnLimitReached,
    TurnstoneError,
    TurnTimeReached,
)
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.sessions.context import current_messages, tokens_of
from turnstone.domain.sessions.context_budget import budget_tokens
from turnstone.domain.sessions.sessions import LockState, SessionLock
from turnstone.domain.turns.events import (
    Numbered,
    TextsProgressed,
    TurnEvent,
    TurnFailed,
    turn_awaits_input,
    turn_completed,
)
from turnstone.domain.turns.failures import Failure, FailureKind
from turnstone.domain.turns.turns import MemoryRetrievalStep, TurnState, TurnStatus, silent_output
from turnstone.engine.prompt import fixed_tokens, system_message
from turnstone.engine.steps import AwaitClientTools, Blocked, EngineDeps, Finish, NextStep, RunAgain
from turnstone.engine.tool_plan import build_offer
from turnstone.engine.turn import Move, advance
from turnstone.services.streams.broadcast import TurnBroadcast
from turnstone.services.streams.replay import doubtful_after, failed_event, gone_event, numbered
from turnstone.services.threads.executor import Permit
from turnstone.services.tools.tool_running import ToolCaller
from turnstone.services.turns.leases import Lease
from turnstone.services.turns.run_request import Equipment, RunnerDeps, RunRequest
from turnstone.services.turns.transitions import cancelled, closed, paused
from turnstone.services.turns.turn_failures import failure_of, ids_of, warn_of_failure
from turnstone.store.sessions.turns import Change

if TYPE_CHECKING:
    from turnstone.domain.agents.agents import AgentConfig
    from turnstone.domain.tools.tool_runs import ToolOffer
    from turnstone.ports.memory import Retrieval
    from turnstone.services.tools.tool_running import SessionTools

log = logging.getLogger(__name__)


class TurnRunner:
    def __init__(self, deps: RunnerDeps) -> None:
        self._deps = deps

    def launch(self, launch: RunRequest, permit: Permit) -> TurnBroadcast:
        """Run the turn by its permit, with or without subscribers, and return its broadcast."""
        runs_for_s = self._deps.limits.runs_for_s(launch.state)
        lease = self._deps.leases.take(launch.ref, launch.session.lock.fence, runs_for_s)
        broadcast = self._deps.broadcasts.begin(launch.ref, launch.before, doubtful_after(launch.state))
        broadcast.publish(*launch.first_events)
        run = _Run(self._deps, launch, lease, broadcast)
        try:
            permit.start(lambda: self._run(run, permit), partial(self._end_crashed, run))
        except Overloaded as no_thread:
            log.warning("no thread for turn %s, it is handed off: %s", launch.ref.turn_id, no_thread.__cause__)
            self.hand_off(launch.ref, is_watched=False)
        return broadcast

    def hand_off(self, ref: TurnRef, *, is_watched: bool) -> None:
        """Hand the turn off to another process, because this one ends soon, and notify the subscribers here.

        The supervisor is notified, unless `is_watched`: then it runs the turn here itself.
        """
        broadcast = self._deps.broadcasts.find(ref)
        if broadcast is None:
            return
        lease = self._deps.leases.find(ref)
        if lease is not None:
            with lease.in_hand:
                if self._try_hand_off(lease, is_watched=is_watched):
                    self._publish_hand_off(broadcast)
        elif not broadcast.is_run:  # else the run has just ended and publishes its end
            self._publish_hand_off(broadcast)

    def _try_hand_off(self, lease: Lease, *, is_watched: bool) -> bool:
        """Release the lease and have the turn watched; return whether another process will continue it."""
        lease_until = self._deps.clock.now()
        try:
            self._deps.leases.release(lease)
        except LeaseLost:
            return False  # its run has just ended and publishes its end
        except StoreUnavailable as unavailable:
            log.warning("could not release the lease of turn %s, it will expire: %s", lease.ref.turn_id, unavailable)
            lease_until += self._deps.leases.duration
        if not is_watched:
            order = lease.ref.turn_id
            lock = SessionLock(state=LockState.RUNNING, order=order, fence=lease.fence, lease_until=lease_until)
            self._leave_to_supervisor(lease.ref, lock)
        return True

    def _publish_hand_off(self, broadcast: TurnBroadcast) -> None:
        turn_id = broadcast.ref.turn_id
        message = f"turn {turn_id!r} continues in the background; read it to see how it ends"
        failure = Failure(kind="handed_over", message=message)
        self._deps.broadcasts.end(broadcast, TurnFailed(turn_id=turn_id, failure=failure))

    def _run(self, run: "_Run", permit: Permit) -> None:
        launch = run.launch
        with self._deps.leases.hold(run.lease):
            try:
                last_events = run.to_its_end()
            except (LeaseLost, Conflict):
                last_events = self._lease_lost(run)
            except StoreUnavailable as unavailable:
                log.warning("the run of turn %s could not be stored: %s", launch.ref.turn_id, unavailable)
                last_events = _failed_events(
                    launch, "store_unavailable", "the turn can't be stored now; it will continue later"
                )
                self._leave_to_supervisor(launch.ref, launch.session.lock)
        # a subscriber may start the next turn as soon as it receives the end
        permit.release()
        self._deps.broadcasts.end(run.broadcast, *last_events)
        run.tidy()

    def _end_crashed(self, run: "_Run", crash: BaseException) -> None:
        """End a turn whose run raised an unexpected exception, so that its session stays usable."""
        launch = run.launch
        failure = Failure(kind="internal", message=f"turn {launch.ref.turn_id!r} failed: internal server error")
        last_events: tuple[TurnEvent | Numbered, ...] = (
            failed_event(launch.state.model_copy(update={"failure": failure})),
        )
        try:
            run.lease.check()
            session, state = self._deps.turns.load(launch.ref)
            if session.lock.fence == launch.session.lock.fence and not state.status.is_terminal:
                failed = state.ended_unanswered(TurnStatus.FAILED, failure, self._deps.clock.now())
                change = self._deps.turns.commit(launch.ref, closed(session, failed, launch.open_segment))
                warn_of_failure(launch.ref, failed, crash)
                last_events = numbered(change.turns[0])[-1:]
        except LeaseLost:
            last_events = self._lease_lost(run)
        except (Conflict, NotFound, StoreUnavailable) as problem:
            log.warning("crashed turn %s can't be ended, its lease will expire: %s", launch.ref.turn_id, problem)
            self._leave_to_supervisor(launch.ref, launch.session.lock)
        finally:
            self._deps.broadcasts.end(run.broadcast, *last_events)

    def _lease_lost(self, run: "_Run") -> tuple[TurnEvent | Numbered, ...]:
        """Return the last events of a run without its lease; a hand-off in progress publishes its own first."""
        launch = run.launch
        with run.lease.in_hand:
            is_reported = run.broadcast.is_over
        if not is_reported:
            try:
                _, state = self._deps.turns.load(launch.ref)
            except NotFound as missing:
                return (gone_event(missing, launch.ref.turn_id),)
            except StoreUnavailable as unavailable:
                log.info("can't read why turn %s lost its lease: %s", launch.ref.turn_id, unavailable)
            else:
                if state.status is TurnStatus.CANCELLED:
                    return numbered(state)[-1:]
        return _failed_events(launch, "lease_lost", str(LeaseLost(launch.ref.turn_id)))

    def _leave_to_supervisor(self, ref: TurnRef, lock: SessionLock) -> None:
        """Have the supervisor take the turn over after its lease, because this process can't continue it."""
        try:
            self._deps.supervisor.watch(ref, self._deps.leases.seen(ref, lock, self._deps.clock.now()))
        except StoreUnavailable as unavailable:
            log.warning("turn %s is not watched, its lease will expire: %s", ref.turn_id, unavailable)


class _Run:
    """One run of one turn, from a taken lock to a released one."""

    def __init__(self, deps: RunnerDeps, launch: RunRequest, lease: Lease, broadcast: TurnBroadcast) -> None:
        self._deps = deps
        self.launch = launch
        self.lease = lease
        self.broadcast = broadcast
        self._session = launch.session
        self._has_step_records = len(launch.state.turn.steps) > 0
        self._segments = launch.segments
        self._budget_tokens = 0
        self._steps_at_end = 0

    def to_its_end(self) -> tuple[TurnEvent | Numbered, ...]:
        """Advance the turn until its end or pause is stored; return the last events to publish."""
        state = self.launch.state
        try:
            following: NextStep = RunAgain(state)
            engine = self._engine(state)
            while isinstance(following, RunAgain):
                state = following.state
                engine = self._with_fitting_history(engine, state)
                self.lease.stop_in_time(self._deps.clock.monotonic_s())
                if ended := self._ended_early(state):
                    return ended
                following = self._drained(advance(state, engine))
            if isinstance(following, Finish):
                following = replace(following, state=self._summed_up(following.state, engine))
        except (ModelError, InvalidRequest, ContentLost, ToolgroupUnavailable, TurnLimitReached) as error:
            return self._ended_early(state) or self._failed(state, error)
        return self._settled(following)

    def tidy(self) -> None:
        """Remove the step records of a turn that this run ended: its own record holds them."""
        if not (self._deps.tidies_up and self._steps_at_end and self._has_step_records):
            return
        try:
            self._deps.turns.discard_steps(self.launch.ref, self.launch.state.order, self._steps_at_end)
        except StoreUnavailable as unavailable:
            log.info(
                "step records of turn %s not removed, a later clean-up will: %s", self.launch.ref.turn_id, unavailable
            )

    def save_step(self, state: TurnState) -> None:
        self.lease.check()
        self._has_step_records = True
        self._session = self._deps.turns.save_step(self.launch.ref, self._session, state)

    def _engine(self, state: TurnState) -> EngineDeps:
        route, tools, offer = self.launch.equipment or self._equipment()
        if offer.unavailable is not None:
            raise offer.unavailable
        config = route.with_prompt_format(self._deps.limits.applied_to(self.launch.config))
        otherwise = self._deps.context_tokens
        self._budget_tokens = budget_tokens(
            route, config, otherwise, self._session.token_factor, has_alerts=state.policy.summarizes
        )
        prompt = self._deps.prompt_of(self.launch.ref, config) if self._deps.prompt_of else None
        fixed = fixed_tokens(state, config, offer.definitions)
        left = self._budget_tokens - fixed + (tokens_of(system_message(config)) if prompt else 0)
        if route.context_tokens is not None and route.context_tokens > otherwise:
            self._segments = self._deps.turns.widened(self.launch.ref, self._segments, left)
        return EngineDeps(
            config=config,
            offer=offer,
            history=self._deps.turns.history(self.launch.ref, self._segments, left, is_continued=state.continues),
            inference=self._deps.inference,
            tools=tools,
            shields=self._deps.shields.of(self.launch.ref.tenant),
            recorder=self,
            clock=self._deps.clock,
            ids=self._deps.ids,
            max_turn_tokens=self._deps.limits.turn_tokens,
            stop=self.lease.stop,
            targets=route.targets,
            provider_data=self.launch.provider_data,
            about=ids_of(self.launch.ref),
            prompt=prompt,
            history_tokens=left,
            window_tokens=route.context_tokens or otherwise,
            retrieval=self._retrieval(state, config, tools, offer),
        )

    def _retrieval(
        self, state: TurnState, config: "AgentConfig", tools: "SessionTools", offer: "ToolOffer"
    ) -> "Retrieval | None":
        if not (state.attachments or config.tools or self.launch.banks.of_session):
            return None
        from turnstone.domain.turns.retrieval import TurnMemory, reads_memory

        memory = TurnMemory(self.launch.ref, config, self.launch.banks, state.attachments, self.launch.provider_data)
        return self._deps.memories().of(memory, tools) if reads_memory(memory, offer) else None

    def _with_fitting_history(self, engine: EngineDeps, state: TurnState) -> EngineDeps:
        """Return the dependencies with a history that leaves room for the context that memory has just inserted."""
        steps = state.turn.steps
        if engine.retrieval is None or not steps or not isinstance(steps[-1], MemoryRetrievalStep):
            return engine
        inserted = tokens_of(current_messages(state)) - tokens_of(current_messages(self.launch.state))
        left = (engine.history_tokens or 0) - inserted
        history = engine.history
        if history.tokens > left:
            history = self._deps.turns.history(self.launch.ref, self._segments, left, is_continued=state.continues)
        return engine._replace(history=history, history_tokens=left, retrieval=None)

    def _equipment(self) -> Equipment:
        route = self._deps.route(self.launch.ref.tenant, self.launch.config.model)
        config = route.with_prompt_format(self.launch.config)
        state = self.launch.state
        caller = ToolCaller(state.chain, self.launch.banks, state.own_toolgroups, state.named_by)
        tools = self._deps.tools.of(self.launch.ref.session, self.launch.provider_data, caller)
        return Equipment(route, tools, build_offer(config, tools.of_tenant.offered(config.toolgroups)))

    def _summed_up(self, state: TurnState, engine: EngineDeps) -> TurnState:
        """Return the state of the answered turn, with a summary if its session exceeds the context window."""
        if not self._deps.summarizes(state.policy):
            return state
        ended = state.completed(silent_output(), self._deps.clock.now())
        try:
            summarizer, ref = self._deps.summarizer(), self.launch.ref
            summary = summarizer.summary(ref, self._segments, ended, engine, self._budget_tokens)
        except StoreUnavailable as unavailable:
            log.warning("turn %s ends without a summary: %s", self.launch.ref.turn_id, unavailable)
            return state
        return state.model_copy(update={"summary": summary})

    def _drained(self, move: Move) -> NextStep:
        with closing(move):
            while True:
                try:
                    event = next(move)
                except StopIteration as stop:
                    following: NextStep = stop.value
                    return following
                self.lease.check()
                if isinstance(event, TextsProgressed):
                    self.broadcast.publish(*event.events)
                else:
                    self.broadcast.publish(event)

    def _settled(self, following: AwaitClientTools | Blocked | Finish) -> tuple[TurnEvent | Numbered, ...]:
        now = self._deps.clock.now()
        match following:
            case AwaitClientTools(state, output, unpublished):
                await_until = now + self._deps.await_duration
                change = self._commit(paused(self._session, state, output, await_until))
                self._have_watched(change.session.lock)
                return (*unpublished, turn_awaits_input(change.turns[0]))
            case Finish(state, output, unpublished) | Blocked(state, output, unpublished):
                ended = state.completed(output, now)
                change = self._commit(closed(self._session, ended, self.launch.open_segment))
                self._steps_at_end = len(ended.turn.steps)
                return (*unpublished, turn_completed(change.turns[0]))
            case _:
                assert_never(following)

    def _failed(self, state: TurnState, error: TurnstoneError) -> tuple[TurnEvent | Numbered, ...]:
        failed = state.ended_unanswered(TurnStatus.FAILED, failure_of(error), self._deps.clock.now())
        last_events = self._ended(failed)
        warn_of_failure(self.launch.ref, failed, error)
        return last_events

    def _ended(self, state: TurnState) -> tuple[TurnEvent | Numbered, ...]:
        change = self._commit(closed(self._session, state, self.launch.open_segment))
        self._steps_at_end = len(state.turn.steps)
        return numbered(change.turns[0])[-1:]

    def _ended_early(self, state: TurnState) -> tuple[TurnEvent | Numbered, ...]:
        """End the turn that has run too long, or whose client has left; return its last events, none of any other."""
        if self.lease.is_abandoned:
            log.info("turn %s is cancelled, because its client left", self.launch.ref.turn_id)
            return self._ended(cancelled(state, self._deps.clock.now()))
        limit_s = self._deps.limits.turn_seconds or 0.0
        return self._failed(state, TurnTimeReached(limit_s)) if self.lease.is_out_of_time else ()

    def _have_watched(self, lock: SessionLock) -> None:
        try:
            self._deps.supervisor.watch(self.launch.ref, lock)
        except StoreUnavailable as unavailable:
            # the pause is stored all the same: the next read after the deadline expires the turn
            log.warning("paused turn %s is not watched: %s", self.launch.ref.turn_id, unavailable)

    def _commit(self, change: Change) -> Change:
        self.lease.check()
        ref: SessionRef = self.launch.ref
        return self._deps.turns.commit(ref, change)


def _failed_events(launch: RunRequest, kind: FailureKind, message: str) -> tuple[TurnEvent, ...]:
    failure = Failure(kind=kind, message=message)
    return (failed_event(launch.state.model_copy(update={"failure": failure})),)
