"""Map Bedrock's refusals and failures to errors, and decide which of them may be retried."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.eventstream import ParserError
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoAuthTokenError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ReadTimeoutError,
    SSOError,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError
from urllib3.exceptions import ReadTimeoutError as SilentStream

from turnstone.adapters.outgoing.failed_attempt import FailedAttempt
from turnstone.adapters.outgoing.quoting import REDACTED
from turnstone.domain.errors import ModelBusy, ModelFailed, ModelRefused, ModelTimedOut

# all exceptions of a call to Bedrock or of reading its answer: botocore lets some of urllib3's errors through
FAILURES = (BotoCoreError, ClientError, HTTPError, ParserError, ResponseParserError, UnicodeDecodeError)
# error members of an event stream, which carry no HTTP status
BUSY = "ThrottlingException"
BROKEN = frozenset({"InternalServerException", "ModelStreamErrorException", "ServiceUnavailableException"})
TIMED_OUT = "ModelTimeoutException"
INVALID = "ValidationException"
LONGEST_WAIT_S = 5.0
LONGEST_RETRY_AFTER_S = 21_600.0
# the account and the role of the request are the operator's data, not the caller's
IDENTITIES = re.compile(r"arn:[\w-]+:(?:iam|sts)::\S+|(?<!\d)\d{12}(?!\d)")
Quote = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class BedrockCall:
    """The model and action of a request, and the quoting of the provider's messages."""

    model: str
    region: str
    quote: Quote

    @property
    def endpoint(self) -> str:
        return f"Bedrock in {self.region}"


def refusal_of(failure: Exception, call: BedrockCall) -> FailedAttempt:
    """Return the refusal for a failure before the answer began."""
    match failure:
        case ClientError():
            return _refused(failure, call)
        case ParamValidationError():
            error_text = "the question can't be put as Bedrock takes it; check the model's id and the tools"
            return FailedAttempt(ModelFailed(error_text))
        case ConnectTimeoutError():
            return FailedAttempt(ModelTimedOut(f"no connection to {call.endpoint} in time"), None, failure)
        case ReadTimeoutError() | SilentStream():
            return FailedAttempt(ModelTimedOut(f"{call.endpoint} did not answer in time"), None, failure)
        case EndpointConnectionError():
            error_text = f"can't connect to {call.endpoint}; is there a way to it from here, and is it there at all?"
            return FailedAttempt(ModelFailed(error_text, is_outage=True), 0.0, failure)
        case ConnectionClosedError():
            return FailedAttempt(
                ModelFailed(f"{call.endpoint} hung up before it answered", is_outage=True), 0.0, failure
            )
        case NoCredentialsError() | PartialCredentialsError() | CredentialRetrievalError() | NoAuthTokenError():
            return _without_credentials(failure, call)
        case SSOError() | TokenRetrievalError():
            return _without_credentials(failure, call)
        case _:
            error_text = f"can't talk to {call.endpoint} ({type(failure).__name__})"
            return FailedAttempt(ModelFailed(error_text, is_outage=True), None, failure)


def broken_off(failure: Exception, call: BedrockCall) -> FailedAttempt:
    """Return the refusal for a failure after the answer began."""
    match failure:
        case ClientError():
            refused = _refused(failure, call).error
            if isinstance(refused, ModelTimedOut):
                return FailedAttempt(refused)
            error_text = f"{call.endpoint} failed while it answered: {refused}"
            broken = ModelFailed(error_text, is_outage=refused.is_outage, status=refused.status, code=refused.code)
            return FailedAttempt(broken)
        case ReadTimeoutError() | SilentStream():
            return FailedAttempt(ModelTimedOut(f"{call.endpoint} fell silent while it answered"), None, failure)
        case _:
            error_text = f"the answer of {call.endpoint} broke off ({type(failure).__name__})"
            return FailedAttempt(ModelFailed(error_text, is_outage=True), None, failure)


def _without_credentials(failure: Exception, call: BedrockCall) -> FailedAttempt:
    error_text = f"the server has no AWS credentials for {call.endpoint} ({type(failure).__name__})"
    return FailedAttempt(ModelFailed(error_text), None, failure)


def _refused(failure: ClientError, call: BedrockCall) -> FailedAttempt:
    error_fields: dict[str, Any] = failure.response.get("Error", {})
    status = failure.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code = str(error_fields.get("Code") or "unknown")
    code = code[0].upper() + code[1:]  # error members of a stream begin with a lower-case letter
    shown = call.quote(IDENTITIES.sub(REDACTED, str(error_fields.get("Message") or "")))
    error_text = f"{_meaning(code, status, call)} ({code})"
    if code == TIMED_OUT:
        return FailedAttempt(ModelTimedOut(f"{error_text}: {shown}" if shown else error_text))
    wait_s = _retry_after_s(failure)
    soon_s = wait_s if wait_s <= LONGEST_WAIT_S else None
    named: dict[str, Any] = {"status": status or None, "code": code}
    if code == BUSY or status == 429:
        retry_after_s = math.ceil(wait_s) or None
        return FailedAttempt(
            ModelBusy(error_text, retry_after_s=retry_after_s, is_outage=True, quote=shown, **named), soon_s
        )
    may_pass = code in BROKEN or status >= 500
    kind = ModelRefused if code == INVALID else ModelFailed
    return FailedAttempt(kind(error_text, is_outage=may_pass, quote=shown, **named), soon_s if may_pass else None)


def _meaning(code: str, status: int, call: BedrockCall) -> str:
    if code == TIMED_OUT:
        return f"model {call.model!r} of {call.endpoint} did not answer in time"
    if code == BUSY or status == 429:
        return f"{call.endpoint} takes no more requests for model {call.model!r} now"
    if status in (401, 403):
        remedy = "check its credentials, rights and access to the model"
        return f"{call.endpoint} does not let this server use model {call.model!r}; {remedy}"
    if status == 404:
        return f"model {call.model!r} not found: {call.endpoint} does not have it; check the agent's model"
    return f"{call.endpoint} refused or failed"


def _retry_after_s(failure: ClientError) -> float:
    """Return the requested delay in seconds, 0 without one."""
    headers = failure.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    seconds = str(headers.get("retry-after", ""))
    return min(float(seconds), LONGEST_RETRY_AFTER_S) if seconds.isdecimal() else 0.0
