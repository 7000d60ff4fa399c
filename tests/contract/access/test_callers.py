"""A server that wants API keys: nobody without one, on any route, whatever is sent in its place.

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
class Place:
    served: Served
    ann: str
    bob: str

    def ask(self, method: str, path: str, body: Any = None, *headers: tuple[bytes, bytes]) -> Answered:
        sent = b"" if body is None else json.dumps(body).encode()
        return self.served.client.send(Raw(method, path.encode(), (sent,), headers))

    def ask_as(self, token: str, method: str, path: str, body: Any = None) -> Answered:
        return self.ask(method, path, body, bearer(token))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder: Path = tmp_path_factory.mktemp("callers")
    with served(folder, auth="api_keys") as running:
        yield Place(running, key_for(running, ANN), key_for(running, BOB))


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if not route.is_open], ids=lambda route: f"{route.method} {route.path}"
)
def test_no_route_answers_without_a_key_or_changes_anything(place: Place, route: Any) -> None:
    path = route.path.replace("{", "").replace("}", "")
    before = place.served.marks()
    for headers in ((), (bearer("ts_" + "A" * 43),), (bearer(place.ann), bearer(place.ann))):
        answer = place.ask(route.method, path, AGENT, *headers)
        assert answer.status == 401, headers
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["x-should-retry"] == "false"
        assert "Authorization: Bearer" in answer.refusal()
    assert place.served.marks() == before


def test_a_key_opens_its_own_tenant_and_no_other(place: Place) -> None:
    agent_id = place.ask_as(place.ann, "POST", "/v1/agents", AGENT).json()["agent_id"]
    for _ in range(2):  # the second time it is known already
        assert place.ask_as(place.ann, "GET", f"/v1/agents/{agent_id}").status == 200
        assert place.ask_as(place.bob, "GET", f"/v1/agents/{agent_id}").status == 404


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
def test_the_document_asks_for_a_key_whoever_reads_it(place: Place, path: str) -> None:
    """Somebody may have the names that a server without keys gives to everybody."""
    namesake = key_for(place.served, LOCAL_CALLER)
    answers = [place.ask_as(token, "GET", path) for token in (place.ann, namesake)]
    assert answers[0] == answers[1]
    if path == "/openapi.json":
        assert answers[0].json() == openapi_document(ROUTES, BEARER)
    else:
        assert b"www-authenticate" in answers[0].body


def test_a_name_of_the_server_or_a_page_of_another_site_makes_no_difference_where_a_key_does(place: Place) -> None:
    named = ((b"host", b"turnstone.example"), (b"origin", b"https://app.example"))
    assert place.ask("GET", "/v1/version", None, bearer(place.ann), *named).status == 200
    assert place.ask("GET", "/v1/version", None, *named).status == 401


def test_without_authentication_everybody_is_served_only_where_somebody_said_so(tmp_path: Path) -> None:
    named = ((b"host", b"turnstone.example"),)
    with served(tmp_path / "closed") as closed:
        assert closed.client.send(Raw("GET", b"/v1/version", headers=named)).status == 403
    with served(tmp_path / "open", allow_open=True) as opened:
        assert opened.client.send(Raw("GET", b"/v1/version", headers=named)).status == 200


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda sent: b"Bearer " + sent))
def test_whatever_stands_in_the_header_the_answer_is_401(place: Place, sent: bytes) -> None:
    answer = place.ask("GET", "/v1/version", None, (b"authorization", sent))
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_who_is_nobody_is_refused_before_the_body_is_read(place: Place) -> None:
    endless = Raw("POST", b"/v1/agents", (b"{",), hangs_up=True)
    assert place.served.client.send(endless).status == 401
    unknown = Raw("POST", b"/v1/agents", (b"{",), (bearer("ts_" + "A" * 43),), hangs_up=True)
    assert place.served.client.send(unknown).status == 401


def test_a_store_that_is_away_is_told_as_such(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(ApiKeyStore, "find", away)
    answer = place.ask_as("ts_" + "B" * 43, "GET", "/v1/version")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")


def test_an_issuer_that_is_away_is_told_as_such_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Issuer() as issuer:
        issuer.add("one")
        token = issuer.token("one")
    away = {"jwt_jwks_url": issuer.url, "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE, "jwt_claims": "tenant=org"}
    with served(tmp_path, auth="jwt", **away) as running:
        for _ in range(2):  # the second time the issuer is not asked
            caplog.clear()
            answer = running.client.send(Raw("GET", b"/v1/version", headers=(bearer(token),)))
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert answer.json() == {"detail": ISSUER_MESSAGE, "code": "identity_unavailable"}
            assert "the issuer's keys can't be fetched: NewConnectionError" in caplog.text
            assert not [part for part in token.split(".") if part in caplog.text]


def test_what_nobody_expected_is_told_without_a_word_of_the_inside(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("inside")

    monkeypatch.setattr(Authenticator, "identify", broken)
    answer = place.ask_as("ts_" + "C" * 43, "GET", "/v1/version")
    assert (answer.status, answer.refusal()) == (500, "internal server error")


def test_no_log_line_holds_a_token(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    unknown = "ts_" + "D" * 43
    assert place.ask_as(place.ann, "POST", "/v1/agents", AGENT).status == 200
    assert place.ask_as(unknown, "POST", "/v1/agents", AGENT).status == 401
    assert "POST /v1/agents 401" in caplog.text
    for token in (place.ann, unknown):
        assert token[3:] not in caplog.text
