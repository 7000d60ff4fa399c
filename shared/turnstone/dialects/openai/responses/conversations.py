"""Conversations on OpenAI's wire: requests and replies.

Source: the types of `openai` 3.54.0; `agent` and `session`, `agent_id` and `session_id` are this server's extensions.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from turnstone.dialects.openai.metadata import Metadata
from turnstone.dialects.openai.pages import HAS_MORE, OF_LIST, PageRule, Query, only_value
from turnstone.dialects.openai.responses.conversation_items import items_of_turn
from turnstone.dialects.openai.responses.input.items import AnyItem, given_input, stored_items
from turnstone.dialects.openai.responses.lists import EXAMPLE_ITEM_ID, INCLUDES, refuse_includes
from turnstone.dialects.openai.responses.replies import EXAMPLE_INPUT
from turnstone.dialects.openai.responses.stream import EventsOf
from turnstone.dialects.openai.strict import StrictRequest
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.responses.addresses import conversation_id, item_address
from turnstone.domain.responses.conversations import (
    AddedItems,
    ConversationTurn,
    NewConversation,
    StoredConversation,
)
from turnstone.domain.responses.lists import ItemsQuery
from turnstone.domain.values.frozen import Frozen, Many

MOST_ADDED = 20
EXAMPLE_ID = "conv_CXJlc3BvbnNlcwABmQAAAABwAIAAAAAAAAAB"
ITEM_PAGES = PageRule("item", r"[a-z]+_[0-9a-f]{36}", EXAMPLE_ITEM_ID, "desc", 20, 100, is_cut=False)
INCLUDE_QUERY: dict[str, dict[str, Any]] = {
    "include": {"description": "Details to show; all that are served are shown anyway.", "schema": INCLUDES},
    "include[]": {"description": "The same, as OpenAI's client writes several.", "schema": INCLUDES},
}
ITEMS_QUERY: dict[str, dict[str, Any]] = {**ITEM_PAGES.query, **INCLUDE_QUERY}


class CreateConversation(StrictRequest):
    agent: str | None = None
    session: Annotated[str, Field(min_length=1)] | None = None
    items: Annotated[Many[AnyItem], Field(max_length=MOST_ADDED)] = ()
    metadata: Metadata | None = None

    @model_validator(mode="after")
    def agree(self) -> Self:
        if self.session is not None:
            if self.agent is None:
                raise ValueError("session: belongs to an agent; send the agent's id as agent")
            if self.items:
                raise ValueError("items: a session that exists has its own; add more to the conversation afterwards")
            if self.metadata is not None:
                raise ValueError("metadata: the session may have its own; update the conversation afterwards")
        return self

    def to_new(self) -> NewConversation:
        return NewConversation(self.agent, self.metadata or {}, _added(self.items), self.session)


class UpdateConversation(Frozen):
    """A change of a conversation."""

    model_config = ConfigDict(extra="forbid")

    metadata: Annotated[
        Metadata | None,
        Field(description="The new metadata, which replaces all of the old; null for none.", examples=[{"a": "b"}]),
    ]


class AddItems(StrictRequest):
    items: Annotated[Many[AnyItem], Field(min_length=1, max_length=MOST_ADDED)]

    def to_items(self) -> AddedItems:
        return _added(self.items)


class ConversationObject(Frozen):
    """A conversation."""

    id: Annotated[str, Field(description="Names the conversation.", examples=[EXAMPLE_ID])]
    object: Annotated[Literal["conversation"], Field(description="What this is.", examples=["conversation"])] = (
        "conversation"
    )
    created_at: Annotated[
        int, Field(description="The time of its creation, in seconds since 1970.", examples=[1767225600])
    ]
    metadata: Annotated[
        dict[str, str], Field(description="Names and values of the caller's own.", examples=[{"topic": "support"}])
    ]
    agent_id: Annotated[
        str, Field(description="The agent whose session it is; `responses` for models.", examples=["responses"])
    ]
    session_id: Annotated[
        str, Field(description="The session of this conversation.", examples=["01990000-0000-7000-8000-000000000001"])
    ]

    @classmethod
    def of(cls, stored: StoredConversation) -> "ConversationObject":
        """Return the conversation as stored."""
        return cls(
            id=conversation_id(stored.ref),
            created_at=int(stored.session.started_at.timestamp()),
            metadata=stored.conversation.metadata,
            agent_id=stored.ref.agent_id,
            session_id=stored.ref.session_id,
        )


class ConversationDeleted(Frozen):
    """The conversation is gone, with its items and responses."""

    id: Annotated[str, Field(description="The id of the deleted conversation.", examples=[EXAMPLE_ID])]
    object: Annotated[
        Literal["conversation.deleted"], Field(description="What this is.", examples=["conversation.deleted"])
    ] = "conversation.deleted"
    deleted: Annotated[Literal[True], Field(description="Always true.", examples=[True])] = True


class ConversationItem(Frozen):
    """An item of a conversation; further fields depend on its type."""

    model_config = ConfigDict(extra="allow")

    id: Annotated[str, Field(description="Names the item.", examples=[EXAMPLE_ITEM_ID])]
    type: Annotated[str, Field(description="The type of the item.", examples=["message"])]


class ConversationItemList(Frozen):
    """A part of the items of a conversation."""

    object: OF_LIST = "list"
    data: Annotated[tuple[dict[str, Any], ...], Field(description="The items.", examples=[[EXAMPLE_INPUT]])]
    first_id: Annotated[
        str, Field(description="The id of the first item, empty if there is none.", examples=[EXAMPLE_ITEM_ID])
    ]
    last_id: Annotated[
        str, Field(description="The id of the last item, empty if there is none.", examples=[EXAMPLE_ITEM_ID])
    ]
    has_more: HAS_MORE


def conversation_page_in(query: Query) -> ItemsQuery:
    """Return the requested part of a conversation's items. Raises InvalidRequest."""
    is_newest_first = ITEM_PAGES.is_newest_first(query)
    return ItemsQuery(limit=ITEM_PAGES.limit(query), after=only_value(query, "after"), is_newest_first=is_newest_first)


