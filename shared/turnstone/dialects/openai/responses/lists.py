"""Lists of responses and of input items on OpenAI's wire.

Source: the types of `openai` 3.54.0; the list of responses is Llama Stack's, whose entries have their `input`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic_core import to_json

from turnstone.dialects.json_objects import after_entries, before_entries
from turnstone.dialects.openai.pages import HAS_MORE, OF_LIST, PageRule, Query, only_value, refuse_cursor
from turnstone.dialects.openai.responses.input.items import shown_items
from turnstone.dialects.openai.responses.replies import EXAMPLE_ID, EXAMPLE_INPUT, ListedResponseObject
from turnstone.dialects.openai.responses.requests import NO_PADDING, SERVED_INCLUDES
from turnstone.dialects.openai.responses.shown import ImageAt
from turnstone.dialects.openai.responses.stream import EventsOf, response_in
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.refs import TurnRef
from turnstone.domain.responses.addresses import turn_of
from turnstone.domain.responses.lists import MOST_RESPONSES, ItemsQuery, ResponsesQuery
from turnstone.domain.responses.requests import StoredResponse
from turnstone.domain.values.frozen import Frozen

USUAL_RESPONSES, USUAL_ITEMS, MOST_ITEMS = 50, 20, 100
EXAMPLE_ITEM_ID = "msg_019900000000700080000000000000008000"
LONGEST_ID = 512
RESPONSE_PAGES = PageRule(
    "response", r"resp_[A-Za-z0-9_-]+", EXAMPLE_ID, "desc", USUAL_RESPONSES, MOST_RESPONSES, is_cut=True
)
ITEM_PAGES = PageRule("item", rf".{{1,{LONGEST_ID}}}", EXAMPLE_ITEM_ID, "desc", USUAL_ITEMS, MOST_ITEMS, is_cut=False)
INCLUDES = {"enum": [*SERVED_INCLUDES, ""]}
RESPONSES_QUERY: dict[str, dict[str, Any]] = {
    **RESPONSE_PAGES.query,
    "model": {"description": "Only those of this model.", "schema": {"type": "string"}},
}
ITEMS_QUERY: dict[str, dict[str, Any]] = {
    **ITEM_PAGES.query,
    "before": {**ITEM_PAGES.query["after"], "description": "End before the item of this id."},
    "include": {"description": "Details to show; all that are served are shown anyway.", "schema": INCLUDES},
    "include[]": {"description": "The same, as OpenAI's client writes several.", "schema": INCLUDES},
}
FLAG = {"enum": ["true", "false", ""]}
NUMBER = re.compile(r"[0-9]{1,15}")
READ_QUERY: dict[str, dict[str, Any]] = {
    "stream": {"description": "Whether to stream the response's events, past ones included.", "schema": FLAG},
    "starting_after": {
        "description": "The number of the last event received: the stream continues after it.",
        "schema": {"type": "string", "pattern": f"^({NUMBER.pattern})?$"},
    },
    "include_obfuscation": {"description": "Refused if true: events are not padded.", "schema": FLAG},
    **{name: ITEMS_QUERY[name] for name in ("include", "include[]")},
}
LIST_HEAD = before_entries({"object": "list"}, "data")


class ResponseList(Frozen):
    """A part of the list of responses."""

    object: OF_LIST = "list"
    data: Annotated[tuple[ListedResponseObject, ...], Field(description="The responses, in the requested order.")]
    first_id: Annotated[
        str, Field(description="The id of the first entry, empty if there is none.", examples=[EXAMPLE_ID])
    ]
    last_id: Annotated[
        str, Field(description="The id to continue behind, empty if there is none.", examples=[EXAMPLE_ID])
    ]
    has_more: HAS_MORE


class InputItemList(Frozen):
    """A part of the input of a response."""

    object: OF_LIST = "list"
    data: Annotated[
        tuple[dict[str, Any], ...],
        Field(description="The items as they were sent, with ids.", examples=[[EXAMPLE_INPUT]]),
    ]
    first_id: Annotated[
        str, Field(description="The id of the first item, empty if there is none.", examples=[EXAMPLE_ITEM_ID])
    ]
    last_id: Annotated[
        str, Field(description="The id of the last item, empty if there is none.", examples=[EXAMPLE_ITEM_ID])
    ]
    has_more: HAS_MORE


class ResponseDeleted(Frozen):
    """The response is gone."""

    id: Annotated[str, Field(description="The id of the deleted response.", examples=[EXAMPLE_ID])]
    object: Annotated[Literal["response"], Field(description="What this is.", examples=["response"])] = "response"
    deleted: Annotated[Literal[True], Field(description="Always true.", examples=[True])] = True


def responses_in_query(query: Query) -> ResponsesQuery:
    """Return the requested part of the list. Raises InvalidRequest."""
    after = only_value(query, "after")
    try:
        order = None if after is None else turn_of("", after).turn_id
    except NotFound as unknown:
        raise refuse_cursor() from unknown
    return ResponsesQuery(
        limit=RESPONSE_PAGES.limit(query),
        after=order,
        model=only_value(query, "model"),
        is_newest_first=RESPONSE_PAGES.is_newest_first(query),
    )


def items_in_query(query: Query) -> ItemsQuery:
    """Return the requested part of a list of items. Raises InvalidRequest."""
    refuse_includes([*query.get("include", ()), *query.get("include[]", ())])
    return ItemsQuery(
        limit=ITEM_PAGES.limit(query),
        after=only_value(query, "after"),
        before=only_value(query, "before"),
        is_newest_first=ITEM_PAGES.is_newest_first(query),
    )


def stream_in_query(query: Query) -> int | None:
    """Return the number after which a stream of the response is requested, None for the response itself.

    -1 stands for the whole stream. Raises InvalidRequest.
    """
    refuse_includes([*query.get("include", ()), *query.get("include[]", ())])
    is_stream, is_padded = (_flag(query, name) for name in ("stream", "include_obfuscation"))
    if is_padded:
        raise InvalidRequest(f"include_obfuscation: {NO_PADDING}", ("query", "include_obfuscation"))
    after = only_value(query, "starting_after")
    if after is None:
        return -1 if is_stream else None
    if not NUMBER.fullmatch(after):
        raise InvalidRequest("starting_after: must be an event's number", ("query", "starting_after"))
    if not is_stream:
        message = "starting_after: has no effect unless stream is true; leave it out"
        raise InvalidRequest(message, ("query", "starting_after"))
    return int(after)


def _flag(query: Query, name: str) -> bool:
    text = only_value(query, name)
    if text not in (None, "true", "false"):
        raise InvalidRequest(f"{name}: must be true or false", ("query", name))
    return text == "true"


def refuse_includes(named: Iterable[str]) -> None:
    """Raise InvalidRequest for details that are not served."""
    for each in named:
        if each and each not in SERVED_INCLUDES:
            message = f"include: {each!r} is not served here; those are {', '.join(SERVED_INCLUDES)}"
            raise InvalidRequest(message, ("query", "include"))


def listed_wires(
    listed: Iterable[StoredResponse], events_of: EventsOf, image_at: Callable[[TurnRef], ImageAt]
) -> Iterator[tuple[str, bytes]]:
    """Yield the id and the JSON of each response, with its input."""
    for stored in listed:
        response = response_in(stored, events_of, image_at)
        response["input"] = shown_items(stored.sent.input, stored.ref.turn_id)
        yield response["id"], to_json(response)


def list_tail(first_id: str, last_id: str, has_more: bool) -> bytes:
    """Return the JSON of a list after the entries."""
    return after_entries({"first_id": first_id, "last_id": last_id, "has_more": has_more})


def input_items(stored: StoredResponse, query: ItemsQuery) -> InputItemList:
    """Return the requested part of the response's input. Raises InvalidRequest for an unknown cursor."""
    return items_page(shown_items(stored.sent.input, stored.ref.turn_id), query)


def items_page(items: Sequence[Mapping[str, Any]], query: ItemsQuery) -> InputItemList:
    """Return the requested part of the items, which are in the order of time. Raises InvalidRequest."""
    ordered = list(reversed(items)) if query.is_newest_first else list(items)
    if query.after is not None:
        ordered = ordered[_position(ordered, query.after, "after") + 1 :]
    if query.before is not None:
        ordered = ordered[: _position(ordered, query.before, "before")]
    page = ordered[: query.limit]
    ids = [str(item["id"]) for item in page] or [""]
    data = tuple(dict(item) for item in page)
    return InputItemList(data=data, first_id=ids[0], last_id=ids[-1], has_more=len(ordered) > len(page))


def _position(items: Sequence[Mapping[str, Any]], item_id: str, name: str) -> int:
    for position, item in enumerate(items):
        if item["id"] == item_id:
            return position
    raise InvalidRequest(f"{name}: no item here has this id", ("query", name))
