"""Queries of lists in Letta's API."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import Field, RootModel

from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.message_requests import AFTER, LIMIT, TEXT, TRUE, cursor_in, flag_in, limit_in
from turnstone.domain.agents.blocks import BLOCK_KIND, BlockQuery
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.letta.agents import LettaQuery, TagQuery

DEFAULT_ITEMS = 50
AGENTS_QUERY: Mapping[str, str | Mapping[str, Any]] = {
    "name": {"description": "The name of the agents.", "schema": TEXT},
    "tags": "A tag of the agents; may be repeated.",
    "match_all_tags": {
        "description": "Whether an agent must have all of the tags; else one is enough.",
        "schema": {"enum": ["true", "false"]},
    },
    "cursor": {"description": "The id of the last agent of the part before.", "schema": TEXT},
    "after": AFTER,
    "limit": {"description": "How many agents to return at most.", "schema": LIMIT},
    "query_text": {"description": "A part of the name, in any case.", "schema": TEXT},
}
TAGS_QUERY: Mapping[str, str | Mapping[str, Any]] = {
    "cursor": {"description": "The last tag of the part before.", "schema": TEXT},
    "limit": {"description": "How many tags to return at most.", "schema": LIMIT},
    "query_text": {"description": "A part of the tag, in any case.", "schema": TEXT},
}
BLOCKS_QUERY: Mapping[str, str | Mapping[str, Any]] = {
    "label": {"description": "The label of the blocks.", "schema": TEXT},
    "templates_only": {
        "description": "Whether only models for other blocks are returned; true without this parameter.",
        "schema": {"enum": ["true", "false"]},
    },
    "name": {"description": "The name of the blocks.", "schema": TEXT},
    "cursor": {"description": "The id of the last block of the part before.", "schema": TEXT},
    "after": AFTER,
    "limit": {"description": "How many blocks to return at most.", "schema": LIMIT},
}
PART_QUERY: Mapping[str, str | Mapping[str, Any]] = {
    "after": {"description": "The id of the last item of the part before.", "schema": TEXT},
    "limit": {"description": "How many items to return at most; all without it.", "schema": LIMIT},
}
OF_AGENT: Mapping[str, str | Mapping[str, Any]] = {
    "agent_id": {"description": "The id of the agent.", "schema": TEXT},
}
RESET_QUERY: Mapping[str, str | Mapping[str, Any]] = {
    "add_default_initial_messages": {
        "description": "Must be false: an agent begins without messages.",
        "schema": {"enum": ["true", "false"]},
    },
}


def refuse_initial_messages(query: Mapping[str, list[str]]) -> None:
    """Raise InvalidRequest for a reset with initial messages."""
    name = "add_default_initial_messages"
    if any([flag_in(name, value) for value in query.get(name, ())]):  # each value is checked
        raise InvalidRequest(f"{name}: an agent of this server begins without messages; leave it out", ("query", name))


def agents_query(query: Mapping[str, list[str]]) -> LettaQuery:
    """Return the query of a request. Raises InvalidRequest."""
    texts = {name: values[-1] for name, values in query.items() if values}
    cursor = cursor_in(query)
    return LettaQuery(
        limit=limit_in(texts.get("limit"), DEFAULT_ITEMS),
        after=None if cursor is None else bare("agent", cursor),
        name=texts.get("name"),
        text=texts.get("query_text"),
        tags=tuple(query.get("tags", ())),
        has_all_tags=flag_in("match_all_tags", texts.get("match_all_tags")),
    )


class LettaTags(RootModel[tuple[Annotated[str, Field(examples=["weather"])], ...]]):
    """Tags in alphabetical order."""


def tags_query(query: Mapping[str, list[str]]) -> TagQuery:
    """Return the query of a request. Raises InvalidRequest."""
    texts = {name: values[-1] for name, values in query.items() if values}
    return TagQuery(limit_in(texts.get("limit"), DEFAULT_ITEMS), texts.get("cursor"), texts.get("query_text"))


def blocks_query(query: Mapping[str, list[str]]) -> BlockQuery:
    """Return the query of a request. Raises InvalidRequest."""
    texts = {name: values[-1] for name, values in query.items() if values}
    cursor = cursor_in(query)
    return BlockQuery(
        limit=limit_in(texts.get("limit"), DEFAULT_ITEMS),
        after=None if cursor is None else bare(BLOCK_KIND, cursor),
        label=texts.get("label"),
        name=texts.get("name"),
        is_template=flag_in("templates_only", texts.get("templates_only"), TRUE[0]),
    )


class HasId(Protocol):
    """An item of a list."""

    @property
    def id(self) -> str: ...


Item = TypeVar("Item", bound=HasId)


def part_of(kind: str, items: Sequence[Item], query: Mapping[str, list[str]]) -> tuple[Item, ...]:
    """Return the requested part of an agent's items.

    Raises InvalidRequest, NotFound for an unknown item.
    """
    after, limits = cursor_in(query), query.get("limit", ())
    ids = [each.id for each in items]
    if after is not None and after not in ids:
        raise NotFound(kind, after)
    begin = 0 if after is None else ids.index(after) + 1
    return tuple(items[begin : begin + limit_in(limits[-1] if limits else None, len(items))])


def agent_in(query: Mapping[str, list[str]]) -> str:
    """Return the agent that the query names. Raises InvalidRequest."""
    agent_id = next(iter(query.get("agent_id", ())), "")
    if not agent_id:
        raise InvalidRequest("agent_id: is missing", ("query", "agent_id"))
    return bare("agent", agent_id)
