"""The last of a turn's events that a client has received."""

import re
from collections.abc import Mapping

from turnstone.domain.errors import InvalidRequest

NUMBER = re.compile(r"[0-9]{1,15}")
QUERY = {
    "after": {
        "description": "The number of the last event received; the header Last-Event-ID counts if it is larger.",
        "schema": {"type": "string", "pattern": f"^({NUMBER.pattern})?$"},
    }
}


def last_event_received(query: Mapping[str, list[str]], headers: Mapping[str, str]) -> int:
    """Return the number after which to continue, 0 for a client without events. Raises InvalidRequest.

    Source: on reconnecting to the original address, browsers send the `id` of the last event of a stream as
    `Last-Event-ID`; so the larger number counts.
    """
    after = query.get("after", [])
    if len(after) > 1:
        raise InvalidRequest("after: must be one value", ("query", "after"))
    numbers = {("query", "after"): after[0] if after else "", ("last-event-id",): headers.get("last-event-id", "")}
    for where, text in numbers.items():
        if text and not NUMBER.fullmatch(text):
            raise InvalidRequest(f"{where[-1]}: must be an event's number", where)
    return max(int(text or 0) for text in numbers.values())
