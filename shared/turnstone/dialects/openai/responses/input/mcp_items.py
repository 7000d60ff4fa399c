"""Input items of MCP tools: lists, calls, and approvals of calls, as an earlier output had them.

A client that keeps its own history sends the request of an approval with its answer; the call is then that of the item.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from turnstone.dialects.openai.strict import StrictRequest
from turnstone.domain.messages.messages import CompletionMessage, Message, ToolResponseMessage
from turnstone.domain.responses.requests import Approval, denial
from turnstone.domain.tools.tools import ToolCall, call_from_json
from turnstone.domain.values.frozen import JsonObject, JsonValue, Many
from turnstone.domain.values.numbers import Flag

Name = Annotated[str, Field(min_length=1)]
FAILED = "The call failed."


class McpListItem(StrictRequest):
    """The tools of a server, which models get from the server itself."""

    type: Literal["mcp_list_tools"]
    id: str | None = None
    server_label: Name
    tools: Many[JsonObject]
    error: JsonValue = None


class McpCallItem(StrictRequest):
    type: Literal["mcp_call"]
    id: Name
    server_label: Name
    name: Name
    arguments: str
    output: str | None = None
    error: JsonValue = None
    approval_request_id: str | None = None
    status: Literal["in_progress", "completed", "incomplete", "calling", "failed"] | None = None


class ApprovalRequestItem(StrictRequest):
    type: Literal["mcp_approval_request"]
    id: Name
    server_label: Name
    name: Name
    arguments: str


class ApprovalResponseItem(StrictRequest):
    type: Literal["mcp_approval_response"]
    id: str | None = None
    approval_request_id: Name
    approve: Flag
    reason: str | None = None


McpItem = McpListItem | McpCallItem | ApprovalRequestItem | ApprovalResponseItem


class McpInput(NamedTuple):
    """The MCP items of an input, and the requests among them that are not decided by a call of the input.

    Attributes:
        requests: those requests, by their ids.
        used: the ids of those that a call of the input answers.
    """

    requests: dict[str, ApprovalRequestItem]
    used: frozenset[str]

    @classmethod
    def of(cls, items: Iterable[Any]) -> "McpInput":
        """Return those of the items."""
        mcp = [item for item in items if isinstance(item, McpCallItem | ApprovalRequestItem)]
        used = frozenset(
            item.approval_request_id for item in mcp if isinstance(item, McpCallItem) and item.approval_request_id
        )
        return cls({item.id: item for item in mcp if isinstance(item, ApprovalRequestItem)}, used)

    def messages_of(self, item: McpItem) -> Sequence[Message | ToolCall]:
        """Return the messages for a model: calls, which belong to the message before them, and answers to them."""
        match item:
            case ApprovalRequestItem() if item.id not in self.used:
                return (_call(item),)
            case McpCallItem():
                output = item.output if item.output is not None else str(item.error or FAILED)
                return (_call(item), ToolResponseMessage(call_id=item.id, content=output))
            case ApprovalResponseItem(approve=False) if item.approval_request_id in self._waiting:
                return (ToolResponseMessage(call_id=item.approval_request_id, content=denial(item.reason)),)
        return ()

    def approval_in(self, item: McpItem, position: int) -> Approval | None:
        """Return the decision that the item is, None for one that the input itself completes, and for another item."""
        if not isinstance(item, ApprovalResponseItem) or item.approval_request_id in self.used:
            return None
        approval = Approval(position, item.approval_request_id, item.approve, item.reason)
        request = self._waiting.get(item.approval_request_id)
        if request is None:
            return approval
        return approval._replace(call=_call(request), label=request.server_label) if item.approve else None

    @property
    def _waiting(self) -> dict[str, ApprovalRequestItem]:
        return {key: item for key, item in self.requests.items() if key not in self.used}


def listed_in(items: Iterable[Any]) -> dict[str, frozenset[str]]:
    """Return the names of the tools in each list, by the servers' labels."""
    lists = (item for item in items if isinstance(item, McpListItem))
    return {item.server_label: frozenset(str(tool.get("name")) for tool in item.tools) for item in lists}


def _call(item: McpCallItem | ApprovalRequestItem) -> ToolCall:
    return call_from_json(item.id, item.name, item.arguments)


def with_messages(messages: list[Message], added: Iterable[Message | ToolCall]) -> None:
    """Add the messages; a call is added to the message of the model before it, or to one of its own."""
    for each in added:
        last = messages[-1] if messages else None
        if not isinstance(each, ToolCall):
            messages.append(each)
        elif isinstance(last, CompletionMessage):
            messages[-1] = last.model_copy(update={"tool_calls": (*last.tool_calls, each)})
        else:
            messages.append(CompletionMessage(content="", stop_reason="end_of_turn", tool_calls=(each,)))
