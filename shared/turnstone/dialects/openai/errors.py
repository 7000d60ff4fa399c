"""Error envelopes of OpenAI's API.

Source: the OpenAI API reference; a client chooses the class of its exception by the status, and shows nothing of a body
that has no `error`. Its `code` is a text or null, and holds OpenAI's code where OpenAI documents one, else ours.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from turnstone.domain.errors.codes import ErrorCode
from turnstone.domain.errors.problem_sentences import field_of, sentence_of

# any other error is the caller's mistake below 500, the server's from there on
TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
# OpenAI's own code, where it documents an equivalent one
DOCUMENTED: Mapping[ErrorCode, str] = {
    ErrorCode.UNAUTHENTICATED: "invalid_api_key",
    ErrorCode.MODEL_BUSY: "rate_limit_exceeded",
    ErrorCode.DAY_LIMIT_REACHED: "rate_limit_exceeded",
    ErrorCode.TOO_MANY_REQUESTS: "rate_limit_exceeded",
    ErrorCode.PROVIDER_MODEL_NOT_FOUND: "model_not_found",
}
TEXT = {"type": "string"}
TEXT_OR_NULL = {"type": ["string", "null"]}


class OpenAIEnvelope:
    """The envelope of OpenAI's API."""

    name = "OpenAI"

    def refusal(self, status: int, message: str, code: ErrorCode) -> bytes:
        return to_json(openai_error(status, message, code))

    def invalid(self, problems: Sequence[Mapping[str, Any]], code: ErrorCode) -> bytes:
        """Return one sentence about all problems; `param` names the field of the first."""
        param = field_of(problems[0]["loc"])
        return to_json(openai_error(400, sentence_of(problems), code, param or None))

    def schema(self, _: int) -> dict[str, Any]:
        code = {"type": "string", "enum": openai_codes()}
        return _object(error=_object(message=TEXT, type=TEXT, param=TEXT_OR_NULL, code=code))


class SharedEnvelope(OpenAIEnvelope):
    """The envelope of paths shared by clients of both APIs: the fields of either, side by side."""

    name = "Shared"

    def refusal(self, status: int, message: str, code: ErrorCode) -> bytes:
        return to_json({"detail": message, "code": code, **openai_error(status, message, code)})

    def schema(self, status: int) -> dict[str, Any]:
        schema = super().schema(status)
        return _object(detail=TEXT, code={"$ref": "#/components/schemas/ErrorCode"}, **schema["properties"])


class ResponsesEnvelope(OpenAIEnvelope):
    """The envelope of OpenAI's Responses API, whose locations have indices in brackets, such as `input[0].role`."""

    def invalid(self, problems: Sequence[Mapping[str, Any]], code: ErrorCode) -> bytes:
        return super().invalid([_with_brackets(each) for each in problems], code)


OPENAI_ENVELOPE = OpenAIEnvelope()
RESPONSES_ENVELOPE = ResponsesEnvelope()
SHARED_ENVELOPE = SharedEnvelope()


def openai_error(status: int, message: str, code: ErrorCode, param: str | None = None) -> dict[str, object]:
    """Return the object of an error, which also ends a stream."""
    kind = TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": DOCUMENTED.get(code, code)}}


def openai_codes() -> list[str]:
    """Return every code that an error may have, in the order of the table."""
    return list(dict.fromkeys(DOCUMENTED.get(code, code.value) for code in ErrorCode))


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _with_brackets(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return the problem with its location in brackets, which its message does not repeat with points."""
    message = str(problem["msg"]).removeprefix(f"{field_of(problem['loc'])}: ")
    return {**problem, "loc": _in_brackets(problem["loc"]), "msg": message}


def _in_brackets(location: Sequence[str | int]) -> tuple[str, ...]:
    """Return the location with each index as a part of the name before it."""
    names: list[str] = []
    for part in location:
        if isinstance(part, int) and names:
            names[-1] += f"[{part}]"
        else:
            names.append(str(part))
    return tuple(names)
