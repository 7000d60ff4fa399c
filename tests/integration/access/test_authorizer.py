"""The authorizer passes a token's caller to the gateway, and the routes' functions trust the gateway.

Covers: functions/authorizer, edge/authorizer, services/access/authentication
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from functions.agents import create_agent, get_agent
from functions.authorizer import authorize
from tests.fakes.web.issuer import AUDIENCE, ISSUER, Issuer
from tests.support.aws.aws_events import Context, load_event
from tests.support.aws.state_machine import TABLE, Bench
from turnstone.adapters.aws.aws_clients import AwsClients
from turnstone.bootstrap.places.operator import operated_keys
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import IssuerUnavailable, StoreUnavailable
from turnstone.edge.authorizer import Authorizer
from turnstone.edge.gateway import LambdaHandler

ANN = Caller(tenant="acme", principal="ann", roles=("admin", "stäff"), teams=("red",), projects=(), namespaces=("n",))
STAGE = "arn:aws:execute-api:eu-central-1:123456789012:a1b2c3d4e5/live"
pytestmark = pytest.mark.usefixtures("in_a_lambda")


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench(lambda payload: pytest.fail(f"the worker was invoked with {payload}")) as bench:
        yield bench


@pytest.fixture
def environment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of the authorizer that the template makes."""
    for name, value in bench.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TURNSTONE_MODEL_URL", raising=False)
    monkeypatch.setenv("TURNSTONE_AUTH", "api_keys")
    return monkeypatch


@pytest.fixture
def token(environment: pytest.MonkeyPatch) -> str:
    """An API key of Ann's in the table, made as the command makes it."""
    with operated_keys() as keys:
        return keys.create(ANN, "laptop")[1]


def authorizer() -> Authorizer:
    return Authorizer("another module")


def event_with(authorization: str | None) -> dict[str, Any]:
    """Return the event of a request with this header."""
    event = load_event("authorize")
    del event["headers"]["Authorization"], event["multiValueHeaders"]["Authorization"]
    if authorization is not None:
        event["headers"]["Authorization"] = authorization
        event["multiValueHeaders"]["Authorization"] = [authorization]
    return event


def is_refused(event: dict[str, Any]) -> bool:
    """Return whether the gateway would answer 401: it does so for exactly this text."""
    try:
        authorizer()(event, Context())
    except Exception as refused:  # noqa: BLE001 - the gateway goes by its text
        outcome = type(refused), str(refused)
    else:
        return False
    assert outcome == (Exception, "Unauthorized")
    return True


def test_the_event_is_one_that_the_gateway_sends() -> None:
    event = load_event("authorize")
    assert (event["type"], event["methodArn"]) == ("REQUEST", f"{STAGE}/POST/v1/agents")
    assert event["headers"]["Authorization"] == event["multiValueHeaders"]["Authorization"][0]
    assert "authorizer" not in event["requestContext"]


def test_a_key_lets_its_caller_use_the_whole_stage_because_the_gateway_caches(token: str) -> None:
    answer = authorizer()(event_with(f"Bearer {token}"), Context())
    (statement,) = answer["policyDocument"]["Statement"]
    assert answer["principalId"] == "ann"
    assert statement == {"Action": "execute-api:Invoke", "Effect": "Allow", "Resource": f"{STAGE}/*"}
    assert answer["policyDocument"]["Version"] == "2012-10-17"
    assert all(isinstance(value, str) for value in answer["context"].values())
    assert json.loads(json.dumps(answer)) == answer
    assert token not in json.dumps(answer)


@pytest.mark.parametrize("spelling", ["authorization", "AUTHORIZATION"])
def test_the_header_is_found_whatever_its_case(token: str, spelling: str) -> None:
    event = event_with(None)
    event["headers"][spelling] = f"Bearer {token}"
    event["multiValueHeaders"][spelling] = [f"Bearer {token}"]
    assert not is_refused(event)
    del event["multiValueHeaders"]
    assert not is_refused(event)


def test_an_event_with_the_placeholder_of_the_file_is_refused(environment: pytest.MonkeyPatch) -> None:
    assert is_refused(load_event("authorize"))


def test_a_request_without_exactly_one_valid_token_is_refused(token: str) -> None:
    for authorization in (None, "", "Bearer", f"Basic {token}", token, f"Bearer {token}x", f"Bearer {token[:-1]}"):
        assert is_refused(event_with(authorization)), authorization
    twice = event_with(f"Bearer {token}")
    twice["multiValueHeaders"]["Authorization"] *= 2
    other_case = event_with(f"Bearer {token}")
    other_case["multiValueHeaders"]["authorization"] = ["Bearer x"]
    assert is_refused(twice)
    assert is_refused(other_case)


