"""The tables from errors to HTTP statuses, and the replies for errors in the envelope of a dialect.

The only module with an `except Exception`: an unexpected error becomes a 500 without internal details.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnstone.domain import errors
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors.code_table import code_of
from turnstone.domain.errors.codes import ErrorCode
from turnstone.domain.values.outcome import Raised, Returned, guarded
from turnstone.http.dialects import LLAMA_STACK, Dialect
from turnstone.http.replies import Answer, Reply
from turnstone.http.request import InvalidBody, Request

if TYPE_CHECKING:
    from turnstone.domain.turns.failures import Failure, FailureKind

log = logging.getLogger(__name__)

STATUS: dict[type[Exception], int] = {
    errors.InvalidRequest: 400,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.AlreadyRegistered: 409,
    errors.LabelTaken: 409,
    errors.ToolNameTaken: 409,
    errors.TurnConflict: 409,
    errors.IdempotencyMismatch: 409,
    errors.LeaseLost: 409,
    errors.ContentLost: 410,
    errors.BodyTooLarge: 413,
    errors.UnknownClient: 426,
    errors.LimitReached: 429,
    errors.NotServed: 501,
    errors.ModelBusy: 429,
    errors.ModelRefused: 400,
    errors.ModelTimedOut: 504,
    errors.ModelError: 502,
    errors.MemoryProviderTimedOut: 504,
    errors.MemoryProviderMissing: 503,
    errors.MemoryProviderError: 502,
    errors.CredentialsMissing: 401,
    errors.CredentialsRefused: 403,
    errors.ToolgroupUnavailable: 502,
    errors.Overloaded: 503,
    errors.StoreUnavailable: 503,
    errors.RecordTooNew: 500,
    errors.IssuerUnavailable: 503,
}
FAILURE_STATUS: dict[FailureKind, int] = {
    "model_failed": 502,
    "model_busy": 429,
    "model_timed_out": 504,
    "lease_lost": 409,
    "ended": 409,
    "gone": 404,
    "handed_over": 503,
    "limit_reached": 429,
    "tools_unavailable": 502,
    "tools_want_credentials": 401,
    "tools_refuse_credentials": 403,
    "memory_unusable": 400,
    "not_runnable": 400,
    "store_unavailable": 503,
    "content_lost": 410,
    "internal": 500,
}
# refusals without an error of the tree
REFUSED: dict[ErrorCode, int] = {
    ErrorCode.MALFORMED_HTTP: 400,
    ErrorCode.NOT_LOCAL: 403,
    ErrorCode.PATH_NOT_FOUND: 404,
    ErrorCode.METHOD_NOT_ALLOWED: 405,
    ErrorCode.REQUEST_TIMED_OUT: 408,
    ErrorCode.TOO_MANY_REQUESTS: 429,
    ErrorCode.HEAD_TOO_LARGE: 431,
    ErrorCode.INTERNAL_ERROR: 500,
    ErrorCode.ANSWER_TOO_LARGE: 500,
    ErrorCode.CLIENT_DISCONNECTED: 499,
    ErrorCode.NOT_IMPLEMENTED: 501,
    ErrorCode.SERVER_STOPPING: 503,
    ErrorCode.TOO_MANY_CONNECTIONS: 503,
    ErrorCode.TURN_CONTINUES: 503,
}
NO_RETRY = {"x-should-retry": "false"}
RETRY_SOON = {"retry-after": "1"}
HANG_UP = {"connection": "close"}
STORE_MESSAGE = "the store can't be read or written now; try again shortly"
ISSUER_MESSAGE = "the token issuer's keys can't be fetched now; try again shortly"


def answer_or_error(
    endpoint: Callable[[Request], Answer],
    request: Request,
    dialect: Dialect = LLAMA_STACK,
    raised: tuple[type[Exception], ...] = (),
) -> Answer:
    """Return the endpoint's answer, or the reply for its error. Raises errors of the kinds `raised`."""
    try:
        return endpoint(request)
    except raised:
        raise
    except Exception as error:  # noqa: BLE001 - the table's last row
        return error_reply(error, dialect)


def is_log_line_needed(record: logging.LogRecord) -> bool:
    """Return whether the log needs a server's line about an aborted answer: of bugs only, for the traceback."""
    problem = record.exc_info[1] if record.exc_info else None
    return not isinstance(problem, errors.TurnstoneError | CancelledError)


def reason_of(problem: BaseException) -> str:
    """Return why an answer was aborted, in a few words for the log."""
    if isinstance(problem, errors.TurnstoneError):
        return str(problem)
    return "the server stops" if isinstance(problem, CancelledError) else type(problem).__name__


