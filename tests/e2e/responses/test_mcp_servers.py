"""OpenAI's own clients, unmodified: the tools of an MCP server that a response names, and approvals of its calls.

Covers: functions/responses, services/responses/approving, dialects/openai/responses/output/mcp_items
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.fakes.models.openai_server import ModelServer
from tests.fakes.tools.hostile_mcp_server import HostileMcpServer, decent
from tests.support.clients.client_script import run_script
from tests.support.models.worded_model import answer_by_words
from tests.support.server.servers import ServerProcess, free_port

pytestmark = pytest.mark.timeout(120)
TOKEN = "token-that-no-answer-shows"


def test_openais_clients_call_a_server_with_approvals_and_its_token_stays_nowhere(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    gone = free_port()
    with (
        HostileMcpServer(decent) as mcp,
        ModelServer(answer_by_words) as model,
        ServerProcess(folder, model_url=model.url, fetch_allow=f"127.0.0.1:{mcp.port},127.0.0.1:{gone}") as server,
    ):
        urls = server.url + "/v1", mcp.url()
        seen = run_script("openai", "openai_mcp", *urls, TOKEN, f"http://127.0.0.1:{gone}/mcp")
        log = server.log
    assert seen["free"] == [["mcp_list_tools", "mcp_call", "message"], "It is echoed."]
    shown = {"type": "mcp", "server_label": "birds", "server_url": mcp.url(), "require_approval": "never"}
    assert seen["echo"] == [shown]
    assert seen["requested"] == ["completed", ["mcp_list_tools", "mcp_approval_request"]]
    assert seen["answer"] == [["mcp_call", "message"], "It is echoed."]
    assert seen["linked"] is True
    assert seen["unnamed"] == [["mcp_list_tools", "mcp_call", "message"], "never"]
    assert seen["named"] == [["mcp_list_tools", "mcp_approval_request"], "always"]
    assert seen["failed"] == ["failed", [["mcp_list_tools", True]]]
    assert seen["failing"]["kinds"][-4:] == [
        *("response.mcp_list_tools.in_progress", "response.mcp_list_tools.failed", "response.output_item.done"),
        "response.failed",
    ]
    assert seen["unstreamed"] == [502, "tools_unavailable"]
    for name in ("requesting", "answering", "failing"):
        assert (seen[name]["is_whole"], seen[name]["is_same"]) == (True, True), seen[name]
    assert "response.mcp_list_tools.completed" in seen["requesting"]["kinds"]
    assert "response.mcp_call_arguments.done" in seen["answering"]["kinds"]
    assert [status for status, _ in seen["refused"][:2]] == [400, 400]
    assert seen["refused"][0][1] == "input[0].approval_request_id"
    assert seen["refused"][2:] == [
        [400, "tools[0].server_url"],
        [400, "tools[0].headers"],
        [400, "tools[0].connector_id"],
    ]
    assert seen["agent"] == ["It is echoed.", ["echo"]]
    assert mcp.requests.count("tools/call") == 4
    assert {headers["authorization"] for headers in mcp.headers} == {f"Bearer {TOKEN}"}
    assert TOKEN not in log
    assert [content for content in stored_in(folder) if TOKEN.encode() in content] == []


def stored_in(folder: Path) -> Iterator[bytes]:
    """Yield each value of each record, and each payload, without compression; old pages of the log are not read."""
    (database,) = folder.rglob("turnstone.db")
    with closing(sqlite3.connect(database)) as connection:
        values = [value for row in connection.execute("SELECT * FROM items") for value in row]
    assert values
    yield from (inflated(value) if isinstance(value, bytes) else str(value).encode() for value in values)
    yield from (inflated(path.read_bytes()) for path in folder.rglob("*.blob"))


def inflated(body: bytes) -> bytes:
    return zlib.decompress(body) if body[:1] == b"x" else body
