"""Which of a turn's events a client has heard already."""

import re
from collections.abc import Mapping

from turnstone.domain.errors import InvalidRequest

NUMBER = re.compile(r"[0-9]{1,15}")
QUERY = {
    "after": {
        "description": "The number of the last event that was heard; counts more than the header Last-Event-ID.",
        "schema": {"type": "string", "pattern": f"^({NUMBER.pattern})?$"},
    }
}


def heard_up_to(query: Mapping[str, list[str]], headers: Mapping[str, str]) -> int:
    """Return the number after which to go on, 0 for a client that heard nothing. Raises InvalidRequest.

    Source: browsers send the `id` of the last event they got from a stream as `Last-Event-ID` when they reconnect.
    """
    if len(query.get("after", ())) > 1:
        raise InvalidRequest("after: one value is expected", ("after",))
    asked = query.get("after", [""])[0]
    given, where = (asked, "after") if asked else (headers.get("last-event-id", ""), "last-event-id")
    if not given:
        return 0
    if not NUMBER.fullmatch(given):
        raise InvalidRequest(f"{where}: must be the number of an event", (where,))
    return int(given)
