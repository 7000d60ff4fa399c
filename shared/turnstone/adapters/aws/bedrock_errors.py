"""What Bedrock's refusals and failures mean, and which of them may pass."""

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

# everything that asking Bedrock, or reading what it answers, can raise: botocore passes some of urllib3's errors on
FAILURES = (BotoCoreError, ClientError, HTTPError, ParserError, ResponseParserError, UnicodeDecodeError)
# what a stream tells of failures by, which has no status of HTTP for each
BUSY = "ThrottlingException"
BROKEN = frozenset({"InternalServerException", "ModelStreamErrorException", "ServiceUnavailableException"})
TIMED_OUT = "ModelTimeoutException"
INVALID = "ValidationException"
LONGEST_WAIT_S = 5.0
LONGEST_RETRY_AFTER_S = 21_600.0
# whose account and which role asks is the operator's to know, not a caller's
IDENTITIES = re.compile(r"arn:[\w-]+:(?:iam|sts)::\S+|(?<!\d)\d{12}(?!\d)")
Quote = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Asked:
    """Who was asked for what, and how what was said is made fit to be shown."""

    model: str
    region: str
    quote: Quote

    @property
    def place(self) -> str:
        return f"Bedrock in {self.region}"


def refusal_of(failure: Exception, asked: Asked) -> FailedAttempt:
    """Return what a failure means that came before the answer began."""
    match failure:
        case ClientError():
            return _refused(failure, asked)
        case ParamValidationError():
            error_text = "the question can't be put as Bedrock takes it; check the model's id and the tools"
            return FailedAttempt(ModelFailed(error_text))
        case ConnectTimeoutError():
            return FailedAttempt(ModelTimedOut(f"no connection to {asked.place} in time"), None, failure)
        case ReadTimeoutError() | SilentStream():
            return FailedAttempt(ModelTimedOut(f"{asked.place} did not answer in time"), None, failure)
        case EndpointConnectionError():
            error_text = f"can't connect to {asked.place}; is there a way to it from here, and is it there at all?"
            return FailedAttempt(ModelFailed(error_text, is_outage=True), 0.0, failure)
        case ConnectionClosedError():
            return FailedAttempt(ModelFailed(f"{asked.place} hung up before it answered", is_outage=True), 0.0, failure)
        case NoCredentialsError() | PartialCredentialsError() | CredentialRetrievalError() | NoAuthTokenError():
            return _without_credentials(failure, asked)
        case SSOError() | TokenRetrievalError():
            return _without_credentials(failure, asked)
        case _:
            error_text = f"can't talk to {asked.place} ({type(failure).__name__})"
            return FailedAttempt(ModelFailed(error_text, is_outage=True), None, failure)


def broken_off(failure: Exception, asked: Asked) -> FailedAttempt:
    """Return what a failure means that came when the answer had begun."""
    match failure:
        case ClientError():
            refused = _refused(failure, asked).error
            if isinstance(refused, ModelTimedOut):
                return FailedAttempt(refused)
            error_text = f"{asked.place} failed while it answered: {refused}"
            broken = ModelFailed(error_text, is_outage=refused.is_outage, status=refused.status, code=refused.code)
            return FailedAttempt(broken)
        case ReadTimeoutError() | SilentStream():
            return FailedAttempt(ModelTimedOut(f"{asked.place} fell silent while it answered"), None, failure)
        case _:
            error_text = f"the answer of {asked.place} broke off ({type(failure).__name__})"
            return FailedAttempt(ModelFailed(error_text, is_outage=True), None, failure)


def _without_credentials(failure: Exception, asked: Asked) -> FailedAttempt:
    error_text = f"the server has no AWS credentials for {asked.place} ({type(failure).__name__})"
    return FailedAttempt(ModelFailed(error_text), None, failure)


def _refused(failure: ClientError, asked: Asked) -> FailedAttempt:
    told: dict[str, Any] = failure.response.get("Error", {})
    status = failure.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code = str(told.get("Code") or "unknown")
    code = code[0].upper() + code[1:]  # those in a stream begin with a small letter
    said = asked.quote(IDENTITIES.sub(REDACTED, str(told.get("Message") or "")))
    error_text = f"{_meaning(code, status, asked)} ({code})"
    if code == TIMED_OUT:
        return FailedAttempt(ModelTimedOut(f"{error_text}: {said}" if said else error_text))
    wait_s = _retry_after_s(failure)
    soon_s = wait_s if wait_s <= LONGEST_WAIT_S else None
    named: dict[str, Any] = {"status": status or None, "code": code}
    if code == BUSY or status == 429:
        retry_after_s = math.ceil(wait_s) or None
        return FailedAttempt(
            ModelBusy(error_text, retry_after_s=retry_after_s, is_outage=True, quote=said, **named), soon_s
        )
    may_pass = code in BROKEN or status >= 500
    kind = ModelRefused if code == INVALID else ModelFailed
    return FailedAttempt(kind(error_text, is_outage=may_pass, quote=said, **named), soon_s if may_pass else None)


def _meaning(code: str, status: int, asked: Asked) -> str:
    if code == TIMED_OUT:
        return f"model {asked.model!r} of {asked.place} did not answer in time"
    if code == BUSY or status == 429:
        return f"{asked.place} takes no more requests for model {asked.model!r} now"
    if status in (401, 403):
        remedy = "check its credentials, rights and access to the model"
        return f"{asked.place} does not let this server use model {asked.model!r}; {remedy}"
    if status == 404:
        return f"model {asked.model!r} not found: {asked.place} does not have it; check the agent's model"
    return f"{asked.place} refused or failed"


def _retry_after_s(failure: ClientError) -> float:
    """Return the seconds to wait that were asked for, 0 if none were."""
    headers = failure.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    told = str(headers.get("retry-after", ""))
    return min(float(told), LONGEST_RETRY_AFTER_S) if told.isdecimal() else 0.0
