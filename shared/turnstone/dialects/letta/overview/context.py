"""The context of an agent of Letta's API: what its next inference sees, with the tokens of each part."""

from collections.abc import Iterable
from typing import Literal

from turnstone.dialects.letta.messages import NO_ANSWER_TOOL, rows_of
from turnstone.dialects.letta.overview.message_objects import MessageObject, MessageObjects, objects_of, system_object
from turnstone.dialects.letta.server.models import WINDOW_TOKENS
from turnstone.dialects.letta.tools import tools_shown
from turnstone.domain.agents.blocks import head_of, texts_of
from turnstone.domain.letta.agents import LettaAgent
from turnstone.domain.memory.texts.chunking import count_tokens
from turnstone.domain.sessions.session_context import SessionContext
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.values.frozen import Frozen, JsonObject


class OfferedFunction(Frozen):
    """A tool as the model sees it."""

    type: Literal["function"] = "function"
    function: JsonObject


class ContextWindowOverview(Frozen):
    """What the next inference of an agent sees, with the tokens of each part."""

    context_window_size_max: int
    context_window_size_current: int
    num_messages: int
    num_archival_memory: int
    num_recall_memory: int
    num_tokens_external_memory_summary: int
    external_memory_summary: str
    num_tokens_system: int
    system_prompt: str
    num_tokens_core_memory: int
    core_memory: str
    num_tokens_summary_memory: int
    summary_memory: str | None
    num_tokens_functions_definitions: int
    functions_definitions: tuple[OfferedFunction, ...]
    num_tokens_messages: int
    messages: tuple[MessageObject, ...]


class RecallSummary(Frozen):
    """The number of messages."""

    size: int


def overview_of(
    agent: LettaAgent, context: SessionContext, turns: Iterable[TurnState], passages: int, tenant: str
) -> ContextWindowOverview:
    """Return the overview of an agent with these turns, newest first, and that number of passages."""
    messages, rows = _read(agent, context, turns, tenant)
    functions = tuple(OfferedFunction(function=each.json_schema or {}) for each in tools_shown(agent, tenant))
    head, blocks, system = head_of(agent.blocks), texts_of(agent.blocks), agent.config.instructions
    summary = None if context.summary is None else context.summary.text
    of_head, of_system, of_blocks, of_summary = map(count_tokens, (head, system, blocks, summary or ""))
    of_functions = sum(count_tokens(each.model_dump_json()) for each in functions)
    of_messages = sum(map(_tokens, messages[1:]))
    return ContextWindowOverview(
        context_window_size_max=context.window_tokens or agent.fields.llm_config.get("context_window") or WINDOW_TOKENS,
        context_window_size_current=of_head + of_system + of_blocks + of_summary + of_functions + of_messages,
        num_messages=len(messages) + (summary is not None),
        num_archival_memory=passages,
        num_recall_memory=rows,
        num_tokens_external_memory_summary=of_head,
        external_memory_summary=head,
        num_tokens_system=of_system,
        system_prompt=system,
        num_tokens_core_memory=of_blocks,
        core_memory=blocks,
        num_tokens_summary_memory=of_summary,
        summary_memory=summary,
        num_tokens_functions_definitions=of_functions,
        functions_definitions=functions,
        num_tokens_messages=of_messages,
        messages=messages,
    )


def context_messages(
    agent: LettaAgent, context: SessionContext, turns: Iterable[TurnState], tenant: str
) -> MessageObjects:
    """Return the messages that the next inference sees, of these turns, newest first."""
    return MessageObjects(_read(agent, context, turns, tenant)[0])


def recall_of(turns: Iterable[TurnState]) -> RecallSummary:
    """Return the number of messages of these turns, with the system message."""
    return RecallSummary(size=1 + sum(len(rows_of(state, NO_ANSWER_TOOL)) for state in turns))


def _read(
    agent: LettaAgent, context: SessionContext, turns: Iterable[TurnState], tenant: str
) -> tuple[tuple[MessageObject, ...], int]:
    """Return the messages in the context, and the number of all: with the system message, and a running turn's."""
    sent = {turn.turn_id for turn in context.turns}
    parts: list[tuple[MessageObject, ...]] = []
    rows = 1
    for state in turns:
        rows += len(rows_of(state, NO_ANSWER_TOOL))
        if state.turn_id in sent or not state.status.is_terminal:
            parts.append(objects_of(state, agent, tenant))
    messages = [system_object(agent, tenant)]
    for part in reversed(parts):
        messages += part
    return tuple(messages), rows


def _tokens(message: MessageObject) -> int:
    calls = message.tool_calls or ()
    return count_tokens(message.text or "") + sum(
        count_tokens(f"{call.function.name} {call.function.arguments}") for call in calls
    )
