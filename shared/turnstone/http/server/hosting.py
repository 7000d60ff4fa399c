"""Who sent a request, under which id, and until when its process may work on it: what the place knows it runs in.

Each place answers for a request's ASGI scope.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.access.identity import caller_named
from turnstone.domain.errors import Unauthenticated

if TYPE_CHECKING:  # a function leaves it to its gateway
    from starlette.types import Scope

    from turnstone.services.access.authentication import Authenticator

LISTS = ("roles", "teams", "projects", "namespaces")
LookUp = Callable[[], Caller]
Scheme = Literal["bearer", "sigv4"]
CONTEXT_HEADER = b"x-amzn-request-context"
REQUEST_ID_BYTES = 12
LAMBDA_HEADER = b"x-amzn-lambda-context"


class Hosting(Protocol):
    """The host of the server.

    Attributes:
        has_tenants: whether callers may be of several tenants, none of which may occupy the server alone.
    """

    has_tenants: bool

    def caller(self, scope: Scope) -> Caller | LookUp:
        """Return who sent the request, or what finds that out and may wait meanwhile. Never waits itself.

        Raises Unauthenticated; what finds it out also raises StoreUnavailable and IssuerUnavailable.
        """

    def scheme(self, scope: Scope) -> Scheme | None:
        """Return how a request that was let in has proved who sent it, None where nobody has to."""

    def base(self, scope: Scope) -> str:
        """Return what stands before the paths of the API in the request's own, without a slash at its end."""

    def ends_at(self, scope: Scope) -> datetime | None:
        """Return when the process is ended even if the request is not answered, None if it is not."""

    def request_id(self, scope: Scope) -> str | None:
        """Return the id under which the log tells of the request, the place's own where it has one."""


class OneMachine:
    """A server that knows its callers by their tokens or, without an authenticator, takes everyone for the same."""

    def __init__(self, authenticator: Authenticator | None = None) -> None:
        self._authenticator = authenticator
        self.has_tenants = authenticator is not None

    def caller(self, scope: Scope) -> Caller | LookUp:
        if self._authenticator is None:
            return LOCAL_CALLER
        sent = [value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"]
        authorization = sent[0] if len(sent) == 1 else None
        known = self._authenticator.cached_caller(authorization)
        return known or partial(self._authenticator.identify, authorization)

    def scheme(self, _: Scope) -> Scheme | None:
        return None if self._authenticator is None else "bearer"

    def base(self, _: Scope) -> str:
        return ""

    def ends_at(self, _: Scope) -> datetime | None:
        return None

    def request_id(self, _: Scope) -> str:
        return os.urandom(REQUEST_ID_BYTES).hex()


class BehindGateway:
    """A Lambda that is given API Gateway's event: the gateway has checked who calls."""

    has_tenants = True

    def __init__(self, scheme: Scheme | None = None) -> None:
        """Take how callers prove who they are, where the gateway lets everybody pass and does not tell."""
        self._scheme = scheme

    def caller(self, scope: Scope) -> Caller:
        return caller_of(scope["aws.event"].get("requestContext"))

    def scheme(self, scope: Scope) -> Scheme:
        return self._scheme or scheme_of(scope["aws.event"].get("requestContext"))

    def base(self, scope: Scope) -> str:
        event = scope["aws.event"]
        whole, resource = _text(event.get("requestContext"), "path") or "", _text(event, "resource")
        own = resource if resource and whole.endswith(resource) else scope["path"]  # whose version may seem a stage's
        return whole.removesuffix(own).removesuffix("/")

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

    has_tenants = True

    def caller(self, scope: Scope) -> Caller:
        return caller_of(_json_header(scope, CONTEXT_HEADER))

    def scheme(self, scope: Scope) -> Scheme:
        return scheme_of(_json_header(scope, CONTEXT_HEADER))

    def base(self, _: Scope) -> str:
        return ""  # no route that is streamed asks

    def ends_at(self, scope: Scope) -> datetime | None:
        context = _json_header(scope, LAMBDA_HEADER)
        deadline_ms = context.get("deadline") if isinstance(context, Mapping) else None
        return datetime.fromtimestamp(deadline_ms / 1_000, UTC) if isinstance(deadline_ms, int) else None

    def request_id(self, scope: Scope) -> str | None:
        return _text(_json_header(scope, CONTEXT_HEADER), "requestId")


def caller_of(context: Any) -> Caller:
    """Return whom the gateway names in its request context. Raises Unauthenticated.

    Where an authorizer had a say, that alone counts. Else the caller has signed the request, and the account is the
    tenant.

    Source: the proxy event of API Gateway REST APIs, with a Lambda authorizer and with IAM authorization.
    """
    if not isinstance(context, Mapping):
        raise Unauthenticated
    if context.get("authorizer") is not None:
        return _authorized(context["authorizer"])
    identity = context.get("identity")
    return caller_named({"tenant": _text(identity, "accountId"), "principal": _text(identity, "userArn")})


def scheme_of(context: Any) -> Scheme:
    """Return what the gateway asks of a request, by the context it gave one: an authorizer sees to tokens only."""
    has_authorizer = isinstance(context, Mapping) and context.get("authorizer") is not None
    return "bearer" if has_authorizer else "sigv4"


def context_of(caller: Caller) -> dict[str, str]:
    """Return what our authorizer tells of a caller. The gateway passes scalars on only, so lists become JSON."""
    lists = {name: json.dumps(getattr(caller, name)) for name in LISTS}
    key = {"key_id": caller.key_id} if caller.key_id else {}
    return {"tenant": caller.tenant, "principal": caller.principal, **lists, **key}


def _authorized(told: Any) -> Caller:
    fields = {name: _text(told, name) for name in ("tenant", "principal")}
    try:
        lists = {name: json.loads(told[name]) for name in LISTS if name in told}
    except (TypeError, ValueError, RecursionError):
        raise Unauthenticated from None
    return caller_named({**fields, **lists, "key_id": _text(told, "key_id") or ""})


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
