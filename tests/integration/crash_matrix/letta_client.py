"""A client of one of Letta's agents: it repeats each request without an answer under its key, and records answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.support.engine.harness import ProcessDied, attempt, finished_steps, outline
from turnstone.dialects.letta.requests import CreateLettaAgent
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.agents.archives import PassageQuery
from turnstone.domain.errors import NotFound, StoreUnavailable, TurnRunning
from turnstone.domain.letta.agents import LettaQuery, main_session
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.refs import SessionRef
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.turns import Step, TurnState, TurnStatus

if TYPE_CHECKING:
    from tests.integration.crash_matrix.processes import Process

NAME = "Sam"
HUMAN = {"label": "human", "value": "A friend."}
NOTE, PASSAGE = "likes tea", "Herons nest in colonies."
# the calls of a whole turn, by the first word of its message
CALLS = {
    "say": ["send_message"],
    "note": ["core_memory_append", "send_message"],
    "keep": ["archival_memory_insert", "send_message"],
    "first": [],  # no answer is made to a first message
}
Act = Callable[["Process"], object]


class LettaClient:
    """Acts as a client of an agent does, until its process dies.

    Attributes:
        agent_id: the agent; "" until one was answered.
        runs: the ids of its runs, by their messages.
        published: the steps that it received.
        is_deleted: whether the deletion was requested, and `is_gone` whether it was confirmed.
    """

    def __init__(self) -> None:
        self.agent_id = ""
        self.runs: dict[str, str] = {}
        self.published: list[Step] = []
        self.sent: list[str] = []
        self.cancelled: set[str] = set()
        self.is_deleted = self.is_gone = False
        self._attempts: dict[str, Attempt] = {}
        self._unanswered: Act | None = None

    def ref(self, reader: Process) -> SessionRef:
        """Return the session of the agent's messages."""
        generation = reader.core.letta_agents.read(LOCAL_CALLER, self.agent_id).fields.generation
        session_id = main_session(self.agent_id, generation)
        return SessionRef(tenant=LOCAL_CALLER.tenant, agent_id=self.agent_id, session_id=session_id)

    def create(self, server: Process, *first: str, is_keyed: bool = False) -> None:
        """Create the agent with a memory block and these first messages, under a key if so."""
        self.sent += first
        messages = [{"role": "user", "text": text} for text in first]
        body = CreateLettaAgent.model_validate(
            {"llm": "scripted", "memory_blocks": [HUMAN], "initial_message_sequence": messages}
        )

        def act(at: Process) -> None:
            importing = at.core.letta_importing
            by = self._by("create") if is_keyed else attempt()
            imported = body.to_imported(NAME, importing.now)
            self.agent_id = importing.create(LOCAL_CALLER, imported, by).agent_id

        self._do(server, act)

    def send(self, server: Process, text: str) -> None:
        """Send the message and receive the events of its turn."""
        self.sent.append(text)

        def act(at: Process) -> None:
            is_again = text in self._attempts
            messages = [UserMessage(content=text)]
            broadcast = at.core.letta_messages.send(LOCAL_CALLER, self.agent_id, messages, self._by(text))
            if is_again:
                at.pass_time()
            events = at.drain(broadcast)
            self.published += (step for step in finished_steps(events) if step not in self.published)
            if at.is_dead:
                raise ProcessDied
            if outline(events).endswith("failed:store_unavailable"):
                at.pass_time()

        self._do(server, act)

    def begin(self, server: Process, text: str) -> str:
        """Begin a run of the message; return its id."""
        self.sent.append(text)

        def act(at: Process) -> None:
            messages = [UserMessage(content=text)]
            run = at.core.letta_runs.start(LOCAL_CALLER, self.agent_id, messages, {}, self._by(text))
            self.runs[text] = run.ref.turn_id

        self._do(server, act)
        return self.runs[text]

    def cancel(self, server: Process, text: str) -> None:
        """Cancel the run of the message, and take it from the list."""
        self.cancelled.add(text)

        def act(at: Process) -> None:
            with suppress(NotFound):
                at.core.letta_runs.delete(LOCAL_CALLER, self.runs[text], self._by(f"cancel {text}"))

        self._do(server, act)

    def reset(self, server: Process) -> None:
        """Remove all messages; until that is answered, they may be there or not."""
        self.published = []
        self._do(server, lambda at: at.core.letta_messages.reset(LOCAL_CALLER, self.agent_id))

    def write_block(self, server: Process, value: str) -> None:
        """Change the value of the block over the API."""

        def act(at: Process) -> None:
            (block,) = at.core.letta_agents.read(LOCAL_CALLER, self.agent_id).blocks
            at.core.blocks.change(LOCAL_CALLER, block.block_id, {"value": value})

        self._do(server, act)

    def delete(self, server: Process) -> None:
        self.is_deleted = True

        def act(at: Process) -> None:
            with suppress(NotFound):
                at.core.deleting.delete_agent(LOCAL_CALLER, self.agent_id)
            self.is_gone = True

        self._do(server, act)

    def repeat(self, server: Process) -> None:
        """Repeat the request that got no answer."""
        if self._unanswered is not None:
            self._do(server, self._unanswered)

    def continue_after_all(self, server: Process, text: str) -> None:
        """Send one message more, once the turn that is left open has ended."""
        if not self.agent_id:
            self.create(server, is_keyed=True)
        if not self.is_there(server):
            return
        try:
            self.send(server, text)
        except TurnRunning:  # its process is gone: another continues it
            self.sent.pop()
            self._attempts.pop(text)
            server.reconcile_open()
            self.send(server, text)

    def is_there(self, reader: Process) -> bool:
        """Return whether the agent exists."""
        return self.agent_id in self._listed(reader)

    def assert_true(self, reader: Process, where: str) -> None:
        """Assert that the agent is there, once, with all that was received of it, and no edit is made twice."""
        agents = self._listed(reader)
        assert len(agents) <= 1, where
        if not self.agent_id or not agents:
            assert self.is_deleted or not self.agent_id, where
            return
        assert not self.is_gone, where
        assert agents == [self.agent_id], where
        states = self._states(reader)
        stored = [step for state in states for step in state.turn.steps]
        assert [step for step in stored if step in self.published] == self.published, where
        texts = [str(state.turn.input_messages[0].content) for state in states]
        assert texts == [text for text in self.sent if text in texts], f"{where} {texts} {self.sent}"
        for state, text in zip(states, texts, strict=True):
            called = [call.tool_name for step in state.turn.steps for call in getattr(step, "tool_calls", ())]
            whole = CALLS[text.split(" ", 1)[0]]
            is_whole = state.status is TurnStatus.COMPLETED
            assert called == whole[: None if is_whole else len(called)], f"{where} {text} {called}"
        self._assert_edits(reader, stored, where)

    def assert_over(self, reader: Process, where: str) -> None:
        """Assert that every turn has ended, the last one completed, and that uncancelled runs are listed."""
        if self.is_gone or not self.is_there(reader):
            return
        states = self._states(reader)
        assert all(state.status.is_terminal for state in states), where
        assert states[-1].status is TurnStatus.COMPLETED, where
        runs = {run.ref.turn_id for run in reader.core.letta_runs.list(LOCAL_CALLER, 100)}
        answered = {turn_id for text, turn_id in self.runs.items() if text not in self.cancelled}
        assert answered <= runs, where

    def _assert_edits(self, reader: Process, stored: list[Step], where: str) -> None:
        """Assert that each stored edit was made, and each other one at most once for each turn that requests it."""
        (block,) = reader.core.letta_agents.read(LOCAL_CALLER, self.agent_id).blocks
        passages = reader.core.archives.list(LOCAL_CALLER.tenant, self.agent_id, PassageQuery(limit=100))
        made = Counter({"core_memory_append": block.value.count(NOTE)})
        made["archival_memory_insert"] = sum(PASSAGE in each.text for each in passages)
        ran = Counter(answer.tool_name for step in stored for answer in getattr(step, "tool_responses", ()))
        for tool, word in (("core_memory_append", "note"), ("archival_memory_insert", "keep")):
            turns = sum(text.startswith(word) for text in self.sent)
            assert ran[tool] <= made[tool] <= turns, f"{where} {tool} {ran[tool]} {made[tool]} {turns}"

    @staticmethod
    def _listed(reader: Process) -> list[str]:
        """Return the ids of the agents that clients of Letta's API created."""
        agents = reader.core.letta_agents.list(LOCAL_CALLER, LettaQuery(limit=100, name=NAME))
        return [agent.agent_id for agent in agents]

    def _states(self, reader: Process) -> list[TurnState]:
        try:
            return list(reader.states(self.ref(reader)))
        except NotFound:
            return []

    def _by(self, name: str) -> Attempt:
        return self._attempts.setdefault(name, attempt(name, key=name))

    def _do(self, server: Process, act: Act) -> None:
        self._unanswered = act
        try:
            act(server)
        except StoreUnavailable:
            act(server)
        self._unanswered = None
