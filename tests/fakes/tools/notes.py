"""A service of notes, and its toolbox: the double of a toolgroup whose tools are a service of the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turnstone.bootstrap.core import Core
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import ToolFailed
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.refs import SessionRef
from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation, ToolResult
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.turns import NewTurn
from turnstone.ports.records import Absent, Key, Put, Range
from turnstone.ports.storage import RangeStore
from turnstone.services.tools.own_toolboxes import OwnToolgroup
from turnstone.store.layout.ranges import all_records

NOTES = "builtin::notes"


class Notes:
    """Notes of a tenant in the server's store, each written once."""

    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def write(self, tenant: str, name: str, text: str) -> None:
        """Store the note. Raises Conflict if it is there."""
        self._store.write([Put(Key(f"{tenant}|notes", name), text.encode(), when=(Absent(),))])

    def read(self, tenant: str) -> dict[str, str]:
        found = all_records(self._store, Range(f"{tenant}|notes"))
        return {record.key.sk: record.body.decode() for record in found}


class NotesToolbox:
    """Toolbox over notes and the turns of the same server; keeps its calls, and the callers that listed its tools."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.notes = Notes(core.foundation.ports.store)
        self.invocations: list[ToolInvocation] = []
        self.listed_for: list[ToolAsker] = []
        self.on_invoke: Callable[[ToolInvocation], object] = lambda _: None

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:
        self.listed_for.append(asker)
        return tuple(ToolDef(name=name, description=f"Run {name}.") for name in ("write", "read", "ask"))

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        self.invocations.append(invocation)
        self.on_invoke(invocation)
        tenant, arguments = invocation.asker.tenant, dict(invocation.arguments)
        match invocation.call.tool_name:
            case "write":
                name = invocation.idempotency_key
                if name not in self.notes.read(tenant):
                    self.notes.write(tenant, name, str(arguments["text"]))
                return ToolResult("written")
            case "ask":
                return ToolResult(self._answer(invocation, str(arguments["agent_id"])))
            case _:
                return ToolResult(", ".join(self.notes.read(tenant).values()) or "no notes")

    def _answer(self, invocation: ToolInvocation, agent_id: str) -> str:
        """Return the answer of a turn of another agent. Raises ToolFailed for an agent among the callers."""
        if agent_id in invocation.nested_chain:
            raise ToolFailed(f"{agent_id} is among the callers: {invocation.nested_chain}")
        tenant, key = invocation.asker.tenant, invocation.idempotency_key
        session_id = self._core.sessions.create(LOCAL_CALLER, agent_id, "nested", Attempt(fingerprint=f"s:{key}"))
        ref = SessionRef(tenant=tenant, agent_id=agent_id, session_id=session_id)
        new = NewTurn(messages=(UserMessage(content="?"),), chain=invocation.nested_chain)
        running = self._core.turns.start(LOCAL_CALLER, ref, new, Attempt(fingerprint=f"t:{key}"))
        last: Any = list(running.wait())[-1]
        return str(last.turn.output_message.content)


def notes_of(core: Core, **flags: bool) -> tuple[OwnToolgroup, ...]:
    """Return the toolgroup of notes over that core."""
    return (OwnToolgroup(NOTES, lambda: NotesToolbox(core), **flags),)
