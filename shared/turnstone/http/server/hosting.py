"""The host of the server: the caller, id and deadline of a request, read from its ASGI scope."""

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
Identify = Callable[[], Caller]
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

    def caller(self, scope: Scope) -> Caller | Identify:
        """Return the caller without blocking, or a function that returns it and may block.

        Raises Unauthenticated; the function also raises StoreUnavailable and IssuerUnavailable.
        """

    def scheme(self, scope: Scope) -> Scheme | None:
        """Return how the caller of an admitted request authenticated, None on a server without authentication."""

    def base(self, scope: Scope) -> str:
        """Return the prefix of the API's paths in the request's own, without a slash at its end."""

    def ends_at(self, scope: Scope) -> datetime | None:
        """Return the time at which the host ends the process, None if it does not."""

    def request_id(self, scope: Scope) -> str | None:
        """Return the request's id in the log: the host's own id if it has one."""


class OneMachine:
    """A server that identifies callers by their tokens; without an authenticator, all are one local caller."""

    def __init__(self, authenticator: Authenticator | None = None) -> None:
        self._authenticator = authenticator
        self.has_tenants = authenticator is not None

    def caller(self, scope: Scope) -> Caller | Identify:
        if self._authenticator is None:
            return LOCAL_CALLER
        sent = [value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"]
        authorization = sent[0] if len(sent) == 1 else None
        cached = self._authenticator.cached_caller(authorization)
        return cached or partial(self._authenticator.identify, authorization)

    def scheme(self, _: Scope) -> Scheme | None:
        return None if self._authenticator is None else "bearer"

    def base(self, _: Scope) -> str:
        return ""

    def ends_at(self, _: Scope) -> datetime | None:
        return None

    def request_id(self, _: Scope) -> str:
        return os.urandom(REQUEST_ID_BYTES).hex()


class BehindGateway:
    """A Lambda invoked with API Gateway's event; the gateway has authenticated the caller."""

    has_tenants = True

    def __init__(self, scheme: Scheme | None = None) -> None:
        """Take the scheme of callers, for routes on which the gateway admits all requests and names no scheme."""
        self._scheme = scheme

    def caller(self, scope: Scope) -> Caller:
        return caller_of(scope["aws.event"].get("requestContext"))

    def scheme(self, scope: Scope) -> Scheme:
        return self._scheme or scheme_of(scope["aws.event"].get("requestContext"))

    def base(self, scope: Scope) -> str:
        event = scope["aws.event"]
        whole, resource = _text(event.get("requestContext"), "path") or "", _text(event, "resource")
        own = resource if resource and whole.endswith(resource) else scope["path"]  # its version may be a stage's name
        return whole.removesuffix(own).removesuffix("/")

    def ends_at(self, scope: Scope) -> datetime | None:
        left = timedelta(milliseconds=scope["aws.context"].get_remaining_time_in_millis())
        return datetime.now(UTC) + left

    def request_id(self, scope: Scope) -> str | None:
        return _text(scope["aws.event"].get("requestContext"), "requestId")


class BehindAdapter:
    """A web server in a Lambda, behind the Lambda Web Adapter, which passes the gateway's context in headers.

    Only the adapter can reach the server, and it replaces a client's headers of these names. A request with two
    headers of one name did not come from the adapter.
    """

    has_tenants = True

    def caller(self, scope: Scope) -> Caller:
        return caller_of(gateway_context(scope))

    def scheme(self, scope: Scope) -> Scheme:
        return scheme_of(gateway_context(scope))

    def base(self, _: Scope) -> str:
        return ""  # no streamed route uses it

    def ends_at(self, scope: Scope) -> datetime | None:
        context = _json_header(scope, LAMBDA_HEADER)
        deadline_ms = context.get("deadline") if isinstance(context, Mapping) else None
        return datetime.fromtimestamp(deadline_ms / 1_000, UTC) if isinstance(deadline_ms, int) else None

    def request_id(self, scope: Scope) -> str | None:
        return _text(gateway_context(scope), "requestId")


def gateway_context(scope: Scope) -> Any:
    """Return the gateway's request context that the adapter passed on, None if there is none."""
    return _json_header(scope, CONTEXT_HEADER)


def caller_of(context: Any) -> Caller:
    """Return the caller in the gateway's request context. Raises Unauthenticated.

    The context of an authorizer takes precedence. Without one the request is signed, and the AWS account is the tenant.

    Source: the proxy event of API Gateway REST APIs, with a Lambda authorizer and with IAM authorization.
    """
    if not isinstance(context, Mapping):
        raise Unauthenticated
    if context.get("authorizer") is not None:
        return _authorized(context["authorizer"])
    identity = context.get("identity")
    return caller_named({"tenant": _text(identity, "accountId"), "principal": _text(identity, "userArn")})


def scheme_of(context: Any) -> Scheme:
    """Return the scheme that the gateway requires: `bearer` if the request context is an authorizer's."""
    has_authorizer = isinstance(context, Mapping) and context.get("authorizer") is not None
    return "bearer" if has_authorizer else "sigv4"


def context_of(caller: Caller) -> dict[str, str]:
    """Return the authorizer's context of a caller, lists as JSON because the gateway forwards scalars only."""
    lists = {name: json.dumps(getattr(caller, name)) for name in LISTS}
    key = {"key_id": caller.key_id} if caller.key_id else {}
    return {"tenant": caller.tenant, "principal": caller.principal, **lists, **key}


def _authorized(context: Any) -> Caller:
    fields = {name: _text(context, name) for name in ("tenant", "principal")}
    try:
        lists = {name: json.loads(context[name]) for name in LISTS if name in context}
    except (TypeError, ValueError, RecursionError):
        raise Unauthenticated from None
    return caller_named({**fields, **lists, "key_id": _text(context, "key_id") or ""})


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
