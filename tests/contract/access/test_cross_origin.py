"""Pages of listed origins call the API from a browser and read its answers; no other page does.

Covers: http/origins
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from functions.local.routes import ROUTES, UNSERVED
from tests.support.server.asgi_client import Answered, Raw, Served, bearer, key_for, served
from tests.support.server.document import ROUTES as DOCUMENTED
from turnstone.domain.access.caller import Caller
from turnstone.http.document.openapi import BEARER, openapi_document
from turnstone.http.origins.cross_origin import EXPOSED, METHODS, MOST_NAMES_BYTES

APP, DEV = b"https://app.example", b"http://localhost:5173"
AGENT = {"agent_config": {"model": "offline", "instructions": ""}}
MARKS = {"access-control-allow-origin", "access-control-expose-headers"}
# Source: the Fetch standard: a page reads these without the server's leave
SAFE = {"cache-control", "content-language", "content-length", "content-type", "expires", "last-modified", "pragma"}
UNLISTED = [
    b"https://evil.example", b"null", b"*", b"https://app.example.evil.example", b"https://evil-app.example",
    b"https://sub.app.example", b"http://app.example", b"https://app.example:8443", b"https://app.example/",
    b"HTTPS://APP.EXAMPLE", b"https://app.example,http://localhost:5173", b"", b"file://",
]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("cross-origin")
    origins = f"{APP.decode()},{DEV.decode()}"
    with served(folder, auth="api_keys", max_body_bytes=1_000, cors_origins=origins) as running:
        yield running


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("same-origin")
    with served(folder, auth="api_keys", max_body_bytes=1_000) as running:
        yield running


@pytest.fixture(scope="module")
def key(server: Served) -> str:
    return key_for(server, Caller(tenant="t", principal="ann"))


def preflight(path: str, origin: bytes = APP, *more: tuple[bytes, bytes], method: bytes = b"POST") -> Raw:
    headers = ((b"origin", origin), (b"access-control-request-method", method), *more)
    return Raw("OPTIONS", path.encode(), headers=headers)


def marks(answered: Answered) -> dict[str, str]:
    return {name: value for name, value in answered.headers.items() if name.startswith("access-control-")}


def names(text: str) -> set[str]:
    return {name.strip().lower() for name in text.split(",")}


PATHS = sorted({path for route in (*ROUTES, *UNSERVED[:5]) for path in route.paths})


@pytest.mark.parametrize("path", [*PATHS, "/nowhere", "/v1/agents/a%20b/session/c/turn"])
def test_a_preflight_is_answered_on_every_path_without_an_identity_or_a_body(server: Served, path: str) -> None:
    requested = (b"access-control-request-headers", b"authorization,content-type,x-stainless-os")
    answered = server.client.send(preflight(path.replace("{", "").replace("}", ""), DEV, requested))
    assert (answered.status, answered.body) == (204, b"")
    assert answered.headers == {
        "access-control-allow-origin": DEV.decode(),
        "access-control-allow-methods": METHODS,
        "access-control-allow-headers": requested[1].decode(),
        "access-control-max-age": "7200",
        "vary": "Origin, Access-Control-Request-Headers",
    }


def test_a_preflight_allows_every_method_of_a_route() -> None:
    assert {route.method for route in ROUTES} <= {name.upper() for name in names(METHODS)}


@pytest.mark.parametrize(
    "requested",
    [b"x y", b"authorization,", b",", b"a:b", b"a\r\nset-cookie: b", b"\xe4", b"a" * (MOST_NAMES_BYTES + 1), b""],
)
def test_a_preflight_allows_no_header_whose_name_is_none(server: Served, requested: bytes) -> None:
    answered = server.client.send(preflight("/v1/agents", APP, (b"access-control-request-headers", requested)))
    assert "access-control-allow-headers" not in answered.headers


@pytest.mark.parametrize("origin", UNLISTED)
def test_a_request_of_an_unlisted_origin_is_served_as_without_the_setting(
    server: Served, closed: Served, origin: bytes
) -> None:
    requests = [
        preflight("/v1/agents", origin),
        Raw("OPTIONS", b"/v1/agents", headers=((b"origin", origin),)),
        Raw("GET", b"/v1/health", headers=((b"origin", origin),)),
        Raw("GET", b"/v1/agents", headers=((b"origin", origin),)),
        Raw("GET", b"/nowhere", headers=((b"origin", origin),)),
    ]
    for request in requests:
        answered, as_before = server.client.send(request), closed.client.send(request)
        assert marks(answered) == {}
        assert answered.headers == {**as_before.headers, "vary": "Origin"}
        assert (answered.status, answered.body) == (as_before.status, as_before.body)


def test_two_origins_in_one_request_are_none(server: Served) -> None:
    twice = preflight("/v1/agents", APP, (b"origin", DEV))
    assert (server.client.send(twice).status, marks(server.client.send(twice))) == (405, {})


def test_without_the_setting_no_answer_names_an_origin(closed: Served) -> None:
    for request in (preflight("/v1/agents"), Raw("GET", b"/v1/health", headers=((b"origin", APP),))):
        answered = closed.client.send(request)
        assert (marks(answered), "vary" in answered.headers) == ({}, False)


def test_errors_can_be_read(server: Served, key: str) -> None:
    of_page = ((b"origin", APP), bearer(key))
    requests = {
        401: Raw("GET", b"/v1/agents", headers=of_page[:1]),
        404: Raw("GET", b"/nowhere", headers=of_page),
        405: Raw("PUT", b"/v1/agents", headers=of_page),
        400: Raw("POST", b"/v1/agents", (b"{",), of_page),
        413: Raw("POST", b"/v1/agents", (b"x" * 1_001,), of_page),
        501: Raw("POST", b"/v1/telemetry/traces", (b"{}",), of_page),
    }
    for status, request in requests.items():
        answered = server.client.send(request)
        assert answered.status == status
        assert marks(answered).keys() == MARKS
        assert (answered.headers["access-control-allow-origin"], answered.headers["vary"]) == (APP.decode(), "Origin")
        assert "access-control-allow-credentials" not in answered.headers


def test_an_internal_error_can_be_read(
    server: Served, key: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(type(server.server.core.agents), "create", fail)
    request = Raw("POST", b"/v1/agents", (json.dumps(AGENT).encode(),), ((b"origin", APP), bearer(key)))
    answered = server.client.send(request)
    assert (answered.status, marks(answered).keys()) == (500, MARKS)


def test_streams_can_be_read(server: Served, key: str) -> None:
    of_page = ((b"origin", APP), bearer(key))

    def post(path: str, body: object) -> Answered:
        return server.client.send(Raw("POST", path.encode(), (json.dumps(body).encode(),), of_page))

    agent = post("/v1/agents", AGENT).json()["agent_id"]
    session = post(f"/v1/agents/{agent}/session", {"session_name": "s"}).json()["session_id"]
    turn = {"messages": [{"role": "user", "content": "hello"}], "stream": True}
    answered = post(f"/v1/agents/{agent}/session/{session}/turn", turn)
    assert answered.headers["content-type"].startswith("text/event-stream")
    assert marks(answered) == {
        "access-control-allow-origin": APP.decode(),
        "access-control-expose-headers": EXPOSED,
    }
    assert b"turn_complete" in answered.body


def test_a_page_reads_every_header_that_an_answer_declares() -> None:
    document = openapi_document(DOCUMENTED, BEARER)
    declared = {
        name.lower()
        for operations in document["paths"].values()
        for operation in operations.values()
        for response in operation["responses"].values()
        for name in _resolved(response, document).get("headers", {})
    }
    beside = {"allow", "content-disposition"}  # of refused methods, and of attachments
    assert names(EXPOSED) == (declared | beside) - SAFE


def test_an_answer_that_differs_by_another_header_too_names_both(server: Served) -> None:
    answered = server.client.send(Raw("GET", b"/", headers=((b"origin", APP),)))
    assert answered.headers["vary"] == "accept, Origin"


# ---- without authentication


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("listed")
    with served(folder, cors_origins=APP.decode()) as running:
        yield running


def test_a_server_without_authentication_serves_listed_origins(unguarded: Served) -> None:
    body = (json.dumps(AGENT).encode(),)
    answered = unguarded.client.send(Raw("POST", b"/v1/agents", body, ((b"origin", APP),)))
    assert (answered.status, marks(answered).keys()) == (200, MARKS)
    refused = unguarded.client.send(Raw("POST", b"/v1/agents", body, ((b"origin", b"https://evil.example"),)))
    assert (refused.status, marks(refused)) == (403, {})


def test_a_listed_origin_uses_the_server_by_a_local_name_only(unguarded: Served) -> None:
    before = unguarded.marks()
    request = Raw("POST", b"/v1/agents", (json.dumps(AGENT).encode(),), ((b"origin", APP), (b"host", b"evil.example")))
    answered = unguarded.client.send(request)
    assert (answered.status, marks(answered).keys()) == (403, MARKS)
    assert unguarded.marks() == before


def _resolved(response: dict[str, object], document: dict[str, Any]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = response  # type: ignore[assignment]
    if "$ref" in response:
        found = document["components"]["responses"][str(response["$ref"]).rpartition("/")[2]]
    return found
