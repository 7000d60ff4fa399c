"""Envelopes of errors, each a JSON shape; a route names the one that its clients read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from pydantic_core import to_json

if TYPE_CHECKING:
    from turnstone.domain.errors.codes import ErrorCode
    from turnstone.http.route import Route

Problems = Sequence[Mapping[str, Any]]
NO_STATUSES: Mapping[type[Exception], int] = MappingProxyType({})


class ErrorEnvelope(Protocol):
    """The JSON around an error.

    Attributes:
        name: prefix of its schemas in the API's document.
        prefix: paths below it that no route serves are refused in this envelope; empty for none.
        statuses: statuses that differ from the table in `http/errors.py`, by the type of error.
    """

    name: str
    prefix: str
    statuses: Mapping[type[Exception], int]

    def refusal(self, status: int, message: str, code: ErrorCode) -> bytes:
        """Return the body for one error."""

    def invalid(self, problems: Problems, code: ErrorCode) -> bytes:
        """Return the body of a 400 with the problem of each field."""

    def schema(self, status: int) -> dict[str, Any]:
        """Return the JSON schema of the body that goes with the status."""


class DetailEnvelope:
    """The envelope of the Llama Stack contract.

    Source: the contract's two shapes, `{"detail": …}` and, of invalid fields, `{"error": {"detail": {"errors": […]}}}`;
    the code beside the text, or beside the list, is ours.
    """

    name = ""
    prefix = ""
    statuses = NO_STATUSES

    def refusal(self, _: int, message: str, code: ErrorCode) -> bytes:
        return to_json({"detail": message, "code": code})

    def invalid(self, problems: Problems, code: ErrorCode) -> bytes:
        return to_json({"error": {"detail": {"errors": problems, "code": code}}})

    def schema(self, status: int) -> dict[str, Any]:
        refusal = {"$ref": "#/components/schemas/Refusal"}
        return {"anyOf": [{"$ref": "#/components/schemas/InvalidFields"}, refusal]} if status == 400 else refusal


DETAIL: ErrorEnvelope = DetailEnvelope()


def envelope_below(path: str, routes: Iterable[Route]) -> ErrorEnvelope:
    """Return the envelope for a path without a route: the one with the longest prefix of the path."""
    claimed = {route.envelope.prefix: route.envelope for route in routes if route.envelope.prefix}
    prefix = max((prefix for prefix in claimed if path.startswith(prefix)), key=len, default=None)
    return DETAIL if prefix is None else claimed[prefix]
