"""MCP servers that break the rules: the caller soon receives an error, and nothing is left behind.

Covers: adapters/tools/mcp/mcp, adapters/tools/mcp/mcp_limits, adapters/tools/mcp/mcp_transport,
  adapters/tools/mcp/mcp_trouble, adapters/tools/mcp/mcp_guarded
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.fakes.tools.hostile_mcp_server import (
    HostileMcpServer,
    Message,
    Reply,
    decent,
    decent_but,
    event,
    result_reply,
)
from tests.support.tools.mcp_client import ASKER, asker_with, call, loopback_connections, text_in_result, toolbox
from turnstone.adapters.tools.mcp.mcp import McpToolbox
from turnstone.adapters.tools.mcp.mcp_limits import McpLimits
from turnstone.domain.errors import CredentialsMissing, CredentialsRefused, ToolFailed, ToolgroupUnavailable

SOON_S = 8.0
LIMITS = McpLimits(connect_s=2.0, answer_bytes=100_000, tools=20, pages=5)
UNHURRIED = replace(LIMITS, connect_s=6.0)  # a busy machine may take seconds to connect
WAITS_S = 60.0
PACKED = gzip.compress(b"x" * 10_000_000)


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """Load the modules that speak MCP beforehand: it takes longer than the timeouts of these tests."""
    import turnstone.adapters.fetching.guarded_httpx
    import turnstone.adapters.tools.mcp.mcp_pool  # noqa: F401


@contextmanager
def hostile(
    reply: Callable[[Message], Reply], limits: McpLimits = LIMITS
) -> Iterator[tuple[McpToolbox, HostileMcpServer]]:
    """Serve; assert that the block ends soon and leaves no task."""
    began, threads = time.monotonic(), set(threading.enumerate())
    with HostileMcpServer(reply) as server, loopback_connections(server.port, limits=limits) as connections:
        yield toolbox(server.url(), connections), server
        if connections._loop is not None:
            settled = asyncio.run_coroutine_threadsafe(_until_settled(), connections._loop)
            settled.result(SOON_S)
    assert time.monotonic() - began < SOON_S
    assert not {thread.name for thread in set(threading.enumerate()) - threads if not thread.daemon}


async def _until_settled() -> None:
    """Wait until no task is left except those of a kept connection."""
    while len([task for task in asyncio.all_tasks() if "_ask" in repr(task.get_coro())]) > 1:
        await asyncio.sleep(0.02)


def of_rpc(**fields: Any) -> Callable[[Message], Reply]:
    return lambda message: Reply([json.dumps({"jsonrpc": "2.0", "id": message.get("id"), **fields}).encode()])


def endless_pages(message: Message) -> Reply:
    return result_reply(message, {"tools": [], "nextCursor": f"{time.monotonic_ns()}"})


def many_tools(message: Message) -> Reply:
    return result_reply(message, {"tools": [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(30)]})


def silent(_: Message) -> Reply:
    return Reply([WAITS_S])


def dripping(_: Message) -> Reply:
    return Reply([part for _ in range(400) for part in (b" ", 0.1)])


def dripping_events(_: Message) -> Reply:
    return Reply([part for _ in range(400) for part in (b": still there\n\n", 0.1)], content_type="text/event-stream")


def gigantic(message: Message) -> Reply:
    return result_reply(
        message, {"content": [{"type": "text", "text": "x" * 200_000}], "tools": [], "pad": "x" * 200_000}
    )


def gigantic_event(message: Message) -> Reply:
    return event(message, {"content": [{"type": "text", "text": "x" * 200_000}], "tools": [], "pad": "x" * 200_000})


def packed(_: Message) -> Reply:
    return Reply([PACKED], headers=(("content-encoding", "gzip"),))


def not_json(_: Message) -> Reply:
    return Reply([b'{"jsonrpc": "2.0", "id": '])


def not_of_rpc(_: Message) -> Reply:
    return Reply([b"[1, 2, 3]"])


def html(_: Message) -> Reply:
    return Reply([b"<html>secret page</html>"], content_type="text/html")


def hung_up(_: Message) -> Reply:
    return Reply([b'{"jsonrpc"'], hang_up=True)


def nothing_at_all(_: Message) -> Reply:
    return Reply(status=202)


def ended_events(_: Message) -> Reply:
    return Reply([b": bye\n\n"], content_type="text/event-stream")


def of_another_shape(message: Message) -> Reply:
    return result_reply(message, {"content": "not a list", "tools": {"not": "a list"}})


BROKEN = {
    "never answers": (silent, "within 2 s"),
    "drips": (dripping, "within 2 s"),
    "drips events": (dripping_events, "within 2 s"),
    "is gigantic": (gigantic, "more than 100000 bytes"),
    "is a gigantic event": (gigantic_event, "too large"),
    "is packed": (packed, "packs its answers|more than"),
    "is no JSON": (not_json, "does not follow MCP"),
    "is no JSON-RPC": (not_of_rpc, "does not follow MCP"),
    "is a page": (html, "does not follow MCP"),
    "breaks off": (hung_up, "the connection broke"),
    "is nothing": (nothing_at_all, "does not follow MCP"),
    "is the end of events": (ended_events, "the connection broke"),
    "is of another shape": (of_another_shape, "does not follow MCP"),
    "is a failure": (lambda _: Reply(status=500), "status 500"),
    "is a refusal": (lambda _: Reply(status=403), "status 403: it does not let this caller use them"),
    "wants credentials": (lambda _: Reply(status=401), "status 401: it requires (other )?credentials"),
    "is an error": (of_rpc(error={"code": -32000, "message": "out of order"}), "it says: out of order"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_list_of_tools_is_an_error_with_its_cause(what: str) -> None:
    reply, why = BROKEN[what]
    with hostile(decent_but(tools_list=reply)) as (box, server):
        with pytest.raises(ToolgroupUnavailable, match=why) as unavailable:
            box.tools(asker_with(server.url(), {"Authorization": "Bearer secret-value"}))
        assert "secret" not in str(unavailable.value)


@pytest.mark.parametrize("what", BROKEN)
def test_a_call_that_is_answered_badly_fails_and_is_not_repeated(what: str) -> None:
    reply, why = BROKEN[what]
    with hostile(decent_but(tools_call=reply)) as (box, server):
        box.tools(ASKER)
        with pytest.raises(ToolFailed, match=why.replace("2 s", "1 s")):
            call(box, "echo", timeout_s=1.0 if "within" in why else SOON_S)
        assert server.requests.count("tools/call") == 1
        server.reply = decent
        assert text_in_result(call(box, "echo")) == "echoed", "the next call is not harmed"


@pytest.mark.parametrize("has_rpc_error", [False, True])
@pytest.mark.parametrize(("status", "refusal"), [(401, CredentialsMissing), (403, CredentialsRefused)])
def test_a_server_that_requires_other_credentials_is_named_by_its_group(
    status: int, refusal: type[ToolgroupUnavailable], *, has_rpc_error: bool
) -> None:
    def refuse(message: Message) -> Reply:
        reply = of_rpc(error={"code": -32001, "message": "who is there?"})(message) if has_rpc_error else Reply()
        return replace(reply, status=status)

    with hostile(decent_but(tools_list=refuse)) as (box, server):
        with pytest.raises(refusal) as unavailable:
            box.tools(ASKER)
        assert "'group'" in str(unavailable.value)
        assert "mcp_headers" in str(unavailable.value)
        assert server.url() in str(unavailable.value)
        with pytest.raises(refusal, match=r"were sent|than those sent") as unavailable:
            box.tools(asker_with(server.url(), {"Authorization": "Bearer secret-value"}))
        assert "secret" not in str(unavailable.value)
    with hostile(decent_but(tools_call=refuse)) as (box, _):
        with pytest.raises(ToolFailed) as failed:
            call(box, "echo")
        assert isinstance(failed.value.refusal, refusal)
        assert "not known" not in str(failed.value)


@pytest.mark.parametrize("what", BROKEN)
def test_a_session_that_can_not_begin_is_an_error_with_its_cause(what: str) -> None:
    reply, why = BROKEN[what]
    with (
        hostile(reply) as (box, _),
        pytest.raises(ToolgroupUnavailable, match=why.replace("within", "begin to speak MCP within|within")),
    ):
        box.tools(ASKER)


def test_an_endless_list_is_read_up_to_a_limit_of_pages() -> None:
    with hostile(decent_but(tools_list=endless_pages)) as (box, server):
        with pytest.raises(ToolgroupUnavailable, match="does not end within 5 pages"):
            box.tools(ASKER)
        assert server.requests.count("tools/list") == 5


def test_a_list_of_too_many_tools_is_not_taken() -> None:
    with (
        hostile(decent_but(tools_list=many_tools)) as (box, _),
        pytest.raises(ToolgroupUnavailable, match="more than 20 tools"),
    ):
        box.tools(ASKER)


def test_an_answer_that_is_not_read_to_its_end_does_not_stay() -> None:
    with hostile(decent_but(tools_call=dripping_events)) as (box, server):
        for _ in range(3):
            box.tools(ASKER)
            with pytest.raises(ToolFailed, match=r"within 0\.5 s"):
                call(box, "echo", timeout_s=0.5)
        assert server.requests.count("initialize") == 3, "each was cancelled with its connection"


def test_a_server_that_does_not_accept_connections_in_time_is_an_error() -> None:
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as full,
        loopback_connections(full.getsockname()[1], limits=LIMITS) as made,
    ):
        uri = f"http://127.0.0.1:{full.getsockname()[1]}/mcp"
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        began = time.monotonic()
        with pytest.raises(ToolgroupUnavailable, match=r"within 2 s|be reached"):
            toolbox(uri, made).tools(ASKER)
        assert time.monotonic() - began < SOON_S
        for filler in fillers:
            filler.close()


# ---- redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["initialize", "tools_list", "tools_call"])
def test_a_redirect_to_a_private_address_is_not_followed(status: int, method: str) -> None:
    with HostileMcpServer(decent) as private:
        elsewhere = Reply(status=status, headers=(("location", private.url()),))
        with hostile(decent_but(**{method: lambda _: elsewhere}), UNHURRIED) as (box, _):
            with pytest.raises((ToolFailed, ToolgroupUnavailable), match=r"another address|it is not https"):
                call(box, "echo")
            assert private.requests == []


def test_headers_are_not_sent_where_a_redirect_points() -> None:
    with HostileMcpServer(decent) as other, HostileMcpServer(decent) as named:
        named.reply = decent_but(tools_call=lambda _: Reply(status=307, headers=(("location", other.url()),)))
        with loopback_connections(named.port, other.port, limits=UNHURRIED) as connections:
            box = toolbox(named.url(), connections)
            with pytest.raises(ToolFailed):
                call(box, "echo", asker_with(named.url(), {"Authorization": "Bearer mine"}))
        assert other.requests == []
        assert named.headers[-1]["authorization"] == "Bearer mine"


# ---- sessions


def test_a_call_in_a_session_that_was_forgotten_runs_once_in_another() -> None:
    forgotten = iter([Reply(status=404)])
    with hostile(decent_but(tools_call=lambda message: next(forgotten, None) or decent(message))) as (box, server):
        box.tools(ASKER)
        assert text_in_result(call(box, "echo")) == "echoed"
        assert server.requests.count("tools/call") == 2
        assert server.requests.count("initialize") == 2


def test_a_server_that_forgets_every_session_is_called_twice_at_most() -> None:
    with hostile(decent_but(tools_call=lambda _: Reply(status=404))) as (box, server):
        box.tools(ASKER)
        with pytest.raises(ToolFailed, match=r"it has forgotten the session$"):
            call(box, "echo")
        assert server.requests.count("tools/call") == 2


def test_an_interrupted_list_is_requested_once_more_over_another_connection() -> None:
    breaks = iter([hung_up])
    with (
        HostileMcpServer(decent) as server,
        loopback_connections(server.port, limits=McpLimits(listed_s=0)) as connections,
    ):
        box = toolbox(server.url(), connections)
        box.tools(ASKER)
        server.reply = decent_but(tools_list=lambda message: next(breaks, decent)(message))
        assert [each.name for each in box.tools(ASKER)] == ["echo"]
        assert server.requests.count("initialize") == 2


# ---- names and schemas


def tool(name: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", **schema}}


def test_invalid_names_are_converted_or_left_out() -> None:
    names = ["", "---", "ünï", "a/b", "a.b", "a\nb", "../../etc", "x" * 10_000, "💥", "ok", "\x00"]
    with hostile(decent_but(tools_list=lambda m: result_reply(m, {"tools": [tool(name) for name in names]}))) as (
        box,
        server,
    ):
        offered = [each.name for each in box.tools(ASKER)]
        assert offered == ["---", "_n_", "a_b", "______etc", "x" * 64, "ok"]
        called: list[str] = []

        def note(message: Message) -> Reply:
            called.append(message["params"]["name"])
            return decent(message)

        server.reply = decent_but(tools_call=note)
        for name in offered:
            call(box, name)
        assert called == ["---", "ünï", "a/b", "../../etc", "x" * 10_000, "ok"]


def test_a_list_that_is_not_of_mcp_is_not_taken() -> None:
    with (
        hostile(decent_but(tools_list=lambda message: result_reply(message, {"tools": [{"name": "bad"}]}))) as (box, _),
        pytest.raises(ToolgroupUnavailable, match="does not follow MCP"),
    ):
        box.tools(ASKER)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "description": "x" * 70_000},
        {"type": "object", "properties": {"deep": json.loads('{"a":' * 70 + "1" + "}" * 70)}},
    ],
    ids=["long", "deep"],
)
def test_a_schema_that_can_t_be_offered_costs_its_tool_only(
    schema: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    tools = [{"name": "bad", "inputSchema": schema}, tool("good")]
    with hostile(decent_but(tools_list=lambda message: result_reply(message, {"tools": tools}))) as (box, _):
        found = [each.name for each in box.tools(ASKER)]
    assert found == ["good"]
    assert [record.args[1] for record in caplog.records if record.args] == ["bad"]


def test_neither_the_address_of_a_server_nor_its_messages_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    with hostile(decent_but(tools_call=not_json)) as (_, server), loopback_connections(server.port) as connections:
        url = server.url("/mcp?key=secret-value")
        box, asker = toolbox(url, connections), asker_with(url, {"Authorization": "Bearer secret-value"})
        box.tools(asker)
        with pytest.raises(ToolFailed):
            call(box, "echo", asker, text="secret-argument")
    assert "secret" not in caplog.text
    assert "jsonrpc" not in caplog.text


def as_error(text: str) -> Callable[[Message], Reply]:
    return of_rpc(error={"code": -32000, "message": text})


def as_answer(text: str) -> Callable[[Message], Reply]:
    return lambda message: result_reply(message, {"isError": True, "content": [{"type": "text", "text": text}]})


@pytest.mark.parametrize(
    ("method", "repeated"), [("tools_list", as_error), ("tools_call", as_error), ("tools_call", as_answer)]
)
def test_headers_that_a_server_repeats_in_an_error_are_redacted(
    method: str, repeated: Callable[[str], Callable[[Message], Reply]]
) -> None:
    reply = repeated("no such user: Bearer secret-value, secret-value")
    with hostile(decent_but(**{method: reply})) as (box, server):
        asker = asker_with(server.url(), {"Authorization": "Bearer secret-value"})
        with pytest.raises((ToolFailed, ToolgroupUnavailable)) as failed:
            call(box, "echo", asker=asker) if method == "tools_call" else box.tools(asker)
        assert server.headers[-1]["authorization"] == "Bearer secret-value"
    assert "no such user: [redacted], [redacted]" in str(failed.value)


def test_the_text_of_a_servers_error_adds_no_line_to_a_log() -> None:
    reply = as_error("no\r\n2026-01-01 ERROR\u2028forged")
    with hostile(decent_but(tools_list=reply)) as (box, _), pytest.raises(ToolgroupUnavailable) as unavailable:
        box.tools(ASKER)
    assert str(unavailable.value).endswith("it says: no 2026-01-01 ERROR forged")
