"""A server that requires API keys: without a valid one, every route refuses every request.

Covers: services/access/authentication, functions
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.local.routes import ROUTES
from tests.fakes.web.issuer import AUDIENCE, ISSUER, Issuer
from tests.support.server.asgi_client import Answered, Raw, Served, bearer, key_for, served
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import StoreUnavailable
from turnstone.http.document.openapi import BEARER, openapi_document
from turnstone.http.errors import ISSUER_MESSAGE
from turnstone.services.access.authentication import Authenticator
from turnstone.store.access.api_keys import ApiKeyStore

AGENT = {"agent_config": {"model": "offline", "instructions": ""}}
ANN = Caller(tenant="acme", principal="ann")
BOB = Caller(tenant="other", principal="bob")


@dataclass(frozen=True)
class World:
    served: Served
    ann: str
    bob: str

    def request(self, method: str, path: str, body: Any = None, *headers: tuple[bytes, bytes]) -> Answered:
        sent = b"" if body is None else json.dumps(body).encode()
        return self.served.client.send(Raw(method, path.encode(), (sent,), headers))

    def request_as(self, token: str, method: str, path: str, body: Any = None) -> Answered:
        return self.request(method, path, body, bearer(token))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("callers")
    with served(folder, auth="api_keys") as running:
        yield World(running, key_for(running, ANN), key_for(running, BOB))


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if not route.is_open], ids=lambda route: f"{route.method} {route.path}"
)
def test_no_route_answers_without_a_key_or_changes_anything(world: World, route: Any) -> None:
    path = route.path.replace("{", "").replace("}", "")
    before = world.served.marks()
    for headers in ((), (bearer("ts_" + "A" * 43),), (bearer(world.ann), bearer(world.ann))):
        answer = world.request(route.method, path, AGENT, *headers)
        assert answer.status == 401, headers
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["x-should-retry"] == "false"
        assert "Authorization: Bearer" in answer.refusal()
    assert world.served.marks() == before


def test_a_key_gives_access_to_its_own_tenant_only(world: World) -> None:
    agent_id = world.request_as(world.ann, "POST", "/v1/agents", AGENT).json()["agent_id"]
    for _ in range(2):  # the second time it is cached
        assert world.request_as(world.ann, "GET", f"/v1/agents/{agent_id}").status == 200
        assert world.request_as(world.bob, "GET", f"/v1/agents/{agent_id}").status == 404


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
def test_the_document_requires_a_key_for_every_reader(world: World, path: str) -> None:
    """A caller may have the tenant and principal of callers of a server without keys."""
    namesake = key_for(world.served, LOCAL_CALLER)
    answers = [world.request_as(token, "GET", path) for token in (world.ann, namesake)]
    assert answers[0] == answers[1]
    if path == "/openapi.json":
        assert answers[0].json() == openapi_document(ROUTES, BEARER)
    else:
        assert b"www-authenticate" in answers[0].body


def test_with_keys_the_host_and_origin_of_a_request_do_not_matter(world: World) -> None:
    named = ((b"host", b"turnstone.example"), (b"origin", b"https://app.example"))
    assert world.request("GET", "/v1/version", None, bearer(world.ann), *named).status == 200
    assert world.request("GET", "/v1/version", None, *named).status == 401


def test_without_authentication_other_hosts_are_served_only_if_allowed(tmp_path: Path) -> None:
    named = ((b"host", b"turnstone.example"),)
    with served(tmp_path / "closed") as closed:
        assert closed.client.send(Raw("GET", b"/v1/version", headers=named)).status == 403
    with served(tmp_path / "open", allow_open=True) as opened:
        assert opened.client.send(Raw("GET", b"/v1/version", headers=named)).status == 200


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda sent: b"Bearer " + sent))
def test_any_invalid_authorization_header_is_a_401(world: World, sent: bytes) -> None:
    answer = world.request("GET", "/v1/version", None, (b"authorization", sent))
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_a_caller_without_a_key_is_refused_before_the_body_is_read(world: World) -> None:
    endless = Raw("POST", b"/v1/agents", (b"{",), hangs_up=True)
    assert world.served.client.send(endless).status == 401
    unknown = Raw("POST", b"/v1/agents", (b"{",), (bearer("ts_" + "A" * 43),), hangs_up=True)
    assert world.served.client.send(unknown).status == 401


def test_an_unreachable_store_is_a_503(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(ApiKeyStore, "find", away)
    answer = world.request_as("ts_" + "B" * 43, "GET", "/v1/version")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")


def test_an_unreachable_issuer_is_a_503_and_the_log_has_the_cause(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Issuer() as issuer:
        issuer.add("one")
        token = issuer.token("one")
    away = {"jwt_jwks_url": issuer.url, "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE, "jwt_claims": "tenant=org"}
    with served(tmp_path, auth="jwt", **away) as running:
        for _ in range(2):  # the second time the issuer is not called
            caplog.clear()
            answer = running.client.send(Raw("GET", b"/v1/version", headers=(bearer(token),)))
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert answer.json() == {"detail": ISSUER_MESSAGE, "code": "identity_unavailable"}
            assert "the issuer's keys can't be fetched: NewConnectionError" in caplog.text
            assert not [part for part in token.split(".") if part in caplog.text]


def test_an_unexpected_error_is_returned_without_its_text(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("inside")

    monkeypatch.setattr(Authenticator, "identify", broken)
    answer = world.request_as("ts_" + "C" * 43, "GET", "/v1/version")
    assert (answer.status, answer.refusal()) == (500, "internal server error")


def test_no_log_line_holds_a_token(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    unknown = "ts_" + "D" * 43
    assert world.request_as(world.ann, "POST", "/v1/agents", AGENT).status == 200
    assert world.request_as(unknown, "POST", "/v1/agents", AGENT).status == 401
    assert "POST /v1/agents 401" in caplog.text
    for token in (world.ann, unknown):
        assert token[3:] not in caplog.text
