"""Who sent a request, under which id, and until when its process may work on it: what the place knows it runs in.

Each place answers for a request's ASGI scope.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from starlette.types import Scope

from turnstone.domain.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import Unauthenticated

CONTEXT_HEADER = b"x-amzn-request-context"
LAMBDA_HEADER = b"x-amzn-lambda-context"


class Surroundings(Protocol):
    def caller(self, scope: Scope) -> Caller:
        """Return who sent the request. Raises Unauthenticated."""

    def ends_at(self, scope: Scope) -> datetime | None:
        """Return when the process is ended even if the request is not answered, None if it is not."""

    def request_id(self, scope: Scope) -> str | None:
        """Return the id under which the place's own logs tell of the request."""


class OneMachine:
    """A server without authentication, for the programs of its machine."""

    def caller(self, _: Scope) -> Caller:
        return LOCAL_CALLER

    def ends_at(self, _: Scope) -> datetime | None:
        return None

    def request_id(self, _: Scope) -> str | None:
        return None


class BehindGateway:
    """A Lambda that is given API Gateway's event: the gateway has checked who calls."""

    def caller(self, scope: Scope) -> Caller:
        return caller_of(scope["aws.event"].get("requestContext"))

    def ends_at(self, scope: Scope) -> datetime | None:
        left = timedelta(milliseconds=scope["aws.context"].get_remaining_time_in_millis())
        return datetime.now(UTC) + left

    def request_id(self, scope: Scope) -> str | None:
        return _text(scope["aws.event"].get("requestContext"), "requestId")


class BehindAdapter:
    """A web server in a Lambda, behind the Lambda Web Adapter, which puts the gateway's word into headers.

    Only the adapter can reach the server, and it replaces what a client sends under these names; a request in which
    one of them stands twice has not come that way.
    """

    def caller(self, scope: Scope) -> Caller:
        return caller_of(_json_header(scope, CONTEXT_HEADER))

    def ends_at(self, scope: Scope) -> datetime | None:
        context = _json_header(scope, LAMBDA_HEADER)
        deadline_ms = context.get("deadline") if isinstance(context, Mapping) else None
        return datetime.fromtimestamp(deadline_ms / 1_000, UTC) if isinstance(deadline_ms, int) else None

    def request_id(self, scope: Scope) -> str | None:
        return _text(_json_header(scope, CONTEXT_HEADER), "requestId")


def caller_of(context: Any) -> Caller:
    """Return whom the gateway names in its request context: the account is the tenant. Raises Unauthenticated.

    Source: the proxy event of API Gateway REST APIs with IAM authorization.
    """
    identity = context.get("identity") if isinstance(context, Mapping) else None
    if not isinstance(identity, Mapping):
        raise Unauthenticated
    account, arn = _text(identity, "accountId"), _text(identity, "userArn")
    if not account or not arn:
        raise Unauthenticated
    return Caller(tenant=account, principal=arn)


def _text(values: Any, name: str) -> str | None:
    value = values.get(name) if isinstance(values, Mapping) else None
    return value if isinstance(value, str) else None


def _json_header(scope: Scope, name: bytes) -> Any:
    found = [value for header, value in scope["headers"] if header == name]
    if len(found) != 1:
        return None
    try:
        return json.loads(found[0])
    except (ValueError, RecursionError):
        return None
