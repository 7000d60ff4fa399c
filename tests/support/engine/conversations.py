"""Conversations of a server in this process."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.support.engine.harness import Server, attempt
from turnstone.dialects.openai.responses.conversation_items import item_of, items_of_turn, removal_of
from turnstone.dialects.openai.responses.conversations import (
    AddItems,
    ConversationObject,
    CreateConversation,
    items_page,
    turn_after,
)
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.responses.lists import ItemsQuery
from turnstone.domain.turns.attempts import Attempt


def conversation(server: Server, by: Attempt | None = None, caller: Caller = LOCAL_CALLER, **body: Any) -> str:
    """Create a conversation and return its id."""
    new = CreateConversation.model_validate(body).to_new()
    return ConversationObject.of(server.core.conversations.create(caller, new, by or attempt())).id


def read_conversation(server: Server, text: str, caller: Caller = LOCAL_CALLER) -> dict[str, Any]:
    return ConversationObject.of(server.core.conversations.read(caller, text)).model_dump()


def add(server: Server, text: str, *items: Any, by: Attempt | None = None) -> list[dict[str, Any]]:
    """Add items to the conversation; return them as they are listed."""
    conversations, added = server.core.conversations, AddItems.model_validate({"items": items}).to_items()
    turn = conversations.add(LOCAL_CALLER, text, added, by or attempt())
    return items_of_turn(turn, conversations.events_of)


def items(server: Server, text: str, caller: Caller = LOCAL_CALLER, **query: Any) -> list[dict[str, Any]]:
    """Return the conversation's items, oldest first by default."""
    conversations, page = server.core.conversations, ItemsQuery(**{"limit": 100, "is_newest_first": False, **query})
    turns = conversations.turns(caller, text, turn_after(page), is_newest_first=page.is_newest_first)
    return list(items_page(turns, page, conversations.events_of).data)


def item(server: Server, text: str, named: str) -> dict[str, Any]:
    conversations = server.core.conversations
    return item_of(conversations.turn_of(LOCAL_CALLER, text, named), named, conversations.events_of)


def delete_item(server: Server, text: str, named: str, caller: Caller = LOCAL_CALLER) -> None:
    conversations = server.core.conversations
    removal = partial(removal_of, named=named, events_of=conversations.events_of)
    conversations.delete_item(caller, text, named, removal)


def text_in(shown: dict[str, Any]) -> str:
    """Return the text of an item: of its content, its arguments or its output."""
    content = shown.get("content") or shown.get("summary") or []
    return "".join(part["text"] for part in content) or str(shown.get("arguments") or shown.get("output") or "")