def include_in(query: Query) -> tuple[str, ...]:
    """Return the requested details of items. Raises InvalidRequest for those that are not served."""
    named = (*query.get("include", ()), *query.get("include[]", ()))
    refuse_includes(named)
    return tuple(filter(None, named))


def turn_after(query: ItemsQuery) -> str | None:
    """Return the id of the turn from which the page is read. Raises InvalidRequest for an id that no item has."""
    if query.after is None:
        return None
    address = item_address(query.after)
    if address is None:
        raise _unknown()
    return address.turn_id


def items_page(
    turns: Iterator[ConversationTurn], query: ItemsQuery, events_of: EventsOf, include: tuple[str, ...] = ()
) -> ConversationItemList:
    """Return the requested part of the items of the turns. Raises InvalidRequest for an id that no item has."""
    items = _items(turns, events_of, include, is_newest_first=query.is_newest_first)
    if query.after is not None and not any(item["id"] == query.after for item in items):
        raise _unknown()
    page = list(islice(items, query.limit + 1))
    return listed(page[: query.limit], has_more=len(page) > query.limit)


def listed(items: Sequence[Mapping[str, Any]], *, has_more: bool = False) -> ConversationItemList:
    """Return the items as a list."""
    ids = [str(item["id"]) for item in items] or [""]
    return ConversationItemList(data=tuple(map(dict, items)), first_id=ids[0], last_id=ids[-1], has_more=has_more)


def _items(
    turns: Iterator[ConversationTurn], events_of: EventsOf, include: tuple[str, ...], *, is_newest_first: bool
) -> Iterator[dict[str, Any]]:
    for turn in turns:
        items = items_of_turn(turn, events_of, include)
        yield from reversed(items) if is_newest_first else items


def _added(items: Sequence[Any]) -> AddedItems:
    given = given_input(items)
    if given.approvals:
        message = "an approval is the input of a response, which runs the call; send it there"
        raise InvalidRequest(f"items: {message}", ("items", given.approvals[0].position))
    return AddedItems(given.messages, stored_items(items), given.given)


def _unknown() -> InvalidRequest:
    return InvalidRequest("after: no item here has this id", ("query", "after"))
