"""Input items of a response, and the messages that they are for a model.

Source: the types of `openai` 3.54.0. Clients that keep their own history send items of earlier outputs back as input.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Discriminator, Field, Tag, TypeAdapter, model_validator

from turnstone.dialects.openai.responses.input.content import (
    AnyContent,
    AsList,
    AsText,
    Form,
    Texts,
    content_of,
    text_of_parts,
)
from turnstone.dialects.openai.responses.input.hosted_items import PREFIXES as HOSTED_PREFIXES
from turnstone.dialects.openai.responses.input.hosted_items import (
    CodeCallItem,
    FileSearchCallItem,
    HostedItem,
    ImageCallItem,
    WebSearchCallItem,
    messages_of,
)
from turnstone.dialects.openai.responses.input.mcp_items import (
    ApprovalRequestItem,
    ApprovalResponseItem,
    McpCallItem,
    McpInput,
    McpItem,
    McpListItem,
    listed_in,
    with_messages,
)
from turnstone.dialects.openai.strict import StrictRequest
from turnstone.domain.messages.messages import (
    CompletionMessage,
    Message,
    SystemMessage,
    ToolResponseMessage,
    UserMessage,
)
from turnstone.domain.responses.addresses import FIRST_INPUT, item_id
from turnstone.domain.responses.requests import Approval, Given
from turnstone.domain.tools.tools import call_from_json
from turnstone.domain.values.frozen import JsonObject, Many

Status = Literal["in_progress", "completed", "incomplete"]
PREFIXES: Mapping[str, str] = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "reasoning": "rs",
    **HOSTED_PREFIXES,
    "mcp_list_tools": "mcpl",
    "mcp_call": "mcp",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcpa",
}
KINDS = ", ".join(PREFIXES)


class InputItem(StrictRequest):
    """Fields of every item. The id and the status are those of the item in an earlier output."""

    id: str | None = None
    status: Status | None = None


class SpokenItem(InputItem):
    """A message of anyone but the model."""

    type: Literal["message"] | None = None
    role: Literal["user", "system", "developer"]
    content: AnyContent


class AnswerItem(InputItem):
    """A message of the model."""

    type: Literal["message"] | None = None
    role: Literal["assistant"]
    content: Annotated[AsText | Annotated[Many[Texts], AsList], Form]
    phase: Literal["commentary", "final_answer"] | None = None


class FunctionCallItem(InputItem):
    type: Literal["function_call"]
    call_id: Annotated[str, Field(min_length=1)]
    name: Annotated[str, Field(min_length=1)]
    arguments: str


class FunctionCallOutputItem(InputItem):
    type: Literal["function_call_output"]
    call_id: Annotated[str, Field(min_length=1)]
    output: AnyContent
    name: str | None = None


class ReasoningPart(StrictRequest):
    type: Literal["reasoning_text", "summary_text"]
    text: str


class ReasoningItem(InputItem):
    """Reasoning of an earlier output, which no model gets again."""

    type: Literal["reasoning"]
    summary: Many[ReasoningPart] = ()
    content: Many[ReasoningPart] = ()
    encrypted_content: str | None = None

    @model_validator(mode="before")
    @classmethod
    def refuse_encrypted(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and fields.get("encrypted_content") is not None:
            raise ValueError("encrypted_content: this server encrypts no reasoning; leave it out")
        return fields


def _kind(fields: Any) -> str | None:
    """Return the tag of an item; a message may leave its type out."""
    if not isinstance(fields, dict):
        return "answer" if isinstance(fields, AnswerItem) else getattr(fields, "type", None) or "message"
    kind = fields.get("type") or ("message" if "role" in fields else None)
    if kind == "message" and fields.get("role") == "assistant":
        return "answer"
    return kind if isinstance(kind, str) else None


def _served_kind(fields: Any) -> Any:
    kind = _kind(fields) if isinstance(fields, dict) else None
    if kind is not None and kind not in (*PREFIXES, "answer"):
        raise ValueError(f"type: items of the type {repr(kind)[:80]} are not served here; those are {KINDS}")
    return fields


AnyItem = Annotated[
    Annotated[SpokenItem, Tag("message")]
    | Annotated[AnswerItem, Tag("answer")]
    | Annotated[FunctionCallItem, Tag("function_call")]
    | Annotated[FunctionCallOutputItem, Tag("function_call_output")]
    | Annotated[ReasoningItem, Tag("reasoning")]
    | Annotated[FileSearchCallItem, Tag("file_search_call")]
    | Annotated[WebSearchCallItem, Tag("web_search_call")]
    | Annotated[CodeCallItem, Tag("code_interpreter_call")]
    | Annotated[ImageCallItem, Tag("image_generation_call")]
    | Annotated[McpListItem, Tag("mcp_list_tools")]
    | Annotated[McpCallItem, Tag("mcp_call")]
    | Annotated[ApprovalRequestItem, Tag("mcp_approval_request")]
    | Annotated[ApprovalResponseItem, Tag("mcp_approval_response")],
    Discriminator(_kind, custom_error_type="item_type", custom_error_message="type: an item needs a type or a role"),
    BeforeValidator(_served_kind),
]


class ReferenceItem(StrictRequest):
    """The id of an item of an earlier response or of a conversation, sent instead of that item."""

    type: Literal["item_reference"] | None = None
    id: Annotated[str, Field(min_length=1)]


def _is_reference(fields: Any) -> str:
    is_one = isinstance(fields, ReferenceItem)
    if isinstance(fields, dict):
        is_one = fields.get("type") == "item_reference" or fields.keys() == {"id"}
    return "item_reference" if is_one else "item"


AnyGivenItem = Annotated[
    Annotated[AnyItem, Tag("item")] | Annotated[ReferenceItem, Tag("item_reference")], Discriminator(_is_reference)
]
SomeItem = SpokenItem | AnswerItem | FunctionCallItem | FunctionCallOutputItem | ReasoningItem | HostedItem | McpItem
ITEM: TypeAdapter[SomeItem] = TypeAdapter(AnyItem)


class GivenInput(NamedTuple):
    """Input as a model gets it.

    Attributes:
        given: the answers to calls that are not among the items before them.
        approvals: the decisions about calls that were not run yet.
        listed: as `listed_in`.
    """

    messages: tuple[Message, ...]
    given: tuple[Given, ...]
    approvals: tuple[Approval, ...] = ()
    listed: Mapping[str, frozenset[str]] = {}


def stored_items(items: Iterable[SomeItem]) -> tuple[JsonObject, ...]:
    """Return the items as they are stored: with the fields that were sent, and content as parts."""
    return tuple(map(_stored, items))


def shown_items(stored: Sequence[Mapping[str, Any]], turn_id: str) -> list[dict[str, Any]]:
    """Return the stored items with ids; those without one get that of their position in the turn's input.

    Deleted items are left out.
    """
    return [
        {**item, "id": item.get("id") or item_id(PREFIXES[str(item["type"])], turn_id, FIRST_INPUT + index)}
        for index, item in enumerate(stored)
        if item
    ]


def given_input(items: Iterable[SomeItem]) -> GivenInput:
    """Return the items as messages. Calls belong to the message of the model before them, or to one of their own."""
    items = tuple(items)
    mcp = McpInput.of(items)
    messages: list[Message] = []
    given: list[Given] = []
    approvals: list[Approval] = []
    calls: set[str] = set()
    for index, item in enumerate(items):
        match item:
            case SpokenItem(role="user"):
                messages.append(UserMessage(content=content_of(item.content)))
            case SpokenItem():
                messages.append(SystemMessage(content=content_of(item.content)))
            case AnswerItem():
                messages.append(CompletionMessage(content=text_of_parts(item.content), stop_reason="end_of_turn"))
            case FunctionCallItem():
                calls.add(item.call_id)
                with_messages(messages, (call_from_json(item.call_id, item.name, item.arguments),))
            case FunctionCallOutputItem():
                messages.append(ToolResponseMessage(call_id=item.call_id, content=content_of(item.output)))
                if item.call_id not in calls:
                    given.append(Given(index, item.call_id))
            case McpListItem() | McpCallItem() | ApprovalRequestItem() | ApprovalResponseItem():
                with_messages(messages, mcp.messages_of(item))
                if (approval := mcp.approval_in(item, index)) is not None:
                    approvals.append(approval)
            case _:
                with_messages(messages, messages_of(item))
    return GivenInput(tuple(messages), tuple(given), tuple(approvals), listed_in(items))


def _stored(item: SomeItem) -> JsonObject:
    sent = {"type": item.type or "message", **item.model_dump(mode="json", exclude_unset=True, exclude_none=True)}
    if isinstance(item, SpokenItem | AnswerItem) and isinstance(item.content, str):
        kind = "output_text" if isinstance(item, AnswerItem) else "input_text"
        sent["content"] = [{"type": kind, "text": item.content}]
    if isinstance(item, SpokenItem | AnswerItem | FunctionCallItem | FunctionCallOutputItem):
        sent.setdefault("status", "completed")
    for part in sent.get("content") or ():
        if part["type"] == "output_text":
            part.setdefault("annotations", [])
        if part["type"] == "input_image":
            part.setdefault("detail", "auto")
    return sent
