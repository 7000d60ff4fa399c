"""Who a request is from: whom the gateway names, and nobody whom the client names."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstone.domain.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import Unauthenticated
from turnstone.http.surroundings import (
    CONTEXT_HEADER,
    LAMBDA_HEADER,
    BehindAdapter,
    BehindGateway,
    OneMachine,
    Surroundings,
    caller_of,
)

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
    "identity beside its place": IDENTITY,
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
    "what an authorizer says": {"authorizer": IDENTITY, "identity": {}},
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


@pytest.mark.parametrize("context", NOBODY.values(), ids=NOBODY)
def test_who_is_not_named_in_full_is_nobody(context: Any) -> None:
    places: list[tuple[Surroundings, dict[str, Any]]] = [
        (BehindGateway(), gateway_scope(context)),
        (BehindAdapter(), adapter_scope((CONTEXT_HEADER, context))),
    ]
    for place, scope in places:
        with pytest.raises(Unauthenticated):
            place.caller(scope)


@pytest.mark.parametrize(
    "header",
    [b"", b"{", b"null", b"\xff\xfe\xff", b"NaN", b"{'identity': {}}", b"[" * 100_000],
    ids=["empty", "cut off", "null", "no text", "NaN", "no JSON", "nested too deep"],
)
def test_a_header_that_is_no_json_names_nobody(header: bytes) -> None:
    with pytest.raises(Unauthenticated):
        BehindAdapter().caller(adapter_scope((CONTEXT_HEADER, header)))
    assert BehindAdapter().request_id(adapter_scope((CONTEXT_HEADER, header))) is None
    assert BehindAdapter().ends_at(adapter_scope((LAMBDA_HEADER, header))) is None


def test_a_header_that_stands_twice_names_nobody() -> None:
    """One of them may be the client's."""
    context = {"identity": IDENTITY, "requestId": "r"}
    twice = adapter_scope((CONTEXT_HEADER, context), (CONTEXT_HEADER, context))
    with pytest.raises(Unauthenticated):
        BehindAdapter().caller(twice)
    assert BehindAdapter().request_id(twice) is None
    deadline = {"deadline": 1_700_000_000_000}
    assert BehindAdapter().ends_at(adapter_scope((LAMBDA_HEADER, deadline), (LAMBDA_HEADER, deadline))) is None


def test_without_the_header_nobody_calls() -> None:
    with pytest.raises(Unauthenticated):
        BehindAdapter().caller(adapter_scope())


def test_what_a_client_says_of_itself_counts_for_nothing_where_the_gateways_event_is_at_hand() -> None:
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
    assert (OneMachine().ends_at(local), OneMachine().request_id(local)) == (None, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["identity", "accountId", "userArn", "x"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(JSON)
def test_whatever_the_context_it_names_a_whole_caller_or_nobody(context: Any) -> None:
    try:
        caller = BehindAdapter().caller(adapter_scope((CONTEXT_HEADER, context)))
    except Unauthenticated:
        return
    identity = context["identity"]
    assert caller == Caller(tenant=identity["accountId"], principal=identity["userArn"])
    assert caller.tenant
    assert caller.principal


def test_the_deadline_is_what_the_place_says() -> None:
    at = datetime(2026, 11, 21, 10, 0, 0, 250_000, tzinfo=UTC)
    deadline = {"deadline": round(at.timestamp() * 1_000)}
    assert BehindAdapter().ends_at(adapter_scope((LAMBDA_HEADER, deadline))) == at
    before = datetime.now(UTC)
    ends_at = BehindGateway().ends_at(gateway_scope({}, left_ms=90_500))
    after = datetime.now(UTC)
    assert ends_at is not None
    assert before <= ends_at - timedelta(milliseconds=90_500) <= after


@pytest.mark.parametrize("told", [None, {}, [], 7, {"deadline": None}, {"deadline": "soon"}, {"deadline": 1.5}])
def test_a_deadline_that_is_no_number_of_milliseconds_is_none(told: Any) -> None:
    assert BehindAdapter().ends_at(adapter_scope((LAMBDA_HEADER, told))) is None


@pytest.mark.parametrize("told", [None, {}, [], {"requestId": None}, {"requestId": 7}])
def test_a_request_id_that_is_no_text_is_none(told: Any) -> None:
    assert BehindGateway().request_id(gateway_scope(told)) is None
    assert BehindAdapter().request_id(adapter_scope((CONTEXT_HEADER, told))) is None
