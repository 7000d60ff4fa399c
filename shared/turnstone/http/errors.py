"""The one table from errors to statuses, and the envelopes that the clients of each dialect expect.

The only place with an `except Exception`: whatever nobody expected becomes a 500 that tells nothing of the inside.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from turnstone.domain import errors
from turnstone.domain.caller import Caller
from turnstone.http.routes import Answer, Dialect, InvalidBody, Reply, Request

if TYPE_CHECKING:
    from turnstone.domain.failures import Failure, FailureKind

log = logging.getLogger(__name__)

STATUS: dict[type[Exception], int] = {
    errors.InvalidRequest: 400,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.AlreadyRegistered: 409,
    errors.TurnConflict: 409,
    errors.IdempotencyMismatch: 409,
    errors.LeaseLost: 409,
    errors.ContentLost: 410,
    errors.BodyTooLarge: 413,
    errors.UnknownClient: 426,
    errors.LimitReached: 429,
    errors.NotServed: 501,
    errors.ModelTimedOut: 504,
    errors.ModelError: 502,
    errors.CredentialsMissing: 401,
    errors.CredentialsRefused: 403,
    errors.ToolgroupUnavailable: 502,
    errors.Overloaded: 503,
    errors.StoreUnavailable: 503,
    errors.IssuerUnavailable: 503,
}
FAILURE_STATUS: dict[FailureKind, int] = {
    "model_failed": 502,
    "model_timed_out": 504,
    "lease_lost": 409,
    "ended": 409,
    "gone": 404,
    "handed_over": 503,
    "limit_reached": 429,
    "tools_unavailable": 502,
    "tools_want_credentials": 401,
    "tools_refuse_credentials": 403,
    "store_unavailable": 503,
    "content_lost": 410,
    "internal": 500,
}
# Source: the OpenAI API reference; what is not here is the caller's mistake below 500, the server's from there on
OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
NO_RETRY = {"x-should-retry": "false"}
RETRY_SOON = {"retry-after": "1"}
HANG_UP = {"connection": "close"}
STORE_MESSAGE = "the store can't be read or written now, try again shortly"
ISSUER_MESSAGE = "the keys of the tokens' issuer can't be had now, try again shortly"


def answer_or_error(
    endpoint: Callable[[Request], Answer], request: Request, dialect: Dialect = "llama_stack"
) -> Answer:
    """Return the endpoint's answer, or the reply that tells what went wrong."""
    try:
        return endpoint(request)
    except Exception as error:  # noqa: BLE001 - the table's last row
        return error_reply(error, dialect)


def in_one_line(record: logging.LogRecord) -> bool:
    """Have a log say in one line that an answer broke off, without a traceback where the reason is no bug."""
    problem = record.exc_info[1] if record.exc_info else None
    if isinstance(problem, errors.TurnstoneError):
        record.msg, record.args, record.exc_info = "an answer broke off: %s", (problem,), None
    elif isinstance(problem, CancelledError):
        record.msg, record.args, record.exc_info = "an answer broke off: the server stops", (), None
    return True


def caller_or_error(look_up: Callable[[], Caller], dialect: Dialect = "llama_stack") -> Caller | Reply:
    """Return the caller, or the reply that tells why there is none."""
    try:
        return look_up()
    except Exception as error:  # noqa: BLE001 - as above
        return error_reply(error, dialect)


def outcome_of(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Return what the call returned and None, or None and what it raised, for another thread to tell."""
    try:
        return call(), None
    except StopIteration as error:
        return None, RuntimeError(f"work ended by {error!r}")  # which no coroutine may raise
    except Exception as error:  # noqa: BLE001 - it is raised again where the outcome is waited for
        return None, error
    except BaseException as error:
        log.critical("work of a request ended by %r", error, exc_info=error)
        return None, RuntimeError(f"work ended by {error!r}")


def error_reply(error: BaseException, dialect: Dialect = "llama_stack") -> Reply:
    """Return the reply for an error: a true status, and what a person can do about it."""
    if isinstance(error, InvalidBody):
        return _validation_reply(error.problems, dialect)
    if isinstance(error, errors.InvalidRequest) and error.location:
        return _validation_reply([{"loc": error.location, "msg": str(error), "type": "value_error"}], dialect)
    status = next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)
    return detail_reply(status, message_of(error), _headers(error, status), dialect)


def message_of(error: BaseException) -> str:
    """Return what a client is told of an error, and log what it is not."""
    if isinstance(error, errors.StoreUnavailable):
        log.warning("the store is unavailable: %s", error)
        return STORE_MESSAGE
    if isinstance(error, errors.IssuerUnavailable):
        log.warning("callers can't be known: %s", error)
        return ISSUER_MESSAGE
    if any(kind in STATUS for kind in type(error).__mro__):
        return str(error)
    log.error("a request hit an internal error", exc_info=error)
    return "internal server error"


def failure_reply(failure: Failure) -> Reply:
    """Return the reply for a turn without an answer. A repetition finds the same turn, which helps if it will go on."""
    status = FAILURE_STATUS[failure.kind]
    return detail_reply(status, failure.message, RETRY_SOON if status == 503 else NO_RETRY)


def detail_reply(
    status: int, message: str, headers: dict[str, str] | None = None, dialect: Dialect = "llama_stack"
) -> Reply:
    told = {"detail": message} if dialect == "llama_stack" else openai_error(status, message)
    return Reply(to_json(told), status, headers or {})


def openai_error(status: int, message: str, param: str | None = None) -> dict[str, object]:
    """Return the envelope of OpenAI's errors."""
    kind = OPENAI_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": None}}


def _headers(error: BaseException, status: int) -> dict[str, str]:
    if isinstance(error, errors.DayLimitReached):
        return {**NO_RETRY, "retry-after": str(error.retry_after_s)}
    if isinstance(error, errors.TurnstoneError) and not error.may_be_repeated:
        return NO_RETRY
    if isinstance(error, errors.TurnRunning):
        return RETRY_SOON
    if isinstance(error, errors.Unauthenticated) and error.scheme:
        return {**NO_RETRY, "www-authenticate": error.scheme}
    if status in (401, 409, 500):
        return NO_RETRY
    if status == 413:
        return HANG_UP
    return RETRY_SOON if status == 503 else {}


def _validation_reply(found: list[dict[str, Any]], dialect: Dialect) -> Reply:
    if dialect == "llama_stack":
        return Reply(to_json({"error": {"detail": {"errors": found}}}), 400)
    places = [".".join(map(str, problem["loc"])) for problem in found]
    said = (problem["msg"].removeprefix("Value error, ") for problem in found)
    told = (
        text if not place or text.startswith(place) else f"{place}: {text}"
        for place, text in zip(places, said, strict=True)
    )
    return Reply(to_json(openai_error(400, "; ".join(told), places[0] or None)), 400)
