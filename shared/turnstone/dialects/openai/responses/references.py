"""The input of a response as items: references are replaced by the items of earlier responses that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import ValidationError

from turnstone.dialects.openai.responses.input.items import ITEM, KINDS, ReferenceItem, SomeItem, SpokenItem
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.responses.addresses import ITEM_KIND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from turnstone.dialects.openai.responses.stream import EventsOf
    from turnstone.domain.responses.conversations import ConversationTurn
    from turnstone.domain.responses.requests import Predecessor

    TurnWith = Callable[[Predecessor, str], ConversationTurn]
    ItemAt = Callable[[str], Mapping[str, Any]]


def items_in(given: str | Sequence[SomeItem | ReferenceItem], item_at: ItemAt) -> tuple[SomeItem, ...]:
    """Return the input as items; a text is a user's message, and `item_at` returns the item that a reference names.

    Raises InvalidRequest for a reference to an item of a type that no input has, and as `item_at` does.
    """
    if isinstance(given, str):
        return (SpokenItem.model_validate({"role": "user", "content": [{"type": "input_text", "text": given}]}),)
    return tuple(
        _named(item.id, index, item_at) if isinstance(item, ReferenceItem) else item for index, item in enumerate(given)
    )


def no_turn(_: Predecessor, item_id: str) -> NoReturn:
    """Raise NotFound: there are no earlier items."""
    raise NotFound(ITEM_KIND, item_id)


def item_at(turn_with: Callable[[str], ConversationTurn], events_of: EventsOf) -> ItemAt:
    """Return the function that returns the item of an id, from the turn that has it; both raise NotFound."""

    def item(item_id: str) -> Mapping[str, Any]:
        from turnstone.dialects.openai.responses.conversation_items import item_of  # few requests refer to items

        return item_of(turn_with(item_id), item_id, events_of)

    return item


def _named(item_id: str, index: int, item_at: ItemAt) -> SomeItem:
    found = item_at(item_id)
    try:
        return ITEM.validate_python(found)
    except ValidationError as wrong:
        message = f"id: items of the type {found['type']!r} are not served as input; those are {KINDS}"
        raise InvalidRequest(message, ("input", index, "id")) from wrong
