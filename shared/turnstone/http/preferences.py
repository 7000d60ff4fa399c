"""The preference `respond-async` of a request, and the answer to a request that is processed in the background.

Source: RFC 7240, sections 2 and 4.1.
"""

import re
from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from turnstone.http.replies import Reply, reply

RESPOND_ASYNC = "respond-async"
_PIECES = re.compile(r'"(?:[^"\\]|\\.)*"?|[^",;]+|[,;]')


def prefers_async(headers: Mapping[str, str]) -> bool:
    """Return whether the client prefers an answer before the work is done.

    Names have no case, and an empty value is none. Of equal preferences the first one counts. Parameters and other
    preferences, such as `wait`, are ignored.
    """
    for preference in _preferences(headers.get("prefer", "")):
        name, _, value = preference.partition("=")
        if name.strip().lower() == RESPOND_ASYNC:
            return value.strip() in ("", '""')
    return False


def accepted(value: BaseModel, location: str, **headers: str) -> Reply:
    """Return the answer to a request that is processed in the background; the location is where to read the result."""
    whole = reply(value, location=location, preference_applied=RESPOND_ASYNC, **headers)
    return whole._replace(status=202)


def _preferences(header: str) -> Iterator[str]:
    """Yield each preference without its parameters; commas and semicolons in quotes separate nothing."""
    parts: list[str] = []
    has_parameters = False
    for piece in (*_PIECES.findall(header), ","):
        if piece == ",":
            yield "".join(parts)
            parts, has_parameters = [], False
        elif piece == ";":
            has_parameters = True
        elif not has_parameters:
            parts.append(piece)
