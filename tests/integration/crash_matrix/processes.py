"""A process that may die at any call of a port.

Its model and its tools answer by the last message, so that repeated calls do not matter.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.fakes.models.scripted import Reply, ScriptedInference, ScriptedTools, ToolFunction, call, calls
from tests.fakes.shields import ScriptedShields, clean, registered, stops
from tests.integration.crash_matrix.faults import (
    FaultyBlobs,
    FaultyJobs,
    FaultyModel,
    FaultyReceiver,
    FaultyShields,
    FaultyStore,
    FaultySupervisor,
    FaultyTools,
    Line,
)
from tests.integration.crash_matrix.letta_client import NOTE, PASSAGE
from tests.support.engine.harness import CountingStore, ManualSupervisor, Server
from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.jobs import Job
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.refs import TurnRef
from turnstone.domain.tools.tool_runs import ProducedFile, ToolResult
from turnstone.domain.turns.turns import TurnStatus
from turnstone.engine.summary import TASK
from turnstone.ports.records import AttributeIs, RevIs, Update
from turnstone.services.cleanup.cleaning import SENT_AGAIN_AFTER
from turnstone.services.turns.recovery import Outlook
from turnstone.settings.config import Settings
from turnstone.store.layout.keys import turn_key_of
from turnstone.store.layout.oversize import OversizeStore

if TYPE_CHECKING:
    from tests.integration.crash_matrix.world import World

LEASE_S = 300  # the keeper of leases renews a third of it in, by the real clock: never while a scenario lasts
AWAIT_S = 36_000
SOON_S = 5
ENOUGH = 60
ROUNDS = 6
LARGE = base64.b64encode(random.Random(1).randbytes(3_000)).decode()
PRINTED = ToolResult("printed", files=(ProducedFile("page.txt", "text/plain", b"a page"),))
SPILT = "a secret that was spilt"
TOOLS: dict[str, dict[str, ToolFunction]] = {
    "dice": {"roll": lambda _: "4", "shuffle": lambda _: LARGE, "print": lambda _: PRINTED},
    "inline::birds": {"count": lambda _: "4"},
    "run elsewhere": {"probe": lambda _: "fine", "spill": lambda _: SPILT},
}
GUARDED_TOOLS = [
    {
        "type": "function_call",
        "function_name": name,
        "remote_execution": {"url": "https://tools.example", "method": "POST"},
        "input_shields": ["one"],
        "output_shields": [shield],
    }
    for name, shield in (("probe", "two"), ("spill", "strict"))
]
LAST_WORDS = "That is all."
ANSWERED = call("send_message", "m1", inner_thoughts="Hm.", message=LAST_WORDS)


def edit(tool: str, **arguments: str) -> Reply:
    """Return the call of a tool of Letta's agents that has the loop continue."""
    return call(tool, "e1", inner_thoughts="Hm.", request_heartbeat=True, **arguments)


REPLIES: dict[str, tuple[Reply, ...]] = {
    "plain": ("A plain answer.",),
    "roll": (calls(call("roll", "r1"), call("roll", "r2"), call("roll", "r3")), LAST_WORDS),
    "look": (call("look", "l1"), LAST_WORDS),
    "look-twice": (call("look", "l1"), call("look", "l2"), LAST_WORDS),
    "look-and-roll": (calls(call("look", "l1"), call("roll", "r1")), LAST_WORDS),
    "shuffle": (call("shuffle", "s1"), LAST_WORDS),
    "print": (calls(call("print", "p1"), call("print", "p2")), LAST_WORDS),
    "probe": (calls(call("probe", "b1"), call("probe", "b2")), LAST_WORDS),
    "spill": (calls(call("spill", "s1"), call("probe", "b1")), LAST_WORDS),
    "guarded": (call("roll", "r1"), LAST_WORDS),
    "leaky": ("A secret.",),
    "call": (call("look", "l1"), LAST_WORDS),
    "request": (call("count", "c1"), LAST_WORDS),
    "say": (ANSWERED,),
    "note": (edit("core_memory_append", label="human", content=NOTE), ANSWERED),
    "keep": (edit("archival_memory_insert", content=PASSAGE), ANSWERED),
    "write": ("look: here", call("roll", "w1"), LAST_WORDS),  # its client reads a call out of the first answer
}
KINDS = {
    "plain": ["inference"],
    "roll": ["inference", *["tool_execution"] * 3, "inference"],
    "look": ["inference", "tool_execution", "inference"],
    "look-twice": ["inference", "tool_execution", "inference", "tool_execution", "inference"],
    "look-and-roll": ["inference", "tool_execution", "tool_execution", "inference"],
    "shuffle": ["inference", "tool_execution", "inference"],
    "print": ["inference", "tool_execution", "tool_execution", "inference"],
    "probe": ["inference", *["shield_call"] * 2, *["tool_execution"] * 2, *["shield_call"] * 2, "inference"],
    "spill": ["inference", *["shield_call"] * 2, *["tool_execution"] * 2, "shield_call"],
    "guarded": [*["shield_call"] * 2, "inference", "tool_execution", "inference", *["shield_call"] * 2],
    "forbidden": ["shield_call"],
    "leaky": ["inference", "shield_call"],
    "write": ["inference", "tool_execution", "inference", "tool_execution", "inference"],
}
ALSO = {
    # a tool that fails has nothing to stop
    "spill": [["inference", *["shield_call"] * 2, *["tool_execution"] * 2, *["shield_call"] * 2, "inference"]],
    # its client may never come to answer
    "write": [["inference"]],
}
SHIELDS = (registered("one", on_failure="allow"), registered("two", on_failure="allow"), registered("strict"))
OVERRIDES: dict[str, dict[str, tuple[str, ...]]] = {
    "guarded": {"input_shields": ("one", "two"), "output_shields": ("one", "two")},
    "forbidden": {"input_shields": ("strict", "one")},
    "leaky": {"output_shields": ("strict",)},
}


