"""Query of usage, on a route of our own in the style of the others."""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from turnstone.dialects.llama_stack.requests import only
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.usage.usage_report import UsageQuery

TEXT = {"type": "string"}
DAY_LENGTH = len("2026-11-22")
DAY = {"anyOf": [{"type": "string", "format": "date", "minLength": DAY_LENGTH, "maxLength": DAY_LENGTH}, {"const": ""}]}
WRITTEN_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
QUERY: dict[str, dict[str, Any]] = {
    "agent_id": {"description": "Only this agent's, session by session.", "schema": TEXT},
    "session_id": {"description": "Only this session's; `agent_id` names its agent.", "schema": TEXT},
    "from": {"description": "The first day in UTC, as 2026-11-22; today unless `to` is before.", "schema": DAY},
    "to": {"description": "The last day, itself included; today, unless `from` is later.", "schema": DAY},
}


def usage_in_query(query: Mapping[str, Sequence[str]]) -> UsageQuery:
    """Return the requested agents, sessions and days. Raises InvalidRequest."""
    return UsageQuery(
        agent_id=only(query, "agent_id") or None,
        session_id=only(query, "session_id") or None,
        first_day=_day(query, "from"),
        last_day=_day(query, "to"),
    )


def _day(query: Mapping[str, Sequence[str]], name: str) -> date | None:
    text = only(query, name)
    if not text:
        return None
    try:
        if WRITTEN_DAY.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise InvalidRequest(f"{name}: must be a day such as 2026-11-22", ("query", name))
