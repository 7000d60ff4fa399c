"""Calls that are run at the URL of their definition: the request, secrets that are not sent, and the result.

Covers: adapters/tools/remote/remote, adapters/tools/remote/remote_answers, adapters/tools/remote/url_templates
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.tools.tool_calls import ASKER, invocation
from tests.fakes.web.web_server import WebAnswer, WebRequest, WebServer, json_answer
from turnstone.adapters.fetching.allowing import Allowed
from turnstone.adapters.fetching.fetcher import GuardedFetcher
from turnstone.adapters.fetching.messages import Fetched, FetchRequest
from turnstone.adapters.tools.remote.remote import RemoteToolbox
from turnstone.adapters.tools.remote.remote_answers import MAX_TEXT_CHARACTERS
from turnstone.adapters.tools.remote.url_templates import filled
from turnstone.domain.errors import ToolFailed
from turnstone.domain.tools.agent_tools import RemoteExecution
from turnstone.domain.tools.tool_runs import ToolOptions, ToolResult

SECRET = "Bearer very-secret-token"


def echoed(request: WebRequest) -> WebAnswer:
    return json_answer({"method": request.method, "target": request.target, "body": request.body.decode()})


@pytest.fixture
def server() -> Iterator[WebServer]:
    with WebServer(echoed) as server:
        yield server


def run(server: WebServer, path: str, method: str, arguments: dict[str, Any], **definition: Any) -> ToolResult:
    remote = {"url": server.url + path, "method": method, **definition}
    box = RemoteToolbox(GuardedFetcher(Allowed.of([("127.0.0.1", server.port)])))
    return box.invoke(called(arguments, remote))


def called(arguments: dict[str, Any], remote: dict[str, Any], **more: Any) -> Any:
    options = ToolOptions(remote_execution=RemoteExecution.model_validate(remote))
    return invocation("get_weather", arguments, options, **more)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_call_s_arguments_come_into_the_query_after_the_definition_s(server: WebServer, method: str) -> None:
    arguments = {"city": "Köln & Bonn", "days": 3, "raw": True, "tags": ["a", "b"], "at": {"x": 1}, "none": None}
    run(server, "/weather?v=1", method, arguments, params={"units": "metric", "lang": ["de", "en"]})
    (request,) = server.requests
    assert (request.method, request.path, request.body) == (method, "/weather", b"")
    assert list(request.params.items()) == [
        ("v", ["1"]),
        ("units", ["metric"]),
        ("lang", ["de", "en"]),
        ("city", ["Köln & Bonn"]),
        ("days", ["3"]),
        ("raw", ["true"]),
        ("tags", ["a", "b"]),
        ("at", ['{"x": 1}']),
    ]


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_call_s_arguments_come_into_the_body_after_the_definition_s(server: WebServer, method: str) -> None:
    body = {"account": 7, "options": {"deep": True}}
    run(server, "/orders", method, {"item": "Tür", "count": 2}, params={"v": 2}, body=body)
    (request,) = server.requests
    assert (request.method, request.target, request.headers["content-type"]) == (
        method,
        "/orders?v=2",
        "application/json",
    )
    assert list(request.json_body.items()) == [*body.items(), ("item", "Tür"), ("count", 2)]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_argument_does_not_replace_a_fixed_value_of_the_definition(server: WebServer, method: str) -> None:
    fixed = {"account": "ours"}
    run(server, "/x?mode=safe", method, {"account": "theirs", "mode": "evil"}, params=fixed, body=fixed)
    (request,) = server.requests
    assert (request.params["account"], request.params["mode"]) == (["ours"], ["safe"])
    assert method == "GET" or request.json_body == {**fixed, "mode": "evil"}


def test_an_argument_in_the_url_is_encoded_and_not_sent_again(server: WebServer) -> None:
    arguments = {"city": "a/b?c#d&e é", "day": 5, "q": "x&y=z", "left": "over"}
    run(server, "/in/{city}/on-{day}?q={q}", "GET", arguments)
    run(server, "/in/{city}/on-{day}?q={q}", "POST", arguments)
    got, posted = server.requests
    assert got.target == "/in/a%2Fb%3Fc%23d%26e%20%C3%A9/on-5?q=x%26y%3Dz&left=over"
    assert posted.target == got.target.removesuffix("&left=over")
    assert posted.json_body == {"left": "over"}


@pytest.mark.parametrize(
    "url",
    [
        "https://{host}/",
        "https://api.{host}/x",
        "https://good.test:{host}/",
        "https://good.test{host}",
        "https://good.test:80{host}/x",
        "https://user:{host}@good.test/",
        "{host}://good.test/",
        "https:{host}",
        "//{host}/",
        "{host}",
        "ftp://good.test/{host}",
        "https://good.test%{host}/",
        "https://good.test/%{host}",
        "https://good.test/%2{host}/x",
    ],
)
def test_an_argument_may_not_fill_the_origin_of_the_url(url: str) -> None:
    with pytest.raises(ToolFailed, match=r"url"):
        filled(url, {"host": "evil.test"})


@pytest.mark.parametrize(
    "value",
    ["", ".", "..", "../x", "x/../..", "..\\x", "a/./b", "..;a", " .. ", "../", "/..", None, {"a": 1}, ["a"], "\ud800"],
)
def test_an_argument_that_would_lead_to_another_path_is_refused(value: object) -> None:
    with pytest.raises(ToolFailed, match="'name'"):
        filled("https://good.test/users/{name}/posts", {"name": value})


def test_dots_that_are_made_of_two_arguments_or_of_one_and_the_url_are_refused() -> None:
    for url, arguments in (
        ("https://good.test/a/{x}{y}/b", {"x": ".", "y": "."}),
        ("https://good.test/a/.{x}", {"x": "."}),
        ("https://good.test/a/%2e{x}", {"x": "."}),
        ("https://good.test/a/{x}%2f..", {"x": "b"}),
    ):
        with pytest.raises(ToolFailed, match="leads to another path"):
            filled(url, arguments)


def test_an_argument_that_is_missing_is_named() -> None:
    with pytest.raises(ToolFailed, match="'city'"):
        filled("https://good.test/{city}", {"town": "x"})


@given(st.text(min_size=1), st.text())
def test_any_text_of_an_argument_stays_in_its_segment_and_its_parameter(name: str, query: str) -> None:
    try:
        url = filled("https://good.test:8443/users/{name}/posts?q={query}&v=1", {"name": name, "query": query}).url
    except ToolFailed:
        return
    assert url.isascii()
    assert url.isprintable()
    origin, path, query_string = url[:22], *url[22:].split("?")
    assert origin == "https://good.test:8443"
    assert path.split("/")[1::2] == ["users", "posts"]
    assert [part.partition("=")[0] for part in query_string.split("&")] == ["q", "v"]
    assert not set("#\\ {}") & set(url)


def test_headers_of_the_definition_are_sent_and_so_is_the_key_of_the_call(server: WebServer) -> None:
    headers = {"Authorization": SECRET, "X-Version": 2, "content-type": "application/vnd.x+json"}
    run(server, "/x", "POST", {}, headers=headers)
    (request,) = server.requests
    sent = request.headers
    assert (sent["authorization"], sent["x-version"], sent["content-type"]) == (SECRET, "2", "application/vnd.x+json")
    assert sent["idempotency-key"] == "turn:1:c1"


@pytest.mark.parametrize("key", ["turn:1:cäll", "a\r\nb", "k" * 300, "", "\ud800"])
def test_a_key_invalid_in_a_header_is_sent_as_a_stable_hash(key: str) -> None:
    requests = list[FetchRequest]()
    remote = {"url": "https://good.test/", "method": "POST"}
    for _ in range(2):
        RemoteToolbox(Recording(requests)).invoke(called({}, remote, idempotency_key=key))
    first, again = (request.headers["Idempotency-Key"] for request in requests)
    assert first == again
    assert len(first) == 64
    assert first.isalnum()


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "internal.test"},
        {"host": "internal.test"},
        {"Content-Length": "5"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "x"},
        {"Idempotency-Key": "always"},
        {"X-A": "1", "x-a": "2"},
    ],
)
def test_headers_that_frame_a_request_or_contradict_each_other_are_refused(headers: dict[str, str]) -> None:
    requests = list[FetchRequest]()
    with pytest.raises(ToolFailed, match="header"):
        RemoteToolbox(Recording(requests)).invoke(
            called({}, {"url": "https://good.test/", "method": "GET", "headers": headers})
        )
    assert not requests


@pytest.mark.parametrize(
    ("body", "media_type", "expected"),
    [
        (b'{"a": 1}', "application/json", '{"a": 1}'),
        (b'{"a": 1}', "application/problem+json; charset=utf-8", '{"a": 1}'),
        ("Straße".encode("latin-1"), "text/plain; charset=ISO-8859-1", "Straße"),
        (b"<a/>", "application/xml", "<a/>"),
        (b"untold", None, "untold"),
        (b"\xff.", "text/plain", "\ufffd."),
        (b"", None, "HTTP 200, without content"),
    ],
)
def test_a_text_is_returned_to_the_model(body: bytes, media_type: str | None, expected: str) -> None:
    with WebServer(lambda _: WebAnswer(200, body, media_type)) as server:
        result = run(server, "/", "GET", {})
    assert (result.content, result.files, result.metadata) == (expected, (), {"status": 200})


@pytest.mark.parametrize(
    ("body", "media_type", "name", "kept"),
    [
        (b"%PDF-1.7", "application/pdf", "get_weather.pdf", "application/pdf"),
        (b"\x89PNG", "image/png", "get_weather.png", "image/png"),
        (b"\x00\x01", None, "get_weather.bin", "application/octet-stream"),
        (b"\xff\xfe", "application/octet-stream", "get_weather.bin", "application/octet-stream"),
        (b"\xff", "application/x-../../odd", "get_weather.bin", "application/octet-stream"),
    ],
)
def test_content_other_than_text_becomes_a_file(body: bytes, media_type: str | None, name: str, kept: str) -> None:
    with WebServer(lambda _: WebAnswer(200, body, media_type)) as server:
        result = run(server, "/", "GET", {})
    (file,) = result.files
    assert (file.name, file.mime_type, file.body) == (name, kept, body)
    assert name in str(result.content)


def test_a_file_s_name_has_no_folders_whatever_its_tool_is_called() -> None:
    answer = Fetched(200, "image/png", None, b"x", "https://good.test/")
    options = ToolOptions(remote_execution=RemoteExecution(url="https://good.test/", method="GET"))
    call = invocation("../../etc/pass wd" + "x" * 100, {}, options)
    (file,) = RemoteToolbox(Recording([], answer)).invoke(call).files
    assert file.name.startswith("_etc_pass_wdx")
    assert len(file.name) < 80


def test_a_long_text_is_cut_with_a_note() -> None:
    with WebServer(lambda _: WebAnswer(200, b"x" * (MAX_TEXT_CHARACTERS + 5), "text/plain")) as server:
        content = str(run(server, "/", "GET", {}).content)
    assert content.endswith(f"x\n[cut: the answer has {MAX_TEXT_CHARACTERS + 5} characters]")


@pytest.mark.parametrize("status", [304, 400, 404, 500])
def test_an_error_fails_the_call_with_its_text_and_without_the_headers_secrets(status: int) -> None:
    error = json.dumps({"error": "no such city", "you_sent": SECRET}) + "x" * 5_000
    answer = WebAnswer(status, b"" if status == 304 else error.encode())
    with WebServer(lambda _: answer) as server, pytest.raises(ToolFailed, match=f"HTTP {status}") as caught:
        run(server, "/", "GET", {}, headers={"Authorization": SECRET})
    assert SECRET not in str(caught.value)
    assert status == 304 or "no such city" in str(caught.value)
    assert len(str(caught.value)) < 700


def test_private_addresses_are_refused_before_a_connection(server: WebServer) -> None:
    box = RemoteToolbox(GuardedFetcher())
    with pytest.raises(ToolFailed, match="TURNSTONE_FETCH_ALLOW"):
        box.invoke(called({}, {"url": f"{server.url}/latest/meta-data", "method": "GET"}))
    assert server.requests == []


def test_a_redirect_to_a_forbidden_address_is_refused() -> None:
    with WebServer(echoed) as inner:
        moved = WebAnswer(302, headers={"Location": f"{inner.url}/admin"})
        with WebServer(lambda _: moved) as outer, pytest.raises(ToolFailed, match="TURNSTONE_FETCH_ALLOW"):
            run(outer, "/", "GET", {})
        assert inner.requests == []


def test_a_silent_server_is_waited_for_until_the_calls_timeout() -> None:
    is_over = threading.Event()

    def silent(_: WebRequest) -> WebAnswer:
        is_over.wait(10)
        return WebAnswer()

    with WebServer(silent) as server:
        box = RemoteToolbox(GuardedFetcher(Allowed.of([("127.0.0.1", server.port)])))
        with pytest.raises(ToolFailed):
            box.invoke(called({}, {"url": server.url, "method": "GET"}, timeout_s=0.1))
        is_over.set()


def test_a_call_without_a_remote_execution_fails() -> None:
    with pytest.raises(ToolFailed, match="'get_weather'"):
        RemoteToolbox(Recording([])).invoke(invocation("get_weather", {}))
    assert RemoteToolbox(Recording([])).tools(ASKER) == ()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_arguments_that_are_no_json_are_refused(value: object) -> None:
    for method in ("POST", "GET") if value == "\ud800" else ("POST",):
        with pytest.raises(ToolFailed, match="can't be sent"):
            RemoteToolbox(Recording([])).invoke(called({"a": value}, {"url": "https://good.test/", "method": method}))


class Recording:
    """A fetcher that records requests and opens no connection."""

    def __init__(self, requests: list[FetchRequest], answer: Fetched | None = None) -> None:
        self._requests = requests
        self._answer = answer or Fetched(200, "text/plain", None, b"done", "https://good.test/")

    def fetch(self, request: FetchRequest) -> Fetched:
        self._requests.append(request)
        return self._answer
