"""Error envelope of Letta's API.

Source: the API of Letta 0.6, `{"detail": …}`: a text, or of invalid fields the list of their problems, each with the
part `body` before its location, or `query`. The code beside it is ours.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from turnstone.domain.errors.codes import ErrorCode

TEXT = {"type": "string"}


class LettaEnvelope:
    """The envelope of Letta's API."""

    name = "Letta"

    def refusal(self, _: int, message: str, code: ErrorCode) -> bytes:
        return to_json({"detail": message, "code": code})

    def invalid(self, problems: Sequence[Mapping[str, Any]], code: ErrorCode) -> bytes:
        located = [{**problem, "loc": _located(tuple(problem["loc"]))} for problem in problems]
        return to_json({"detail": located, "code": code})

    def schema(self, _: int) -> dict[str, Any]:
        code = {"$ref": "#/components/schemas/ErrorCode"}
        problem = {"type": "object", "properties": {"loc": {"type": "array"}, "msg": TEXT, "type": TEXT}}
        detail = {"anyOf": [TEXT, {"type": "array", "items": problem}]}
        return {"type": "object", "properties": {"detail": detail, "code": code}, "required": ["detail", "code"]}


def _located(location: tuple[Any, ...]) -> tuple[Any, ...]:
    return location if location[:1] == ("query",) else ("body", *location)


LETTA_ENVELOPE = LettaEnvelope()