def log_fields_of(error: BaseException) -> dict[str, Any]:
    """Return the log fields of an error: its class and the provider, never contents of messages."""
    fields: dict[str, Any] = {"error": type(error).__name__}
    if isinstance(error, errors.MemoryProviderError):
        fields["provider"] = error.provider_id
    return {**fields, **error.log_fields} if isinstance(error, errors.ModelError) else fields


def caller_or_error(identify: Callable[[], Caller], dialect: Dialect = LLAMA_STACK) -> Caller | Reply:
    """Return the caller, or the reply for the error of identifying it."""
    try:
        return identify()
    except Exception as error:  # noqa: BLE001 - as above
        return error_reply(error, dialect)


def outcome_of(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Return the call's result and None, or None and its error, for use in another thread."""
    match guarded(call):
        case Returned(value):
            return value, None
        case Raised(StopIteration() as error):
            return None, RuntimeError(f"work ended by {error!r}")  # no coroutine may raise StopIteration
        case Raised(Exception() as error):
            return None, error
        case Raised(error):
            log.critical("work of a request ended by %r", error, exc_info=error)
            return None, RuntimeError(f"work ended by {error!r}")


def error_reply(error: BaseException, dialect: Dialect = LLAMA_STACK) -> Reply:
    """Return the reply for an error: a true status, and the remedy for a person."""
    return _reply_to(error, dialect)._replace(about=log_fields_of(error))


def _reply_to(error: BaseException, dialect: Dialect) -> Reply:
    status, envelope = _status(error, dialect), dialect.envelope
    if isinstance(error, InvalidBody):
        return Reply(envelope.invalid(error.problems, ErrorCode.INVALID_REQUEST), status)
    if isinstance(error, errors.InvalidRequest) and error.location and status == 400:
        problem = {"loc": error.location, "msg": str(error), "type": "value_error"}
        return Reply(envelope.invalid([problem], code_of(error)), dialect.validation_status)
    return Reply(envelope.refusal(status, message_of(error), code_of(error)), status, _headers(error, status))


def message_of(error: BaseException) -> str:
    """Return the text of an error for the client, and log the details that it leaves out."""
    if isinstance(error, errors.StoreUnavailable) and not isinstance(error, errors.RecordTooNew):
        log.warning("the store is unavailable: %s", error)
        return STORE_MESSAGE
    if isinstance(error, errors.IssuerUnavailable):
        log.warning("cannot identify callers, the token issuer is unavailable: %s", error)
        return ISSUER_MESSAGE
    if any(kind in STATUS for kind in type(error).__mro__):
        return str(error)
    log.error("a request hit an internal error", exc_info=error)
    return "internal server error"


def failure_reply(failure: Failure, dialect: Dialect = LLAMA_STACK) -> Reply:
    """Return the reply for a turn without an answer; a retry finds the same turn, useful only if it continues."""
    status = FAILURE_STATUS[failure.kind]
    headers = RETRY_SOON if status == 503 else {**NO_RETRY, **_retry_after(failure.retry_after_s)}
    if status == 400:  # which clients never repeat
        headers = {}
    body = dialect.envelope.refusal(status, failure.message, failure.code)
    return Reply(body, status, headers, about={"error": failure.kind})


def refusal_reply(
    code: ErrorCode, message: str, headers: dict[str, str] | None = None, dialect: Dialect = LLAMA_STACK
) -> Reply:
    """Return the reply for a refusal without an error of the tree."""
    status = REFUSED[code]
    return Reply(dialect.envelope.refusal(status, message, code), status, headers or {})


def _status(error: BaseException, dialect: Dialect) -> int:
    if isinstance(error, InvalidBody):
        return dialect.validation_status
    for statuses in (dialect.statuses, STATUS):
        for kind in type(error).__mro__:
            if kind in statuses:
                return statuses[kind]
    return 500


def _headers(error: BaseException, status: int) -> dict[str, str]:
    headers = _retry_after(_wait_s(error, status))
    # clients never retry a 400
    if isinstance(error, errors.TurnstoneError) and not error.may_be_repeated and status != 400:
        return {**NO_RETRY, **headers}
    if isinstance(error, errors.Unauthenticated) and error.scheme:
        return {**NO_RETRY, "www-authenticate": error.scheme}
    if status == 413:
        return HANG_UP
    return NO_RETRY if status in (401, 409, 500) and not headers else headers


def _wait_s(error: BaseException, status: int) -> int | None:
    """Return the seconds after which a request may succeed, None if waiting does not help or the time is unclear."""
    if isinstance(error, errors.DayLimitReached | errors.ModelBusy | errors.Overloaded):
        return error.retry_after_s
    return 1 if isinstance(error, errors.TurnRunning) or status == 503 else None


def _retry_after(seconds: int | None) -> dict[str, str]:
    return {} if seconds is None else {"retry-after": str(seconds)}
