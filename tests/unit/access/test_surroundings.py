"""The caller of a request: the one that the gateway names, never one that the client claims.

Covers: adapters/machine/system, http/server/hosting, services/access/authentication
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstone.adapters.machine.system import SystemClock
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.access.identity import Identity, is_usable_tenant
from turnstone.domain.errors import Unauthenticated
from turnstone.http.server.hosting import (
    CONTEXT_HEADER,
    LAMBDA_HEADER,
    BehindAdapter,
    BehindGateway,
    Hosting,
    OneMachine,
    caller_of,
    context_of,
)
from turnstone.services.access.authentication import Authenticator

ACCOUNT = "123456789012"
ARN = "arn:aws:iam::123456789012:user/ann"
IDENTITY = {"accountId": ACCOUNT, "userArn": ARN}
ANN = Caller(tenant=ACCOUNT, principal=ARN)

NOBODY: dict[str, Any] = {
    "nothing": None,
    "a text": "identity",
    "a number": 7,
    "a list": [IDENTITY],
    "an empty context": {},
    "identity null": {"identity": None},
    "identity a text": {"identity": ARN},
    "identity a list": {"identity": [IDENTITY]},
    "identity empty": {"identity": {}},
    "identity outside of its field": IDENTITY,
    "an account only": {"identity": {"accountId": ACCOUNT}},
    "an ARN only": {"identity": {"userArn": ARN}},
    "account null": {"identity": {**IDENTITY, "accountId": None}},
    "account empty": {"identity": {**IDENTITY, "accountId": ""}},
    "account a number": {"identity": {**IDENTITY, "accountId": 123456789012}},
    "account a list": {"identity": {**IDENTITY, "accountId": [ACCOUNT]}},
    "ARN null": {"identity": {**IDENTITY, "userArn": None}},
    "ARN empty": {"identity": {**IDENTITY, "userArn": ""}},
    "ARN an object": {"identity": {**IDENTITY, "userArn": {"arn": ARN}}},
    "ARN true": {"identity": {**IDENTITY, "userArn": True}},
    "the API's own account": {"accountId": ACCOUNT, "identity": {"userArn": ARN}},
    "an account where an authorizer speaks": {"authorizer": IDENTITY, "identity": {}},
    "an authorizer without values, beside an account": {"authorizer": {}, "identity": IDENTITY},
    "an authorizer that is a text, beside an account": {"authorizer": "ann", "identity": IDENTITY},
    "an authorizer that is false, beside an account": {"authorizer": False, "identity": IDENTITY},
    "a tenant only, beside an account": {"authorizer": {"tenant": "acme"}, "identity": IDENTITY},
    "a principal only, beside an account": {"authorizer": {"principalId": "a", "principal": "a"}, "identity": IDENTITY},
    "a tenant that is empty": {"authorizer": {"tenant": "", "principal": "ann"}},
    "a tenant that is a number": {"authorizer": {"tenant": 7, "principal": "ann"}},
    "a tenant of half a character": {"authorizer": {"tenant": "\ud800", "principal": "ann"}},
    "roles that are no JSON": {"authorizer": {"tenant": "acme", "principal": "ann", "roles": "admin"}},
    "roles that are a list": {"authorizer": {"tenant": "acme", "principal": "ann", "roles": ["admin"]}},
    "roles that are null": {"authorizer": {"tenant": "acme", "principal": "ann", "roles": None}},
    "roles that are a text": {"authorizer": {"tenant": "acme", "principal": "ann", "roles": '"admin"'}},
    "roles that are an object": {"authorizer": {"tenant": "acme", "principal": "ann", "roles": '{"admin": 1}'}},
    "roles that are numbers": {"authorizer": {"tenant": "acme", "principal": "ann", "roles": "[1]"}},
    "a role of half a character": {"authorizer": {"tenant": "acme", "principal": "ann", "roles": '["\\ud800"]'}},
    "teams nested too deep": {"authorizer": {"tenant": "acme", "principal": "ann", "teams": "[" * 100_000}},
}


class Context:
    def __init__(self, left_ms: int) -> None:
        self._left_ms = left_ms

    def get_remaining_time_in_millis(self) -> int:
        return self._left_ms


def adapter_scope(*headers: tuple[bytes, Any]) -> dict[str, Any]:
    """Return the scope of a request with these headers, their values as JSON unless they are bytes."""
    as_sent = [(name, value if isinstance(value, bytes) else json.dumps(value).encode()) for name, value in headers]
    return {"type": "http", "headers": as_sent}


def gateway_scope(context: Any, left_ms: int = 900_000, **headers: Any) -> dict[str, Any]:
    sent = [(name.encode(), json.dumps(value).encode()) for name, value in headers.items()]
    return {
        "type": "http",
        "headers": sent,
        "aws.event": {"requestContext": context},
        "aws.context": Context(left_ms),
    }


def test_the_account_is_the_tenant_and_the_arn_the_principal() -> None:
    context = {"accountId": "999999999999", "identity": {**IDENTITY, "caller": "x", "user": "y"}}
    assert caller_of(context) == ANN
    assert BehindGateway().caller(gateway_scope(context)) == ANN
    assert BehindAdapter().caller(adapter_scope((CONTEXT_HEADER, context))) == ANN


CALLERS = st.builds(
    Caller,
    tenant=st.text(min_size=1).filter(is_usable_tenant),
    principal=st.text(min_size=1),
    roles=st.lists(st.text(), max_size=3),
    teams=st.lists(st.text(), max_size=3),
    projects=st.lists(st.text(), max_size=3),
    namespaces=st.lists(st.text(), max_size=3),
)


@given(CALLERS, st.sampled_from([{}, IDENTITY]))
def test_the_caller_is_the_one_that_the_authorizer_names(caller: Caller, identity: dict[str, str]) -> None:
    """The context as API Gateway passes it on: scalars, with two of its own beside them."""
    authorizer = {**context_of(caller), "principalId": "x", "integrationLatency": 7}
    assert all(isinstance(value, str) for value in context_of(caller).values())
    context = {"authorizer": authorizer, "identity": identity}
    assert BehindGateway().caller(gateway_scope(context)) == caller
    assert BehindAdapter().caller(adapter_scope((CONTEXT_HEADER, context))) == caller


def test_each_hosting_has_its_scheme_of_authentication() -> None:
    authenticator = Authenticator(OneToken(), SystemClock(), timedelta(seconds=60))
    assert [OneMachine().scheme({}), OneMachine(authenticator).scheme({})] == [None, "bearer"]
    for context, scheme in (
        ({"authorizer": context_of(ANN), "identity": {}}, "bearer"),
        ({"identity": IDENTITY}, "sigv4"),
    ):
        assert BehindGateway().scheme(gateway_scope(context)) == scheme
        assert BehindAdapter().scheme(adapter_scope((CONTEXT_HEADER, context))) == scheme


def test_an_authorizer_that_names_no_groups_names_a_caller_without_them() -> None:
    assert caller_of({"authorizer": {"tenant": "acme", "principal": "ann"}}) == Caller(tenant="acme", principal="ann")


def test_without_an_authorizer_the_account_is_the_caller() -> None:
    assert caller_of({"authorizer": None, "identity": IDENTITY}) == ANN


class OneToken:
    def identity(self, token: str) -> Identity:
        if token != "good":
            raise Unauthenticated
        return Identity(ANN)


def test_one_machine_verifies_a_token_off_the_event_loop_and_then_caches_it() -> None:
    hosting = OneMachine(Authenticator(OneToken(), SystemClock(), timedelta(seconds=60)))
    good = {"headers": [(b"authorization", b"Bearer good")]}
    first = hosting.caller(good)
    assert not isinstance(first, Caller)
    assert first() == ANN
    assert hosting.caller(good) == ANN
    wrong = hosting.caller({"headers": [(b"authorization", b"Bearer wrong")]})
    assert not isinstance(wrong, Caller)
    with pytest.raises(Unauthenticated):
        wrong()


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"")],
        [(b"authorization", b"Bearer g\xc3\xb6\xc3\xb6d")],
        [(b"authorization", b"Bearer good"), (b"authorization", b"Bearer good")],
        [(b"x-authorization", b"Bearer good")],
    ],
)
def test_one_machine_refuses_a_malformed_header_at_once(headers: list[tuple[bytes, bytes]]) -> None:
    hosting = OneMachine(Authenticator(OneToken(), SystemClock(), timedelta(seconds=60)))
    for _ in range(2):
        with pytest.raises(Unauthenticated):
            hosting.caller({"headers": headers})


@pytest.mark.parametrize("context", NOBODY.values(), ids=NOBODY)
def test_an_incomplete_identity_names_no_caller(context: Any) -> None:
    cases: list[tuple[Hosting, dict[str, Any]]] = [
        (BehindGateway(), gateway_scope(context)),
        (BehindAdapter(), adapter_scope((CONTEXT_HEADER, context))),
    ]
    for hosting, scope in cases:
        with pytest.raises(Unauthenticated):
            hosting.caller(scope)


@pytest.mark.parametrize(
    "header",
    [b"", b"{", b"null", b"\xff\xfe\xff", b"NaN", b"{'identity': {}}", b"[" * 100_000],
    ids=["empty", "cut off", "null", "no text", "NaN", "no JSON", "nested too deep"],
)
def test_a_header_that_is_not_json_names_no_caller(header: bytes) -> None:
    with pytest.raises(Unauthenticated):
        BehindAdapter().caller(adapter_scope((CONTEXT_HEADER, header)))
    assert BehindAdapter().request_id(adapter_scope((CONTEXT_HEADER, header))) is None
    assert BehindAdapter().ends_at(adapter_scope((LAMBDA_HEADER, header))) is None


def test_a_repeated_header_names_no_caller() -> None:
    """One of the two headers may be the client's."""
    context = {"identity": IDENTITY, "requestId": "r"}
    twice = adapter_scope((CONTEXT_HEADER, context), (CONTEXT_HEADER, context))
    with pytest.raises(Unauthenticated):
        BehindAdapter().caller(twice)
    assert BehindAdapter().request_id(twice) is None
    deadline = {"deadline": 1_700_000_000_000}
    assert BehindAdapter().ends_at(adapter_scope((LAMBDA_HEADER, deadline), (LAMBDA_HEADER, deadline))) is None


