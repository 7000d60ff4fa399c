"""Toolgroup `letta::multi_agent`: the tools by which an agent sends messages to other agents, and gets their answers.

A call starts a turn of the other agent, with the agents before it as its chain. Those turns have slots and threads of
their own at each depth, so that no turn waits for a slot of one that waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from pydantic_core import to_json

from turnstone.domain.access.access import owner_of
from turnstone.domain.errors import (
    Conflict,
    ContentLost,
    InvalidRequest,
    LimitReached,
    NotFound,
    Overloaded,
    ToolFailed,
    TurnAwaited,
    TurnRunning,
)
from turnstone.domain.letta.agents import LettaAgent, LettaQuery
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.tools.base_tools import CALL_AGENT, CALL_AGENTS, NOTIFY_AGENT
from turnstone.domain.tools.tool_runs import ToolResult
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.events import TurnCompleted, TurnFailed
from turnstone.domain.values.cancellation import StopSignal
from turnstone.domain.values.content import text_of
from turnstone.services.memory.turns.lending import caller_of
from turnstone.services.tools.toolboxes import MOST_DEPTH

if TYPE_CHECKING:
    from turnstone.domain.refs import SessionRef
    from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation
    from turnstone.domain.tools.tools import ToolDef
    from turnstone.services.letta.agents import LettaAgents
    from turnstone.services.letta.messages import LettaMessages
    from turnstone.services.streams.broadcast import TurnBroadcast
    from turnstone.services.streams.session_queues import SessionQueues
    from turnstone.services.turns.run_request import Opening
    from turnstone.services.turns.turns import Turns
    from turnstone.store.agents.agents import AgentStore
    from turnstone.store.sessions.sessions import SessionStore

Begun = TypeVar("Begun")
MOST_AGENTS = 10  # that one call sends a message to
MOST_CHARACTERS = 100_000
PATIENCE_S = 20.0  # for the running turn of the other agent
REPEATED_WITHIN_S = 3_600.0
REFUSALS = (InvalidRequest, ContentLost, LimitReached, Overloaded, Conflict)


@dataclass(frozen=True, slots=True)
class MultiAgentDeps:
    """Dependencies of the tools between agents.

    Attributes:
        turns_at: returns the turns with the slots of a depth, from 1.
        turns: begin a turn without the call that sent its message.
    """

    agents: LettaAgents
    messages: LettaMessages
    agent_store: AgentStore
    sessions: SessionStore
    turns_at: Callable[[int], Turns]
    turns: Turns
    queues: Callable[[], SessionQueues]


class MultiAgentToolbox:
    def __init__(self, deps: MultiAgentDeps) -> None:
        self._deps = deps

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:  # noqa: ARG002 - the same for every caller
        """Return the tools of the group."""
        return (CALL_AGENT, NOTIFY_AGENT, CALL_AGENTS)

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        """Send the message, once for its idempotency key. Raises ToolFailed."""
        if invocation.ref is None:
            raise ToolFailed("Outside a session there is no agent that sends a message.")
        if len(invocation.nested_chain) > MOST_DEPTH:
            raise ToolFailed(f"Agents call each other {MOST_DEPTH} times in a row at most; answer without this call.")
        sending = _Sending(self._deps, invocation, invocation.ref)
        match invocation.call.tool_name:
            case CALL_AGENTS.name:
                return sending.to_all_with_tags()
            case NOTIFY_AGENT.name:
                return sending.without_answer(_text(invocation, "other_agent_id"))
            case _:
                return sending.with_answer(_text(invocation, "other_agent_id"))


class _Sending:
    """One call of a tool between agents."""

    def __init__(self, deps: MultiAgentDeps, invocation: ToolInvocation, ref: SessionRef) -> None:
        """Raise ToolFailed without a message, or if the calling agent is gone."""
        self._deps = deps
        self._invocation = invocation
        self._ref = ref
        self._stop = invocation.stop or StopSignal()
        self._message = _text(invocation, "message")
        self._until_s = time.monotonic() + min(PATIENCE_S, invocation.timeout_s / 2)
        try:
            self._owner = caller_of(ref.tenant, deps.agent_store.stamp(ref.tenant, ref.agent_id))
            stamp = invocation.named_by or deps.sessions.visit(ref)[0].stamp
        except NotFound as gone:
            raise ToolFailed(str(gone)) from gone
        self._caller = caller_of(ref.tenant, stamp)

    def with_answer(self, agent_id: str) -> ToolResult:
        """Return the answer of the other agent. Raises ToolFailed."""
        agent = self._agent(agent_id)
        return ToolResult(self._answer(self._begun(agent)))

    def without_answer(self, agent_id: str) -> ToolResult:
        """Begin the turn of the other agent, and return at once. Raises ToolFailed."""
        agent = self._agent(agent_id)
        ref, opening, attempt = self._opening(agent)
        attempt = attempt.model_copy(update={"provider_data": NO_PROVIDER_DATA})
        self._tried(agent, partial(self._deps.turns.start_in_background, self._caller, ref, opening, attempt))
        return ToolResult(f"The agent {agent.agent_id!r} has the message.")

    def to_all_with_tags(self) -> ToolResult:
        """Return the answers of all agents with the tags. Raises ToolFailed."""
        tags = self._invocation.arguments.get("tags")
        if not (isinstance(tags, list) and tags and all(isinstance(tag, str) and tag for tag in tags)):
            raise ToolFailed("tags: must be a list of texts")
        query = LettaQuery(limit=MOST_AGENTS + 1 + MOST_DEPTH, tags=tuple(tags), has_all_tags=True)
        chain = self._invocation.nested_chain
        found = [each for each in self._deps.agents.list(self._caller, query) if each.agent_id not in chain]
        agents = [each for each in found if self._try_owner(each.agent_id)]
        if not agents:
            return ToolResult("No other agent has these tags.")
        if len(agents) > MOST_AGENTS:
            raise ToolFailed(f"More than {MOST_AGENTS} agents have these tags; name more of them.")
        begun = [(agent, self._begun_or_refused(agent)) for agent in agents]
        answers = [self._shown(agent, turn) for agent, turn in begun]
        return ToolResult(to_json(answers).decode())

    def _shown(self, agent: LettaAgent, turn: TurnBroadcast | ToolFailed) -> dict[str, str]:
        shown = {"agent_id": f"agent-{agent.agent_id}", "name": agent.config.name or agent.agent_id}
        if isinstance(turn, ToolFailed):
            return {**shown, "error": str(turn)}
        try:
            return {**shown, "response": self._answer(turn)}
        except ToolFailed as failed:
            return {**shown, "error": str(failed)}

    def _begun_or_refused(self, agent: LettaAgent) -> TurnBroadcast | ToolFailed:
        try:
            return self._begun(agent)
        except ToolFailed as failed:
            return failed

    def _agent(self, text: str) -> LettaAgent:
        """Return the other agent. Raises ToolFailed if the caller, or the owner of this agent, may not see it."""
        agent_id = text.removeprefix("agent-")
        try:
            if not self._try_owner(agent_id):
                raise NotFound("agent", agent_id)
            agent = self._deps.agents.read(self._caller, agent_id)
        except (NotFound, ContentLost) as missing:
            raise ToolFailed(f"agent {agent_id!r} not found") from missing
        if agent_id in self._invocation.nested_chain:
            raise ToolFailed(f"The agent {agent_id!r} waits for this answer, so it can't get a message now.")
        return agent

    def _try_owner(self, agent_id: str) -> bool:
        try:
            self._deps.agents.read(self._owner, agent_id)
        except (NotFound, ContentLost):
            return False
        return True

    def _begun(self, agent: LettaAgent) -> TurnBroadcast:
        ref, opening, attempt = self._opening(agent)
        turns = self._deps.turns_at(len(self._invocation.nested_chain))
        return self._tried(agent, partial(turns.start, self._caller, ref, opening, attempt))

    def _opening(self, agent: LettaAgent) -> tuple[SessionRef, Opening, Attempt]:
        text = (
            f"[Automated message, not from the user: the agent 'agent-{self._ref.agent_id}' sends the text below, and "
            f"gets your answer.]\n{self._message}"
        )
        try:
            ref, opening = self._deps.messages.opening(self._caller, agent.agent_id, [UserMessage(content=text)])
        except (NotFound, ContentLost) as missing:
            raise ToolFailed(f"agent {agent.agent_id!r} not found") from missing
        of_call = {"chain": self._invocation.nested_chain, "named_by": owner_of(self._caller)}
        key = sha256(f"{self._invocation.idempotency_key}:{agent.agent_id}".encode()).hexdigest()
        attempt = Attempt(
            fingerprint=key,
            is_retry=True,
            key=key,
            repeated_within_s=REPEATED_WITHIN_S,
            provider_data=self._invocation.asker.provider_data,
        )
        return ref, opening._replace(new=opening.new.model_copy(update=of_call)), attempt

    def _tried(self, agent: LettaAgent, begin: Callable[[], Begun]) -> Begun:
        """Return the begun turn, for which the running turn of the agent is awaited. Raises ToolFailed."""
        try:
            try:
                return begin()
            except TurnAwaited as refused:
                return self._after_turn(refused, begin)
        except NotFound as missing:
            raise ToolFailed(f"agent {agent.agent_id!r} not found") from missing
        except TurnRunning as busy:
            raise ToolFailed(f"The agent {agent.agent_id!r} is busy; try again later.") from busy
        except REFUSALS as refused_now:
            raise ToolFailed(f"The agent {agent.agent_id!r} can't answer now: {refused_now}") from refused_now

    def _after_turn(self, refused: TurnAwaited, begin: Callable[[], Begun]) -> Begun:
        queues, changed = self._deps.queues(), Event()
        waiter = queues.join(refused, lambda _: changed.set())
        try:
            while True:
                self._wait(changed, refused)
                if not waiter.is_ready:
                    raise refused
                try:
                    return queues.within(waiter, begin)
                except TurnAwaited as again:
                    queues.wait_again(waiter, again)
        finally:
            queues.leave(waiter)

    def _wait(self, changed: Event, refused: TurnAwaited) -> None:
        with self._stop.heeded_by(changed.set):
            changed.wait(max(0.0, self._until_s - time.monotonic()))
        if self._stop.is_set:
            raise refused
        changed.clear()

    def _answer(self, turn: TurnBroadcast) -> str:
        """Return the output of the turn once it has ended. Raises ToolFailed without one."""
        last = _last_event(turn, self._stop)
        if isinstance(last, TurnCompleted):
            return text_of(last.turn.output_message.content)
        if isinstance(last, TurnFailed):
            raise ToolFailed(f"The other agent gave no answer: {last.failure.message}")
        raise ToolFailed("The other agent waits for an answer of its client, and gave none.")


def _last_event(turn: TurnBroadcast, stop: StopSignal) -> object:
    """Return the last event of the turn, once its run is over. Raises ToolFailed if the call is cancelled."""
    changed, last = Event(), None
    subscriber = turn.subscribe(changed.set)
    try:
        with stop.heeded_by(changed.set):
            while not stop.is_set:
                received = subscriber.take()
                if received.events:
                    last = received.events[-1]
                if received.is_last:
                    return last
                changed.wait()
                changed.clear()
    finally:
        turn.unsubscribe(subscriber)
    raise ToolFailed("The call was cancelled.")


def _text(invocation: ToolInvocation, name: str) -> str:
    text = invocation.arguments.get(name)
    if not isinstance(text, str) or not text.strip():
        raise ToolFailed(f"{name}: must be a text")
    if len(text) > MOST_CHARACTERS:
        raise ToolFailed(f"{name}: has at most {MOST_CHARACTERS} characters")
    return text