class Process(Server):
    """A process of the world; any of its calls of ports can fail."""

    def __init__(self, world: World, *, is_on_lambda: bool, **settings: Any) -> None:
        store, blobs = world.database.connect()
        super().__init__(OversizeStore(store, blobs), world.clock)
        line = Line(world.faults, lambda: self.store.die(), lambda: self.store.is_dead)
        self.store = CountingStore(
            OversizeStore(FaultyStore(store, line, world.note_written), FaultyBlobs(blobs, line))
        )
        self.scripted_tools = ScriptedTools(TOOLS)
        self.on_question: Callable[[], object] = lambda: None
        self.inference = FaultyModel(ScriptedInference([self._reply] * ENOUGH), line)  # type: ignore[assignment]
        self.tools = FaultyTools(self.scripted_tools, line)  # type: ignore[assignment]
        judges = {"one": clean, "two": clean, "strict": stops("forbidden", "secret")}
        self.shields = FaultyShields(ScriptedShields(judges), line)  # type: ignore[assignment]
        self.supervisor = ManualSupervisor(world.clock)
        self.queue = world.queue
        self.jobs = FaultyJobs(world.queue, line)  # type: ignore[assignment]
        self.receiver = FaultyReceiver(world.receiver, line)  # type: ignore[assignment]
        configured = Settings(lease_seconds=LEASE_S, await_seconds=AWAIT_S, **settings)
        self.load(FaultySupervisor(self.supervisor, line), configured, is_on_lambda=is_on_lambda)

    def _reply(self, request: InferenceRequest) -> Reply:
        self.on_question()
        if request.messages[0].content == TASK:
            return "They asked plain questions."
        of_user = [index for index, message in enumerate(request.messages) if message.role == "user"]
        last_user = max(index for index in of_user if word_of(request.messages[index].content) in REPLIES)
        given = [message for message in request.messages[last_user:] if message.role == "assistant"]
        return REPLIES[word_of(request.messages[last_user].content)][len(given)]

    @property
    def is_dead(self) -> bool:
        return self.store.is_dead

    def pass_time(self, after_s: float = LEASE_S) -> None:
        """Let time pass, and reconcile due turns until none is left; a failure is retried a little later."""
        self.clock.advance(after_s)
        for _ in range(ROUNDS):
            self.supervisor.reconcile_due(self._reconcile)
            self.settle()
            self.clock.advance(SOON_S)

    def reconcile_open(self) -> None:
        """Reconcile every open turn, as a starting process does."""
        for turn in self.core.turn_store.open_turns():
            self.supervisor.schedule_check(turn, self.clock.now())
        self.pass_time(0)

    def see_through(self, turn: TurnRef) -> None:
        """Act as the worker that the state machine invokes, again after a failure, until its outlook ends."""
        for _ in range(ROUNDS):
            again_at = self._seen_through(turn)
            self.settle()
            if again_at is None:
                return
            self.clock.advance(max(0.0, (again_at - self.clock.now()).total_seconds()))

    def work_off(self) -> None:
        """Act as the queue's worker and as the sweeper until no job is due; a failure is retried."""
        for _ in range(ROUNDS):
            while self.queue.sent:
                self._done(self.queue.sent[0])
            self.clock.advance(SENT_AGAIN_AFTER.total_seconds())
            with suppress(StoreUnavailable):
                if self.core.cleaning.send_due() == 0:
                    return

    def work(self) -> None:
        """Do the jobs that the queue has for the next second."""
        until = self.clock.now() + timedelta(seconds=1)
        while due := [job for job in self.queue.sent if job.due_at <= until]:
            self._done(due[0])

    def _done(self, job: Job) -> None:
        """Do a job once it is due. A message stays in the queue until it is done, also when the process dies."""
        self.clock.at = max(self.clock.now(), job.due_at)
        with suppress(StoreUnavailable):
            self.core.cleaning.run_for(job, timedelta(0))
            self.queue.sent.remove(job)

    def store_token(self, turn: TurnRef) -> None:
        """Store a token with a waiting turn, as the state machine does."""
        record = self.records.get(turn_key_of(turn))
        assert record is not None
        still_waits = AttributeIs("status", TurnStatus.AWAITING_INPUT.value)
        self.records.write([Update(record.key, {"token": "token"}, (RevIs(record.rev), still_waits))])

    def _reconcile(self, turn: TurnRef) -> datetime | None:
        try:
            return self.core.recovery.reconcile(turn).check_at
        except StoreUnavailable:
            return self.clock.now() + timedelta(seconds=SOON_S)

    def _seen_through(self, turn: TurnRef) -> datetime | None:
        try:
            outlook: Outlook = self.core.recovery.see_through(turn, self.clock.now() + timedelta(hours=1))
        except StoreUnavailable:
            return self.clock.now() + timedelta(seconds=SOON_S)
        is_waiting = outlook.status is TurnStatus.AWAITING_INPUT
        return None if is_waiting else outlook.check_at


def word_of(content: object) -> str:
    return str(content).split(" ", 1)[0]
