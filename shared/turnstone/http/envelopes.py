"""Envelopes of errors, each a JSON shape; a dialect names the one that its clients read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pydantic_core import to_json

if TYPE_CHECKING:
    from turnstone.domain.errors.codes import ErrorCode

Problems = Sequence[Mapping[str, Any]]


class ErrorEnvelope(Protocol):
    """The JSON around an error.

    Attributes:
        name: prefix of its schemas in the API's document.
    """

    name: str

    def refusal(self, status: int, message: str, code: ErrorCode) -> bytes:
        """Return the body for one error."""

    def invalid(self, problems: Problems, code: ErrorCode) -> bytes:
        """Return the body for invalid fields, with the problem of each."""

    def schema(self, status: int) -> dict[str, Any]:
        """Return the JSON schema of the body that goes with the status."""


class DetailEnvelope:
    """The envelope of the Llama Stack contract.

    Source: the contract's two shapes, `{"detail": …}` and, of invalid fields, `{"error": {"detail": {"errors": […]}}}`;
    the code beside the text, or beside the list, is ours.
    """

    name = ""

    def refusal(self, _: int, message: str, code: ErrorCode) -> bytes:
        return to_json({"detail": message, "code": code})

    def invalid(self, problems: Problems, code: ErrorCode) -> bytes:
        return to_json({"error": {"detail": {"errors": problems, "code": code}}})

    def schema(self, status: int) -> dict[str, Any]:
        refusal = {"$ref": "#/components/schemas/Refusal"}
        return {"anyOf": [{"$ref": "#/components/schemas/InvalidFields"}, refusal]} if status == 400 else refusal


DETAIL: ErrorEnvelope = DetailEnvelope()