def test_without_the_header_there_is_no_caller() -> None:
    with pytest.raises(Unauthenticated):
        BehindAdapter().caller(adapter_scope())


def test_headers_of_a_client_count_for_nothing_beside_the_gateways_event() -> None:
    forged = {"identity": {"accountId": "666666666666", "userArn": "arn:aws:iam::666666666666:root"}, "requestId": "x"}
    headers = {CONTEXT_HEADER.decode(): forged, LAMBDA_HEADER.decode(): {"deadline": 0}}
    scope = gateway_scope({"identity": IDENTITY, "requestId": "r"}, **headers)
    assert BehindGateway().caller(scope) == ANN
    assert BehindGateway().request_id(scope) == "r"
    ends_at = BehindGateway().ends_at(scope)
    assert ends_at is not None
    assert ends_at > datetime.now(UTC)
    with pytest.raises(Unauthenticated):
        BehindGateway().caller(gateway_scope({}, **headers))
    local = adapter_scope((CONTEXT_HEADER, forged), (LAMBDA_HEADER, {"deadline": 0}))
    assert OneMachine().caller(local) == LOCAL_CALLER
    assert OneMachine().ends_at(local) is None
    assert OneMachine().request_id(local) not in (None, "x")


NAMES = ["identity", "accountId", "userArn", "authorizer", "tenant", "principal", "roles", "x"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=8,
)


