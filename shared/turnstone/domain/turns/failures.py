"""Reasons why turns end without an answer, in their streams and in the stored turns."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from turnstone.domain.errors.codes import ErrorCode
from turnstone.domain.values.frozen import Frozen

FailureKind = Literal[
    "model_failed",
    "model_busy",
    "model_timed_out",
    "limit_reached",
    "tools_unavailable",
    "tools_want_credentials",
    "tools_refuse_credentials",
    "memory_unusable",
    "not_runnable",
    "lease_lost",
    "ended",
    "gone",
    "handed_over",
    "store_unavailable",
    "content_lost",
    "internal",
]
FAILURE_CODES: Mapping[FailureKind, ErrorCode] = {
    "model_failed": ErrorCode.MODEL_FAILED,
    "model_busy": ErrorCode.MODEL_BUSY,
    "model_timed_out": ErrorCode.MODEL_TIMED_OUT,
    "limit_reached": ErrorCode.TURN_LIMIT_REACHED,
    "tools_unavailable": ErrorCode.TOOLS_UNAVAILABLE,
    "tools_want_credentials": ErrorCode.TOOL_CREDENTIALS_MISSING,
    "tools_refuse_credentials": ErrorCode.TOOL_CREDENTIALS_REFUSED,
    "memory_unusable": ErrorCode.MEMORY_UNUSABLE,
    "not_runnable": ErrorCode.INVALID_REQUEST,
    "lease_lost": ErrorCode.TURN_TAKEN_OVER,
    "ended": ErrorCode.TURN_ENDED,
    "gone": ErrorCode.TURN_NOT_FOUND,
    "handed_over": ErrorCode.TURN_CONTINUES,
    "store_unavailable": ErrorCode.STORE_UNAVAILABLE,
    "content_lost": ErrorCode.CONTENT_LOST,
    "internal": ErrorCode.INTERNAL_ERROR,
}
UnansweredStatus = Literal["failed", "expired", "cancelled"]


# substitutes for earlier versions, which cannot read records with later kinds
EARLIER_KINDS: Mapping[FailureKind, FailureKind] = {
    "model_busy": "model_failed",
    "memory_unusable": "tools_unavailable",
    "not_runnable": "model_failed",
}


class Failure(Frozen):
    """Why a turn ended without an answer: a kind for programs, a sentence for people.

    Attributes:
        provider_status: HTTP status of the model's provider, None without one.
        retry_after_s: when the provider accepts requests again, None if not reported.
    """

    kind: FailureKind
    message: str
    provider_status: int | None = None
    retry_after_s: int | None = None

    @model_serializer(mode="wrap")
    def stored(self, fields_of: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the fields, with a later kind next to its substitute for earlier versions."""
        fields: dict[str, Any] = fields_of(self)
        earlier = EARLIER_KINDS.get(self.kind)
        return fields if earlier is None else {**fields, "kind": earlier, "later_kind": self.kind}

    @model_validator(mode="before")
    @classmethod
    def with_later_kind(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and fields.get("later_kind") in get_args(FailureKind):
            return {**fields, "kind": fields["later_kind"]}
        return fields

    @property
    def code(self) -> ErrorCode:
        """The error code next to the message."""
        return FAILURE_CODES[self.kind]


class TurnFailure(Frozen):
    """Why a turn has no answer, for readers of the turn: without text of its model or its tools."""

    status: UnansweredStatus
    kind: FailureKind
    code: ErrorCode
    message: str


# in place of messages that quote a provider
IN_OUR_WORDS: dict[FailureKind, str] = {
    "model_failed": "its model gave no usable answer",
    "model_busy": "its model's server takes no more requests now",
    "model_timed_out": "its model was silent for too long",
    "tools_unavailable": "the tools of one of its toolgroups are not available",
    "content_lost": "its stored content is lost",
    "internal": "the server had an internal error",
}
OURS_ALREADY: frozenset[FailureKind] = frozenset({"ended", "limit_reached", "memory_unusable", "not_runnable"})


def turn_failure(turn_id: str, status: UnansweredStatus, failure: Failure | None) -> TurnFailure:
    """Return the turn's visible failure, from the stored one, or from its status alone."""
    kind: FailureKind = "ended" if failure is None else failure.kind
    if failure is not None and kind in OURS_ALREADY:
        message = failure.message
    else:
        why = None if failure is None else _why(failure)
        message = f"turn {turn_id!r} is {status}" + (f": {why}" if why else "")
    return TurnFailure(status=status, kind=kind, code=FAILURE_CODES[kind], message=message)


def _why(failure: Failure) -> str | None:
    """Return the reason in this server's words; of a provider's answer they contain the status alone."""
    why, status = IN_OUR_WORDS.get(failure.kind), failure.provider_status
    if failure.kind == "model_failed" and status is not None:
        return f"its model's server answered HTTP {status}"
    return f"{why} (HTTP {status})" if failure.kind == "model_busy" and status is not None else why
