"""Stored chat completions on OpenAI's wire: the stored form, lists of them, and the messages of one.

Source: the OpenAI API reference, and the types of `llama-stack-client` 0.2.12 and 0.3.5, where a stored completion has
its `input_messages` and a list is newest first.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json, to_json

from turnstone.dialects.json_objects import after_entries, before_entries, with_fields
from turnstone.dialects.openai.chat.chat_replies import ChatCompletion
from turnstone.dialects.openai.metadata import Metadata
from turnstone.dialects.openai.pages import (
    HAS_MORE,
    OF_LIST,
    EndIds,
    PageRule,
    one_value,
    only_value,
    refuse_cursor,
    unused_id_near,
)
from turnstone.domain.errors import NotFound
from turnstone.domain.models.stored_completions import MOST_IN_A_LIST, CompletionsQuery, StoredCompletion
from turnstone.domain.values.frozen import Frozen

EXAMPLE_ID = "chatcmpl-01990000-0000-7000-8000-000000000000"
WIRE_PREFIX = "chatcmpl-"
WIRE_ID = WIRE_PREFIX + r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
Wire = bytes | Iterable[bytes]
MESSAGE_ID = re.compile(rf"(?P<completion_id>{WIRE_ID})-(?P<index>0|[1-9][0-9]{{0,8}})")
METADATA_NAME = re.compile(r"metadata\[([^\[\]]+)\]")
USUAL_LIMIT = 20
LOST = "[The content of this chat completion is lost: the server's stored copy of it is missing or damaged.]"
LIST_HEAD = before_entries({"object": "list"}, "data")

FIRST_ID = Annotated[
    str, Field(description="The id of the first entry, empty if there is none.", examples=[EXAMPLE_ID])
]
LAST_ID = Annotated[str, Field(description="The id to continue behind, empty if there is none.", examples=[EXAMPLE_ID])]


class StoredChatCompletion(ChatCompletion):
    """A chat completion with its request."""

    input_messages: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            description="The messages of the question, as they were sent.",
            examples=[[{"role": "user", "content": "hi"}]],
        ),
    ]
    metadata: Metadata


class ChatCompletionList(Frozen):
    """A part of the list of stored chat completions."""

    object: OF_LIST = "list"
    data: Annotated[
        tuple[StoredChatCompletion, ...], Field(description="The chat completions, in the requested order.")
    ]
    first_id: FIRST_ID
    last_id: LAST_ID
    has_more: HAS_MORE


class UpdateChatCompletion(Frozen):
    """A change of a stored chat completion."""

    model_config = ConfigDict(extra="forbid")

    metadata: Annotated[
        Metadata | None,
        Field(description="The new metadata, which replaces all of the old; null for none.", examples=[{"a": "b"}]),
    ]


class ChatCompletionDeleted(Frozen):
    """The stored chat completion is gone."""

    object: Annotated[
        Literal["chat.completion.deleted"], Field(description="What this is.", examples=["chat.completion.deleted"])
    ] = "chat.completion.deleted"
    id: Annotated[str, Field(description="The id of the deleted completion.", examples=[EXAMPLE_ID])]
    deleted: Annotated[Literal[True], Field(description="Always true.", examples=[True])] = True


class StoredMessage(Frozen):
    """A message of the request. Content in parts is in `content_parts`."""

    id: Annotated[str, Field(description="Names the message.", examples=[f"{EXAMPLE_ID}-0"])]
    role: Annotated[str, Field(description="The author of the message.", examples=["user"])]
    content: Annotated[str | None, Field(description="The text.", examples=["hi"])] = None
    name: Annotated[str | None, Field(description="The speaker's name; null where it has none.", examples=["Ann"])] = (
        None
    )
    content_parts: Annotated[
        tuple[dict[str, Any], ...] | None,
        Field(description="Texts and images; null where the content is one text.", examples=[None]),
    ] = None
    tool_calls: Annotated[
        tuple[dict[str, Any], ...] | None, Field(description="The calls of an assistant's message.", examples=[None])
    ] = None
    tool_call_id: Annotated[
        str | None, Field(description="The call that a tool's message answers; else null.", examples=[None])
    ] = None


class StoredMessages(Frozen):
    """Messages of a stored chat completion."""

    object: OF_LIST = "list"
    data: Annotated[tuple[StoredMessage, ...], Field(description="The messages, in the requested order.")]
    first_id: FIRST_ID
    last_id: LAST_ID
    has_more: HAS_MORE


PAGES = PageRule("chat completion", WIRE_ID, EXAMPLE_ID, "desc", USUAL_LIMIT, MOST_IN_A_LIST, is_cut=True)
MESSAGE_PAGES = PAGES._replace(
    of="message",
    pattern=MESSAGE_ID.pattern.replace("?P<completion_id>", "").replace("?P<index>", ""),
    example=f"{EXAMPLE_ID}-0",
    order="asc",
)
LIST_QUERY = {
    **PAGES.query,
    "model": {"description": "Only those of this model.", "schema": {"type": "string"}},
    "metadata": {
        "description": "Only those with this metadata, as `metadata[topic]=support`.",
        "schema": {"type": "object", "additionalProperties": {"type": "string"}},
        "style": "deepObject",
        "explode": True,
    },
}
MESSAGES_QUERY = MESSAGE_PAGES.query


def stored_wire(completion: bytes, messages: Iterable[BaseModel], metadata: Mapping[str, str] | None) -> bytes:
    """Return the JSON of a chat completion with the JSON of its request, as sent."""
    sent = [message.model_dump(mode="json", by_alias=True, exclude_unset=True) for message in messages]
    return with_fields(completion, {"input_messages": sent, "metadata": metadata or {}})


def with_metadata(wire: bytes, metadata: Mapping[str, str]) -> bytes:
    """Return the JSON of a stored chat completion with other metadata."""
    return to_json({**from_json(wire), "metadata": metadata})


def lost_wire(completion: StoredCompletion) -> bytes:
    """Return the placeholder in a list for a completion whose content is lost."""
    message = {"role": "assistant", "content": LOST, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return to_json(
        {
            "id": completion.completion_id,
            "object": "chat.completion",
            "created": int(completion.created_at.timestamp()),
            "model": completion.model,
            "choices": [choice],
            "usage": None,
            "input_messages": [],
            "metadata": completion.metadata,
        }
    )


def completion_id_in(text: str) -> str:
    """Return the id in a path. Raises NotFound for a text that cannot be an id of ours."""
    if not re.fullmatch(WIRE_ID, text):
        raise NotFound("chat completion", text)
    return text


def completions_in_query(query: Mapping[str, Sequence[str]]) -> CompletionsQuery:
    """Return the requested part of the list. Raises InvalidRequest."""
    after = only_value(query, "after")
    if after is not None and not re.fullmatch(WIRE_ID, after):
        raise refuse_cursor()
    named = ((METADATA_NAME.fullmatch(name), name) for name in query)
    return CompletionsQuery(
        limit=PAGES.limit(query),
        after=after,
        model=only_value(query, "model"),
        metadata={found[1]: one_value(query, name) for found, name in named if found},
        is_newest_first=PAGES.is_newest_first(query),
    )


def listed_wires(entries: Iterable[tuple[StoredCompletion, Wire | None]]) -> Iterator[tuple[str, Wire]]:
    """Yield the id and the JSON of each entry, a placeholder for one that is lost."""
    for completion, wire in entries:
        yield completion.completion_id, lost_wire(completion) if wire is None else wire


def list_tail(ids: EndIds, cursor: str | None, query: CompletionsQuery, has_more: bool) -> bytes:
    """Return the JSON of a list after the entries; the cursor continues an empty page."""
    nearby = unused_id_near(cursor, WIRE_PREFIX, is_newest_first=query.is_newest_first) if cursor else ""
    return after_entries({"first_id": ids.first, "last_id": ids.last or nearby, "has_more": has_more})


def messages_in(wire: bytes, query: Mapping[str, Sequence[str]]) -> StoredMessages:
    """Return the requested part of the request's messages. Raises InvalidRequest."""
    completion = from_json(wire)
    messages = list(enumerate(_messages(completion["id"], completion["input_messages"])))
    if is_reverse := MESSAGE_PAGES.is_newest_first(query):
        messages.reverse()
    after, limit = only_value(query, "after"), MESSAGE_PAGES.limit(query)
    if after is not None:
        found = MESSAGE_ID.fullmatch(after)
        if found is None or found["completion_id"] != completion["id"]:
            raise refuse_cursor()
        position = int(found["index"])
        messages = [each for each in messages if (each[0] < position if is_reverse else each[0] > position)]
    data = tuple(message for _, message in messages[:limit])
    ids = [message.id for message in data] or [""]
    return StoredMessages(data=data, first_id=ids[0], last_id=ids[-1], has_more=len(messages) > limit)


def _messages(completion_id: str, sent: Sequence[Mapping[str, Any]]) -> Iterator[StoredMessage]:
    for index, message in enumerate(sent):
        content = message.get("content")
        parts = None if content is None or isinstance(content, str) else content
        optional = {name: message[name] for name in ("name", "tool_calls", "tool_call_id") if message.get(name)}
        yield StoredMessage(
            id=f"{completion_id}-{index}",
            role=message["role"],
            content=content if parts is None else None,
            content_parts=parts,
            **optional,
        )