@given(JSON)
def test_any_context_names_a_complete_caller_or_none(context: Any) -> None:
    try:
        caller = BehindAdapter().caller(adapter_scope((CONTEXT_HEADER, context)))
    except Unauthenticated:
        return
    if context.get("authorizer") is not None:
        assert (caller.tenant, caller.principal) == (
            context["authorizer"]["tenant"],
            context["authorizer"]["principal"],
        )
        return
    identity = context["identity"]
    assert caller == Caller(tenant=identity["accountId"], principal=identity["userArn"])
    assert caller.tenant
    assert caller.principal


def test_the_deadline_is_that_of_the_hosting() -> None:
    at = datetime(2026, 11, 21, 10, 0, 0, 250_000, tzinfo=UTC)
    deadline = {"deadline": round(at.timestamp() * 1_000)}
    assert BehindAdapter().ends_at(adapter_scope((LAMBDA_HEADER, deadline))) == at
    before = datetime.now(UTC)
    ends_at = BehindGateway().ends_at(gateway_scope({}, left_ms=90_500))
    after = datetime.now(UTC)
    assert ends_at is not None
    assert before <= ends_at - timedelta(milliseconds=90_500) <= after


@pytest.mark.parametrize("context", [None, {}, [], 7, {"deadline": None}, {"deadline": "soon"}, {"deadline": 1.5}])
def test_a_deadline_that_is_not_in_milliseconds_is_none(context: Any) -> None:
    assert BehindAdapter().ends_at(adapter_scope((LAMBDA_HEADER, context))) is None


@pytest.mark.parametrize("context", [None, {}, [], {"requestId": None}, {"requestId": 7}])
def test_a_request_id_that_is_not_text_is_none(context: Any) -> None:
    assert BehindGateway().request_id(gateway_scope(context)) is None
    assert BehindAdapter().request_id(adapter_scope((CONTEXT_HEADER, context))) is None
