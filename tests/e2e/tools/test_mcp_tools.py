"""Tools of an MCP server that requires credentials, listed, called and refused through the official clients.

Covers: adapters/tools/mcp
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.tools.hostile_mcp_server import HostileMcpServer, Message, Reply, decent
from tests.support.cases import rest_at_night
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

Json = dict[str, Any]
KEY = "Bearer key-of-the-caller"
VERSIONS = ("0.1.9", "0.2.0", "0.2.12", "0.2.20", "0.2.23", "0.3.5")
TURN = {"messages": [{"role": "user", "content": "echo()"}], "stream": False}


class KeyedMcpServer(HostileMcpServer):
    """An MCP server with one tool, which answers a status to requests without the key.

    Attributes:
        open_to_all: methods that need no key.
    """

    def __init__(self, status: int = 401) -> None:
        super().__init__(self._keyed)
        self.open_to_all: tuple[str, ...] = ()
        self._status = status

    def _keyed(self, message: Message) -> Reply:
        has_key = self.headers[-1].get("authorization") == KEY
        return decent(message) if has_key or message.get("method") in self.open_to_all else Reply(status=self._status)


@pytest.fixture
def mcp() -> Iterator[KeyedMcpServer]:
    with KeyedMcpServer() as server:
        yield server


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[KeyedMcpServer], ServerProcess]]:
    running: list[ServerProcess] = []

    def start(mcp: KeyedMcpServer) -> ServerProcess:
        running.append(ServerProcess(tmp_path, fetch_allow=f"127.0.0.1:{mcp.port}").__enter__())
        return running[-1]

    yield start
    for server in running:
        server.__exit__()


@pytest.mark.parametrize("version", rest_at_night(VERSIONS, always=("0.2.23",)))
def test_a_client_lists_and_calls_tools_with_its_key_and_without_it_receives_the_reason(
    version: str, mcp: KeyedMcpServer, serve: Callable[[KeyedMcpServer], ServerProcess]
) -> None:
    seen = run_script(version, "mcp_tools", serve(mcp).url, mcp.url(), KEY)
    assert seen["same"] == seen["listed"]
    assert seen["listed"] == {
        "identifier": "echo",
        "provider_id": "model-context-protocol",
        "provider_resource_id": "echo",
        "type": "tool",
        "toolgroup_id": "mcp::guarded",
        "tool_host": "model_context_protocol",
        "name": "echo",
        "description": seen["listed"]["description"],
    }
    assert (seen["content"], seen["error_code"], seen["error"]) == ([["text", "echoed"]], 0, None)
    for refused in (seen["list_refused"], seen["runtime_list_refused"], seen["invoke_refused"]):
        status, why = refused
        assert status == 401
        assert "'mcp::guarded'" in why
        assert "mcp_headers" in why
    assert "echo" not in seen["all_listed"], "a group that can't be listed is left out of the list of all"


@pytest.fixture
def client(mcp: KeyedMcpServer, serve: Callable[[KeyedMcpServer], ServerProcess]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=serve(mcp).url, timeout=30) as client:
        yield client


def session_with_tool(client: httpx.Client, mcp: KeyedMcpServer) -> str:
    group = {
        "toolgroup_id": "mcp::guarded",
        "provider_id": "model-context-protocol",
        "mcp_endpoint": {"uri": mcp.url()},
    }
    assert client.post("/v1/toolgroups", json=group).status_code == 200
    config = {"model": "offline", "instructions": "", "toolgroups": ["mcp::guarded"]}
    agent = client.post("/v1/agents", json={"agent_config": config}).json()["agent_id"]
    session = client.post(f"/v1/agents/{agent}/session", json={"session_name": "s"}).json()["session_id"]
    return f"/v1/agents/{agent}/session/{session}"


def with_key(mcp: KeyedMcpServer) -> dict[str, str]:
    return {"X-LlamaStack-Provider-Data": json.dumps({"mcp_headers": {mcp.url(): {"Authorization": KEY}}})}


def tool_response(turn: Json) -> Json:
    (step,) = [step for step in turn["steps"] if step["step_type"] == "tool_execution"]
    (response,) = step["tool_responses"]
    return dict(response)


def test_a_turn_keeps_what_an_mcp_server_answers_as_a_list(client: httpx.Client, mcp: KeyedMcpServer) -> None:
    session = session_with_tool(client, mcp)
    turn = client.post(f"{session}/turn", json=TURN, headers=with_key(mcp)).json()
    assert tool_response(turn)["content"] == [{"type": "text", "text": "echoed"}]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_turn_whose_tools_can_t_be_listed_without_credentials_is_a_401(
    client: httpx.Client, mcp: KeyedMcpServer, *, is_streamed: bool
) -> None:
    session = session_with_tool(client, mcp)
    answer = client.post(f"{session}/turn", json={**TURN, "stream": is_streamed})
    assert (answer.status_code, answer.headers["x-should-retry"]) == (401, "false")
    assert "'mcp::guarded'" in answer.json()["detail"]
    assert "mcp_headers" in answer.json()["detail"]
    assert "www-authenticate" not in answer.headers, "this server itself requires no authentication"


def test_a_call_without_required_credentials_is_an_error_result_and_the_turn_continues(
    client: httpx.Client, mcp: KeyedMcpServer
) -> None:
    mcp.open_to_all = ("initialize", "notifications/initialized", "tools/list", "server/discover")
    session = session_with_tool(client, mcp)
    answer = client.post(f"{session}/turn", json=TURN)
    assert answer.status_code == 200, answer.text
    response = tool_response(answer.json())
    assert response["metadata"]["error"] is True
    assert "status 401" in response["content"]
    assert answer.json()["output_message"]["stop_reason"] == "end_of_turn"
    refused = client.post("/v1/tool-runtime/invoke", json={"tool_name": "mcp::guarded/echo", "kwargs": {}})
    assert refused.status_code == 401


def test_a_caller_without_rights_on_an_mcp_server_is_a_403(tmp_path: Path) -> None:
    with (
        KeyedMcpServer(403) as mcp,
        ServerProcess(tmp_path, fetch_allow=f"127.0.0.1:{mcp.port}") as server,
        httpx.Client(base_url=server.url, timeout=30) as client,
    ):
        session = session_with_tool(client, mcp)
        assert client.post(f"{session}/turn", json=TURN).status_code == 403
        refused = client.get("/v1/tool-runtime/list-tools", params={"tool_group_id": "mcp::guarded"})
        assert (refused.status_code, "'mcp::guarded'" in refused.json()["detail"]) == (403, True)


def test_a_private_server_in_the_operators_file_is_called_but_not_for_a_tenants_own_group(tmp_path: Path) -> None:
    with HostileMcpServer(decent) as mcp:
        file = tmp_path / "turnstone.toml"
        file.write_text(f'[toolgroups."mcp::wiki"]\nmcp_endpoint = "{mcp.url()}"\n')
        with (
            ServerProcess(tmp_path, config=file) as server,
            httpx.Client(base_url=server.url, timeout=30) as client,
        ):
            (tool,) = client.get("/v1/tools", params={"toolgroup_id": "mcp::wiki"}).raise_for_status().json()["data"]
            assert (tool["identifier"], tool["toolgroup_id"]) == ("echo", "mcp::wiki")
            endpoint = {"provider_id": "model-context-protocol", "mcp_endpoint": {"uri": mcp.url()}}
            client.post("/v1/toolgroups", json={"toolgroup_id": "mcp::own", **endpoint}).raise_for_status()
            refused = client.get("/v1/tools", params={"toolgroup_id": "mcp::own"})
            assert (refused.status_code, "TURNSTONE_FETCH_ALLOW" in refused.text) == (502, True)