@pytest.mark.parametrize(
    "headers", [None, [], "Bearer x", {}, {"Authorization": None}, {"Authorization": ["Bearer x"]}]
)
@pytest.mark.parametrize("several", [None, {}, {"Authorization": "Bearer x"}, {"Authorization": [None]}])
def test_an_event_of_another_shape_is_refused(environment: pytest.MonkeyPatch, headers: Any, several: Any) -> None:
    assert is_refused({**load_event("authorize"), "headers": headers, "multiValueHeaders": several})


def test_a_revoked_key_is_refused_at_once_because_only_the_gateway_caches(token: str) -> None:
    authorize = authorizer()
    authorize(event_with(f"Bearer {token}"), Context())
    with operated_keys() as keys:
        for key in keys.list("acme"):
            keys.revoke("acme", key.key_id)
    with pytest.raises(Exception, match=r"^Unauthorized$"):
        authorize(event_with(f"Bearer {token}"), Context())


def test_an_unavailable_table_refuses_no_caller(token: str, environment: pytest.MonkeyPatch) -> None:
    """The gateway answers 503 then, and the client may try again."""
    environment.setenv("TURNSTONE_TABLE", "no-such-table")
    with pytest.raises(StoreUnavailable):
        authorizer()(event_with(f"Bearer {token}"), Context())


def test_an_unavailable_issuer_refuses_no_caller_and_its_reason_is_in_the_log(environment: pytest.MonkeyPatch) -> None:
    """The log of a function has the error it raises."""
    with Issuer() as issuer:
        issuer.add("one")
        token, url = issuer.token("one"), issuer.url
    settings = {"ISSUER": ISSUER, "AUDIENCE": AUDIENCE, "JWKS_URL": url, "TENANT": "acme"}
    environment.setenv("TURNSTONE_AUTH", "jwt")
    for name, value in settings.items():
        environment.setenv(f"TURNSTONE_JWT_{name}", value)
    with pytest.raises(IssuerUnavailable, match=r"can't be fetched: NewConnectionError$"):
        authorizer()(event_with(f"Bearer {token}"), Context())


def test_the_authorizer_only_gets_items(token: str, bench: Bench, environment: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    make = AwsClients.client

    def noted(self: AwsClients, service: str) -> Any:
        client = make(self, service)
        client.meta.events.register("before-call.*.*", lambda model, **_: called.append(model.name))
        return client

    environment.setattr(AwsClients, "client", noted)
    authorizer()(event_with(f"Bearer {token}"), Context())
    assert called == ["GetItem"]


def test_a_token_of_an_issuer_is_accepted_by_the_same_code(environment: pytest.MonkeyPatch) -> None:
    with Issuer() as issuer:
        issuer.add("one")
        for name, value in {
            "AUTH": "jwt",
            "JWT_ISSUER": ISSUER,
            "JWT_AUDIENCE": AUDIENCE,
            "JWT_JWKS_URL": issuer.url,
            "JWT_CLAIMS": "tenant=org,roles=groups",
        }.items():
            environment.setenv(f"TURNSTONE_{name}", value)
        answer = authorizer()(event_with(f"Bearer {issuer.token('one', groups=['admin'])}"), Context())
        assert answer["context"]["tenant"] == "acme"
        assert json.loads(answer["context"]["roles"]) == ["admin"]
        assert is_refused(event_with(f"Bearer {issuer.token('one', exp=1)}"))


def test_the_functions_accept_the_caller_that_the_authorizer_names(
    token: str, bench: Bench, environment: pytest.MonkeyPatch
) -> None:
    """The whole way: key, authorizer, gateway, route; another tenant's caller finds nothing there."""
    identity = authorizer()(event_with(f"Bearer {token}"), Context())["context"]
    environment.delenv("TURNSTONE_AUTH")
    created = _answer_of(create_agent, "create_agent", identity)
    agent_id = json.loads(created["body"])["agent_id"]
    stored = {item["pk"]["S"] for item in bench.dynamo.scan(TableName=TABLE)["Items"]}
    assert f"acme|agent:{agent_id}" in stored
    assert _answer_of(get_agent, "get_agent", identity, agent_id)["statusCode"] == 200
    assert _answer_of(get_agent, "get_agent", {**identity, "tenant": "other"}, agent_id)["statusCode"] == 404
    assert _answer_of(get_agent, "get_agent", {}, agent_id)["statusCode"] == 401


def _answer_of(module: Any, name: str, authorizer: dict[str, str], agent_id: str | None = None) -> dict[str, Any]:
    event = load_event(name)
    event["requestContext"]["authorizer"] = authorizer
    if agent_id is not None:
        event["path"] = f"/v1/agents/{agent_id}"
    return LambdaHandler("another module", module.ROUTE, loads="agents")(event, Context())


def test_no_log_line_holds_a_token(
    token: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    authorizer()(event_with(f"Bearer {token}"), Context())
    assert is_refused(event_with(f"Bearer {token[:-1]}x"))
    written = capsys.readouterr()
    assert token[3:-1] not in caplog.text + written.out + written.err


def test_the_function_of_the_template_is_this_one() -> None:
    assert isinstance(authorize.handler, Authorizer)
