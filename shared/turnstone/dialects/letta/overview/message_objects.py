"""Messages of Letta's API as the model sees them: one for each row, with its role."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Literal, NamedTuple

from pydantic import RootModel

from turnstone.dialects.letta.ids import organization_id, shown, user_id
from turnstone.dialects.letta.message_requests import MessagesQuery
from turnstone.dialects.letta.messages import (
    NO_ANSWER_TOOL,
    Note,
    Notes,
    ReasoningNote,
    Row,
    SystemNote,
    ToolCallNote,
    ToolReturnNote,
    UserNote,
    rows_of,
    system_row,
)
from turnstone.domain.letta.agents import LettaAgent
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.values.frozen import Frozen


class ObjectFunction(Frozen):
    """The tool of a call and its arguments, as a JSON text."""

    name: str
    arguments: str


class ObjectCall(Frozen):
    """A call of a tool."""

    id: str
    type: Literal["function"] = "function"
    function: ObjectFunction


class MessageObject(Frozen):
    """A message as the model sees it."""

    created_by_id: str
    last_updated_by_id: str
    created_at: datetime
    updated_at: datetime
    id: str
    role: Literal["system", "user", "assistant", "tool"]
    text: str | None = None
    organization_id: str
    agent_id: str
    model: str
    name: str | None = None
    tool_calls: tuple[ObjectCall, ...] | None = None
    tool_call_id: str | None = None
    step_id: str | None = None


class MessageObjects(RootModel[tuple[MessageObject, ...]]):
    """Messages as the model sees them, oldest first."""


class MessageList(RootModel[tuple[Note, ...] | tuple[MessageObject, ...]]):
    """Messages, oldest first: each as the model sees it if `msg_object` is true."""


class ObjectParts(NamedTuple):
    """The parts of a message that the notes of its row hold."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str | None
    calls: tuple[ObjectCall, ...] = ()
    call_id: str | None = None


def messages_of(
    query: MessagesQuery, agent: LettaAgent, turns: Iterator[TurnState], tenant: str
) -> Notes | MessageObjects:
    """Return the requested messages of these turns, which come newest first; the result is oldest first.

    Raises NotFound if the agent has no message `before`.
    """
    if not query.has_objects:
        return Notes(query.notes(agent, turns))
    rows = query._replace(answers_by=NO_ANSWER_TOOL).rows(agent, turns)
    return MessageObjects(tuple(objects_in(rows, agent, tenant)))


def system_object(agent: LettaAgent, tenant: str) -> MessageObject:
    """Return the agent's system message with its memory as it is now."""
    (found,) = objects_in((system_row(agent),), agent, tenant)
    return found


def objects_of(state: TurnState, agent: LettaAgent, tenant: str) -> tuple[MessageObject, ...]:
    """Return the messages of the turn so far."""
    return tuple(objects_in(rows_of(state, NO_ANSWER_TOOL), agent, tenant))


def objects_in(rows: Iterable[Row], agent: LettaAgent, tenant: str) -> Iterator[MessageObject]:
    """Yield the message of each row."""
    user, names = user_id(agent.owner), dict[str, str]()
    for row in rows:
        if not row.notes:
            continue
        found, at = _parts(row), row.notes[0].date
        names.update((call.id, call.function.name) for call in found.calls)
        yield MessageObject(
            created_by_id=user,
            last_updated_by_id=user,
            created_at=at,
            updated_at=at,
            id=row.notes[0].id,
            role=found.role,
            text=found.text,
            organization_id=organization_id(tenant),
            agent_id=shown("agent", agent.agent_id),
            model=agent.config.model,
            name=None if found.call_id is None else names.get(found.call_id),
            tool_calls=found.calls or None,
            tool_call_id=found.call_id,
            step_id=shown("step", row.step_id) if row.step_id else None,
        )


def _parts(row: Row) -> ObjectParts:
    first = row.notes[0]
    match first:
        case SystemNote():
            return ObjectParts("system", first.message)
        case UserNote():
            return ObjectParts("user", first.message)
        case ToolReturnNote():
            return ObjectParts("tool", first.tool_return, call_id=first.tool_call_id)
    text = first.reasoning if isinstance(first, ReasoningNote) else None
    notes = (note.tool_call for note in row.notes if isinstance(note, ToolCallNote))
    calls = tuple(
        ObjectCall(id=each.tool_call_id, function=ObjectFunction(name=each.name, arguments=each.arguments))
        for each in notes
    )
    return ObjectParts("assistant", text, calls)
