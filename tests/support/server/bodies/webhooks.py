"""Valid bodies of the routes of webhooks, each with its grade."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.server.body_shapes import RIGHT, UNSURE, WRONG, Shape, exact, many, one_of
from turnstone.domain.lists import ORDER_KEY
from turnstone.domain.webhooks.webhooks import EVENT_TYPES

WEBHOOKS = "/v1/webhooks"
WEBHOOK = f"{WEBHOOKS}/{{webhook_id}}"
DELIVERIES = f"{WEBHOOK}/deliveries"
CREATE: dict[str, Any] = {
    "url": "https://hooks.example/turns",
    "event_types": ["turn.completed", "turn.failed"],
    "description": "Wakes the desk.",
}
UPDATE = {**CREATE, "url": "https://hooks.example/others"}


def _types(value: Any) -> int:
    grade = many(one_of(*EVENT_TYPES), least=1)(value)
    return grade if grade == WRONG or len(set(value)) == len(value) else WRONG


def _short(value: Any) -> int:
    return RIGHT if isinstance(value, str) and len(value) <= 500 else WRONG


def _url(value: Any) -> int:
    if value in (CREATE["url"], UPDATE["url"]):
        return RIGHT
    return UNSURE if isinstance(value, str) and value.startswith("https://") else WRONG


FIELDS: dict[str, Shape] = {"url": _url, "event_types": _types}
CREATED = exact(FIELDS, {"description": _short})
UPDATED = exact({}, {**FIELDS, "description": _short, "status": one_of("enabled", "disabled")})
# valid bodies of each route, and their grade
GRADES: Mapping[tuple[str, str], tuple[Sequence[Any], Shape]] = {
    ("POST", WEBHOOKS): ((CREATE,), CREATED),
    ("POST", WEBHOOK): ((UPDATE, {"status": "enabled"}), UPDATED),
}
READ = (
    ("GET", WEBHOOKS),
    ("GET", WEBHOOK),
    ("DELETE", WEBHOOK),
    ("POST", f"{WEBHOOK}/rotate_secret"),
    ("POST", f"{WEBHOOK}/test"),
    ("POST", f"{DELIVERIES}/{{delivery_id}}/resend"),
)


def list_grade(query: Mapping[str, list[str]]) -> int:
    """Grade the query of a list of deliveries: one value each."""
    given = {name: query[name] for name in ("limit", "cursor") if name in query}
    if any(len(found) > 1 for found in given.values()):
        return WRONG
    (limit,), (cursor,) = given.get("limit", [""]), given.get("cursor", [""])
    number = limit.removesuffix(".0")
    is_limit = limit in ("", "null") or (re.fullmatch("[0-9]{1,3}", number) and 1 <= int(number) <= 100)
    return RIGHT if is_limit and (not cursor or ORDER_KEY.fullmatch(cursor)) else WRONG
