"""Tools of MCP servers over every transport: listed, called, cancelled, and never shared between callers.

Covers: adapters/tools/mcp/mcp, adapters/tools/mcp/mcp_answers, adapters/tools/mcp/mcp_connection,
  adapters/tools/mcp/mcp_connections, adapters/tools/mcp/mcp_peer, adapters/tools/mcp/mcp_pool,
  adapters/tools/mcp/mcp_tools
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest

from tests.fakes.tools.mcp_server import ONE_PIXEL, McpServer, McpServers
from tests.support.tools.mcp_client import ASKER, asker_with, call, loopback_connections, text_in_result, toolbox
from turnstone.adapters.tools.mcp.mcp import McpToolbox
from turnstone.adapters.tools.mcp.mcp_connections import McpConnections
from turnstone.adapters.tools.mcp.mcp_limits import McpLimits
from turnstone.domain.errors import InvalidRequest, ToolFailed, ToolgroupUnavailable
from turnstone.domain.tools.tool_runs import ToolAsker
from turnstone.domain.values.cancellation import StopSignal
from turnstone.domain.values.content import Image, ImageItem, TextItem

PATIENCE_S = 10.0
WAYS = ("/mcp", "/old", "/sse", "/classic")


@pytest.fixture(scope="module")
def servers() -> Iterator[McpServers]:
    with McpServers() as started:
        yield started


@pytest.fixture(scope="module")
def server(servers: McpServers) -> McpServer:
    return servers.start()


@pytest.fixture(scope="module")
def connections(server: McpServer) -> Iterator[McpConnections]:
    with loopback_connections(server.port) as made:
        yield made


@pytest.fixture(params=WAYS)
def box(request: pytest.FixtureRequest, server: McpServer, connections: McpConnections) -> McpToolbox:
    return toolbox(server.url(request.param), connections)


def seen(box: McpToolbox) -> dict[str, list[Any]]:
    headers_seen: dict[str, list[Any]] = json.loads(text_in_result(call(box, "what_was_seen")))
    return headers_seen


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


# ---- lists


def test_tools_are_listed_as_the_server_describes_them(box: McpToolbox, server: McpServer) -> None:
    tools = {tool.name: tool for tool in box.tools(ASKER)}
    add = tools["add"]
    assert add.description == "Add two numbers."
    assert add.input_schema is not None
    assert add.input_schema["required"] == ["a", "b"]
    assert add.input_schema["properties"]["a"]["type"] == "integer"
    assert add.metadata is not None
    assert add.metadata["endpoint"].startswith(server.url("/"))
    assert tools["weather"].output_schema is not None


def test_a_name_that_models_do_not_accept_is_converted(box: McpToolbox) -> None:
    assert "odd_name_with_spaces" in {tool.name for tool in box.tools(ASKER)}
    assert text_in_result(call(box, "odd_name_with_spaces")) == "odd"


def test_a_changed_list_is_requested_again(box: McpToolbox) -> None:
    name = f"grown_{time.monotonic_ns()}"
    assert name not in {tool.name for tool in box.tools(ASKER)}
    call(box, "grow", name=name)
    until(lambda: name in {tool.name for tool in box.tools(ASKER)})
    assert text_in_result(call(box, name)) == "grown"


def test_a_list_is_not_requested_again_before_its_time(server: McpServer, connections: McpConnections) -> None:
    box = toolbox(server.url("/old"), connections)
    first = box.tools(ASKER)
    assert all(one is other for one, other in zip(first, box.tools(ASKER), strict=True))


def test_a_list_is_requested_again_after_its_time(server: McpServer) -> None:
    with loopback_connections(server.port, limits=McpLimits(listed_s=0)) as connections:
        box = toolbox(server.url(), connections)
        first = box.tools(ASKER)
        assert not any(one is other for one, other in zip(first, box.tools(ASKER), strict=True))


# ---- calls


def test_a_call_is_answered_with_the_tools_text(box: McpToolbox) -> None:
    assert text_in_result(call(box, "add", a=2, b=40)) == "42"


def test_a_call_brings_its_idempotency_key_along(box: McpToolbox) -> None:
    key = f"key-{time.monotonic_ns()}"
    call(box, "add", a=1, b=1, key=key)
    assert key in seen(box)["keys"]


def test_an_image_stays_an_image(box: McpToolbox) -> None:
    assert call(box, "image").content == (TextItem(text="a pixel"), ImageItem(image=Image(data=ONE_PIXEL)))


def test_content_other_than_text_and_images_becomes_a_file(box: McpToolbox) -> None:
    result = call(box, "parts")
    assert text_in_result(result).splitlines()[0::2] == ["one", "two", "[report is at https://example.com/report]"]
    files = [(file.name, file.mime_type, file.body) for file in result.files]
    assert files == [("audio-1.wav", "audio/wav", b"RIFF"), ("2-b_20c.pdf", "application/pdf", b"%PDF-")]


def test_structured_content_is_kept_beside_the_text(box: McpToolbox) -> None:
    result = call(box, "weather", city="Oslo")
    assert result.metadata == {"structured_content": {"city": "Oslo", "degrees": 21}}
    assert json.loads(text_in_result(result)) == {"city": "Oslo", "degrees": 21}


def test_a_failing_tool_returns_its_reason_to_the_model(box: McpToolbox) -> None:
    with pytest.raises(ToolFailed, match="the moon is in the way"):
        call(box, "fails")


def test_a_missing_tool_is_named(box: McpToolbox) -> None:
    with pytest.raises(ToolFailed, match="no longer lists a tool 'gone'"):
        call(box, "gone")


def test_a_call_that_takes_too_long_fails_and_is_cancelled_on_the_server(box: McpToolbox) -> None:
    name = f"late-{time.monotonic_ns()}"
    box.tools(ASKER)
    began = time.monotonic()
    with pytest.raises(ToolFailed, match=r"within 0\.3 s; whether the tool ran is unknown"):
        call(box, "slow", timeout_s=0.3, seconds=30, name=name)
    assert time.monotonic() - began < PATIENCE_S / 2
    until(lambda: name in seen(box)["cancelled"])


def test_a_cancelled_call_ends_at_once_and_is_cancelled_on_the_server(box: McpToolbox) -> None:
    name, stop = f"stopped-{time.monotonic_ns()}", StopSignal()
    box.tools(ASKER)

    def stop_soon() -> None:
        until(lambda: name in seen(box)["began"])
        stop.set()

    stopper = threading.Thread(target=stop_soon)
    stopper.start()
    with pytest.raises(ToolFailed, match="it was stopped"):
        call(box, "slow", stop=stop, seconds=30, name=name)
    stopper.join()
    until(lambda: name in seen(box)["cancelled"])


def test_a_call_that_was_stopped_before_is_not_made(server: McpServer, connections: McpConnections) -> None:
    box, stop = toolbox(server.url(), connections), StopSignal()
    box.tools(ASKER)  # over an open connection, a call would be sent before it is cancelled
    stop.set()
    for _ in range(20):
        with pytest.raises(ToolFailed, match=r"it was stopped before it answered$"):
            call(box, "slow", stop=stop, seconds=30, name="never")
    assert "never" not in seen(box)["began"]


def test_calls_run_side_by_side_over_one_connection(box: McpToolbox) -> None:
    box.tools(ASKER)
    began = time.monotonic()
    with ThreadPoolExecutor(8) as threads:
        calls = [threads.submit(call, box, "slow", seconds=1, name=str(number)) for number in range(8)]
        assert [text_in_result(made.result()) for made in calls] == [f"slept {number}" for number in range(8)]
    assert time.monotonic() - began < 5  # one after the other they take 8


def test_calls_use_lines_again(server: McpServer, connections: McpConnections) -> None:
    for way in ("/mcp", "/old"):
        box = toolbox(server.url(way), connections)
        before = len(set(seen(box)["ports"]))
        for _ in range(10):
            call(box, "nothing")
        assert len(set(seen(box)["ports"])) - before <= 2, way


# ---- callers


def test_headers_of_two_callers_never_meet(server: McpServer, connections: McpConnections) -> None:
    for way in WAYS:
        uri = server.url(way)
        box = toolbox(uri, connections)
        askers = [asker_with(uri, {"X-Caller": f"caller-{number}"}) for number in range(4)]
        with ThreadPoolExecutor(8) as threads:
            calls = [
                (asker, threads.submit(call, box, "header", asker, name="x-caller")) for asker in [*askers, ASKER] * 4
            ]
        for asker, made in calls:
            sent = asker.provider_data.mapping("mcp_headers").get(uri, {}).get("X-Caller", "none")
            assert text_in_result(made.result()) == sent


def test_tenants_share_no_connection(server: McpServer, connections: McpConnections) -> None:
    box = toolbox(server.url(), connections)
    ours = box.tools(ToolAsker("acme"))
    theirs = box.tools(ToolAsker("umbrella"))
    assert ours == theirs
    assert not any(one is other for one, other in zip(ours, theirs, strict=True))


def test_headers_for_another_server_are_not_sent(server: McpServer, connections: McpConnections) -> None:
    box = toolbox(server.url(), connections)
    asker = asker_with("https://elsewhere.example/mcp", {"X-Caller": "me"})
    assert text_in_result(call(box, "header", asker, name="x-caller")) == "none"


@pytest.mark.parametrize(
    "headers",
    [
        ["Authorization: secret-value"],
        {"Authorization": ["secret-value"]},
        {"Authorization": "secret-value\r\nX-Other: 1"},
        {"Authorization": "secret-välue"},
        {"Bad Name": "secret-value"},
        {"Host": "secret-value"},
        {"Mcp-Session-Id": "secret-value"},
        {"X-Much": "secret-value" * 2_000},
    ],
)
def test_headers_of_another_shape_are_refused_without_repeating_them(
    headers: Any, server: McpServer, connections: McpConnections
) -> None:
    box, asker = toolbox(server.url(), connections), asker_with(server.url(), headers)
    with pytest.raises(InvalidRequest, match="mcp_headers") as refused:
        box.tools(asker)
    with pytest.raises(ToolFailed, match="mcp_headers") as failed:
        call(box, "nothing", asker)
    assert "secret-v" not in f"{refused.value}{failed.value}"


def test_nothing_is_sent_over_plain_http_that_is_not_allowed(server: McpServer) -> None:
    uri = server.url()
    with loopback_connections() as connections, pytest.raises(ToolgroupUnavailable, match="it is not https") as refused:
        toolbox(uri, connections).tools(asker_with(uri, {"Authorization": "Bearer secret-value"}))
    assert "secret-value" not in str(refused.value)


# ---- servers that end


@pytest.mark.parametrize("way", ["/mcp", "/sse"])
def test_an_unreachable_server_is_named_without_its_query(way: str, servers: McpServers) -> None:
    gone = servers.start()
    gone.kill()
    with loopback_connections(gone.port) as connections:
        box = toolbox(gone.url(f"{way}?key=secret-value"), connections)
        with pytest.raises(ToolgroupUnavailable, match="can't be reached") as unavailable:
            box.tools(ASKER)
        with pytest.raises(ToolFailed, match=r"can't be reached$"):
            call(box, "nothing")
    assert "secret-value" not in str(unavailable.value)
    assert gone.url(way) in str(unavailable.value)


@pytest.mark.parametrize("way", WAYS)
def test_a_restarted_server_is_called_again(way: str, servers: McpServers) -> None:
    first = servers.start()
    with loopback_connections(first.port, limits=McpLimits(listed_s=0)) as connections:
        box = toolbox(first.url(way), connections)
        call(box, "add", a=1, b=1)
        first.kill()
        second = servers.start(first.port)
        assert text_in_result(call(box, "add", a=1, b=2)) == "3"
        second.kill()
        servers.start(first.port)
        assert box.tools(ASKER)


@pytest.mark.parametrize("way", WAYS)
def test_a_call_made_before_the_end_of_a_connection_is_noticed_runs_in_another(way: str, servers: McpServers) -> None:
    first = servers.start()
    with loopback_connections(first.port) as connections, ThreadPoolExecutor(1) as threads:
        box = toolbox(first.url(way), connections)
        call(box, "add", a=1, b=1)
        with held(connections):
            made = threads.submit(call, box, "add", a=1, b=2)
            until(lambda: made.running())
            first.kill()
            servers.start(first.port)
        assert text_in_result(made.result(PATIENCE_S)) == "3"


@contextmanager
def held(connections: McpConnections) -> Iterator[None]:
    """Keep the event loop of connections from noticing anything within the block."""
    loop, _ = connections._started()
    holds, released = Event(), Event()
    loop.call_soon_threadsafe(lambda: (holds.set(), released.wait(PATIENCE_S)))
    assert holds.wait(PATIENCE_S)
    yield
    released.set()


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_dies_during_a_call_fails_it_soon_and_it_is_not_repeated(way: str, servers: McpServers) -> None:
    dying = servers.start()
    with loopback_connections(dying.port) as connections, ThreadPoolExecutor(2) as threads:
        box = toolbox(dying.url(way), connections)
        made = threads.submit(call, box, "slow", seconds=60, name="unlucky")
        until(lambda: "unlucky" in seen(box)["began"])
        dying.kill()
        heir = servers.start(dying.port)
        with pytest.raises(
            ToolFailed, match="the connection broke before it answered; whether the tool ran is unknown"
        ):
            made.result(PATIENCE_S)
        assert "unlucky" not in seen(toolbox(heir.url(way), connections))["began"]


# ---- kept connections


def test_connections_are_bounded_and_those_that_calls_wait_on_end_well(server: McpServer) -> None:
    with loopback_connections(server.port, limits=McpLimits(kept=2)) as connections, ThreadPoolExecutor(8) as threads:
        box = toolbox(server.url("/old"), connections)
        made = [threads.submit(call, box, "slow", ToolAsker(f"t{n}"), seconds=0.5, name=str(n)) for n in range(6)]
        assert [text_in_result(one.result()) for one in made] == [f"slept {n}" for n in range(6)]
        assert connections.count() <= 2


def test_an_idle_connection_is_closed(server: McpServer) -> None:
    with loopback_connections(server.port, limits=McpLimits(idle_s=0.2)) as connections:
        box = toolbox(server.url("/sse"), connections)
        box.tools(ASKER)
        assert connections.count() == 1
        until(lambda: connections.count() == 0)
        assert text_in_result(call(box, "add", a=1, b=1)) == "2"


def test_closing_ends_the_thread_and_the_next_call_begins_another(server: McpServer) -> None:
    with loopback_connections(server.port) as connections:
        box = toolbox(server.url(), connections)
        before = set(threading.enumerate())
        box.tools(ASKER)
        (thread,) = [thread for thread in set(threading.enumerate()) - before if thread.name == "mcp"]
        connections.close()
        assert not thread.is_alive()
        assert text_in_result(call(box, "add", a=1, b=1)) == "2"


def test_no_module_of_mcp_is_loaded_before_the_first_call() -> None:
    script = """
import sys
from turnstone.adapters.fetching.allowing import Allowed
from turnstone.adapters.tools.mcp.mcp import McpToolbox
from turnstone.adapters.tools.mcp.mcp_guarded import guarded_connections
from turnstone.domain.registry.registry import McpEndpoint, Toolgroup
endpoint = McpEndpoint(uri="https://example.com/mcp")
group = Toolgroup(identifier="g", provider_resource_id="g", provider_id="model-context-protocol", mcp_endpoint=endpoint)
McpToolbox(group, guarded_connections(Allowed()))
print({"mcp", "mcp_types", "httpx2", "httpcore2", "httpx", "anyio", "opentelemetry"} & set(sys.modules))
"""
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "set()"


@pytest.mark.parametrize(
    "uri", ["http://[::1", "https://[v1.x]/", "https://a:99999/", "https://%00/", "https://a:secret-value@b.example/"]
)
def test_an_invalid_address_makes_no_toolbox(uri: str) -> None:
    with loopback_connections() as connections, pytest.raises(InvalidRequest) as refused:
        toolbox(uri, connections)
    assert refused.value.location == ("mcp_endpoint", "uri")
    assert "secret-value" not in str(refused.value)
