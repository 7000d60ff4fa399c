"""Errors as OpenAI's clients read them.

Source: the OpenAI API reference; a client chooses the class of its exception by the status, and shows nothing of a body
that has no `error`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from turnstone.domain import errors

# what is not here is the caller's mistake below 500, the server's from there on
TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
MODEL_NOT_FOUND = "model_not_found"
TEXT = {"type": "string"}
TEXT_OR_NULL = {"type": ["string", "null"]}


class OpenAIEnvelope:
    """The envelope of OpenAI's API."""

    name = "OpenAI"
    prefix = "/v1/openai/"
    statuses: Mapping[type[Exception], int] = {errors.UnknownModel: 404, errors.ModelNotFound: 404}

    def refusal(self, status: int, message: str, error: BaseException | None = None) -> bytes:
        return to_json(openai_error(status, message, code=_code(status, error)))

    def invalid(self, problems: Sequence[Mapping[str, Any]]) -> bytes:
        """Return one sentence of all problems; `param` names the field of the first."""
        places = [".".join(map(str, problem["loc"])) for problem in problems]
        texts = (problem["msg"].removeprefix("Value error, ") for problem in problems)
        sentences = (
            text if not place or text.startswith(place) else f"{place}: {text}"
            for place, text in zip(places, texts, strict=True)
        )
        return to_json(openai_error(400, "; ".join(sentences), places[0] or None))

    def schema(self, _: int) -> dict[str, Any]:
        return _object(error=_object(message=TEXT, type=TEXT, param=TEXT_OR_NULL, code=TEXT_OR_NULL))


class SharedEnvelope(OpenAIEnvelope):
    """The envelope of paths that clients of both APIs use: what either reads, side by side."""

    name = "Shared"
    prefix = "/v1/"

    def refusal(self, status: int, message: str, error: BaseException | None = None) -> bytes:
        return to_json({"detail": message, **openai_error(status, message, code=_code(status, error))})

    def schema(self, status: int) -> dict[str, Any]:
        schema = super().schema(status)
        return _object(detail=TEXT, **schema["properties"])


OPENAI = OpenAIEnvelope()
SHARED = SharedEnvelope()


def openai_error(status: int, message: str, param: str | None = None, code: str | None = None) -> dict[str, object]:
    """Return the object of an error, which a stream ends with, too."""
    kind = TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _code(status: int, error: BaseException | None) -> str | None:
    is_of_model = isinstance(error, errors.NotFound) and error.kind == "model"
    if is_of_model or isinstance(error, errors.UnknownModel | errors.ModelNotFound):
        return MODEL_NOT_FOUND
    return CODES.get(status)


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}
