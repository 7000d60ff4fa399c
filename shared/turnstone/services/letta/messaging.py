"""Toolgroup `letta::core`: the tools by which an agent answers its user, and searches the conversation."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from turnstone.domain.errors import ToolFailed
from turnstone.domain.tools.base_tools import CONVERSATION_SEARCH, CONVERSATION_SEARCH_NAME, SEND, SENT
from turnstone.domain.tools.tool_runs import SEND_NAME, ToolResult
from turnstone.domain.turns.turns import InferenceStep
from turnstone.domain.values.content import text_of
from turnstone.services.agents.archival_toolbox import page_in
from turnstone.store.letta.conversation import turns_before

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnstone.domain.refs import SessionRef
    from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation
    from turnstone.domain.tools.tools import ToolDef
    from turnstone.domain.turns.turns import TurnState
    from turnstone.ports.storage import RangeStore

PAGE = 5  # messages
MOST_CHARACTERS = 10_000_000  # that one call reads


class MessagingToolbox:
    def __init__(self, records: RangeStore) -> None:
        self._records = records

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:  # noqa: ARG002 - the same for every caller
        """Return the tools of the group."""
        return (SEND, CONVERSATION_SEARCH)

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        """Search, or accept the message: the loop takes it from the call. Raises ToolFailed."""
        if invocation.call.tool_name == CONVERSATION_SEARCH_NAME:
            return self._search(invocation)
        if not isinstance(invocation.arguments.get("message"), str):
            raise ToolFailed("message: must be a text")
        return ToolResult(SENT)

    def _search(self, invocation: ToolInvocation) -> ToolResult:
        query, page = invocation.arguments.get("query"), page_in(invocation)
        if not isinstance(query, str) or not query.strip():
            raise ToolFailed("query: must be a text")
        if invocation.ref is None:
            raise ToolFailed("Outside a session there is no conversation to search.")
        matching = (each for each in self._messages(invocation.ref) if query.lower() in each["content"].lower())
        found = list(islice(matching, page * PAGE, (page + 1) * PAGE))
        if not found:
            return ToolResult("No results." if page == 0 else f"No results on page {page}.")
        return ToolResult(f"Page {page}, {len(found)} results: {to_json(found).decode()}")

    def _messages(self, ref: SessionRef) -> Iterator[dict[str, Any]]:
        """Yield the messages of ended turns, newest first, up to a number of characters."""
        left = MOST_CHARACTERS
        for state in turns_before(self._records, ref, None):
            for message in reversed(list(_messages_of(state))):
                left -= len(message["content"])
                if left < 0:
                    return
                yield message


def _messages_of(state: TurnState) -> Iterator[dict[str, Any]]:
    """Yield the messages of the user and those to the user, without those of a running turn."""
    if not state.status.is_terminal:
        return
    for given in state.turn.input_messages:
        yield _shown(given.role, text_of(given.content), state)
    for step in state.turn.steps:
        for call in step.model_response.tool_calls if isinstance(step, InferenceStep) else ():
            text = None if isinstance(call.arguments, str) else call.arguments.get("message")
            if call.tool_name == SEND_NAME and isinstance(text, str):
                yield _shown("assistant", text, state)


def _shown(role: str, content: str, state: TurnState) -> dict[str, Any]:
    return {"timestamp": state.turn.started_at.isoformat(), "role": role, "content": content}
