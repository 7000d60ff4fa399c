"""Queries of lists in Letta's API."""

from collections.abc import Mapping
from typing import Any

from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.message_requests import LIMIT, TEXT, limit_in
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.letta.agents import LettaQuery

DEFAULT_AGENTS = 50
TRUE, FALSE = ("true", "1"), ("false", "0")
AGENTS_QUERY: Mapping[str, str | Mapping[str, Any]] = {
    "name": {"description": "The name of the agents.", "schema": TEXT},
    "tags": "A tag of the agents; may be repeated.",
    "match_all_tags": {
        "description": "Whether an agent must have all of the tags; else one is enough.",
        "schema": {"enum": ["true", "false"]},
    },
    "cursor": {"description": "The id of the last agent of the part before.", "schema": TEXT},
    "limit": {"description": "How many agents to return at most.", "schema": LIMIT},
    "query_text": {"description": "A part of the name, in any case.", "schema": TEXT},
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
    if flag_in(name, next(iter(query.get(name, ())), None)):
        raise InvalidRequest(f"{name}: an agent of this server begins without messages; leave it out", ("query", name))


def agents_query(query: Mapping[str, list[str]]) -> LettaQuery:
    """Return the query of a request. Raises InvalidRequest."""
    texts = {name: values[-1] for name, values in query.items() if values}
    cursor = texts.get("cursor")
    return LettaQuery(
        limit=limit_in(texts.get("limit"), DEFAULT_AGENTS),
        after=None if cursor is None else bare("agent", cursor),
        name=texts.get("name"),
        text=texts.get("query_text"),
        tags=tuple(query.get("tags", ())),
        has_all_tags=flag_in("match_all_tags", texts.get("match_all_tags")),
    )


def flag_in(name: str, text: str | None) -> bool:
    """Return the truth value of a parameter, false without one. Raises InvalidRequest."""
    lowered = (text or FALSE[0]).lower()
    if lowered not in (*TRUE, *FALSE):
        raise InvalidRequest(f"{name}: must be true or false", ("query", name))
    return lowered in TRUE
