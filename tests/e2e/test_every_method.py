"""Every method of the official clients works, is refused for a true reason, or is named in a 501."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.client_script import run_script
from tests.servers import ServerProcess

METHODS = {"0.2.12": 98, "0.2.20": 109, "0.3.5": 114}
WORKS = {
    "agents.list",
    "chat.completions.list",
    "completions.create",
    "embeddings.create",
    "inspect.health",
    "inspect.version",
    "models.list",
    "models.openai.list",
    "models.register",
    "models.retrieve",
    "models.unregister",
    "providers.list",
    "shields.list",
    "shields.register",
    "shields.retrieve",
    "toolgroups.list",
    "tools.list",
    "tool_runtime.list_tools",
}
REFUSED = {
    "chat.completions.create": "messages: ",
    "chat.completions.retrieve": "chat completion 'some-name' not found",
    "inference.chat_completion": "messages: ",
    "inference.completion": "content",
    "inference.embeddings": "contents: ",
    "agents.create": "agent_config.model: Field required",
    "agents.session.create": "agent 'some-name' not found",
    "agents.session.retrieve": "'some-name' not found",
    "agents.delete": "agent 'some-name' not found",
    "agents.session.delete": "'some-name' not found",
    "agents.session.list": "agent 'some-name' not found",
    "agents.steps.retrieve": "'some-name' not found",
    "agents.turn.create": "messages",
    "agents.turn.resume": "tool_responses",
    "agents.turn.retrieve": "'some-name' not found",
    "agents.retrieve": "agent 'some-name' not found",
    "providers.retrieve": "provider 'some-name' not found",
    "safety.run_shield": "messages",
    "shields.delete": "registered shield 'some-name' not found",
    "toolgroups.get": "toolgroup 'some-name' not found",
    "toolgroups.register": "provider_id",
    "toolgroups.unregister": "registered toolgroup 'some-name' not found",
    "tools.get": "tool 'some-name' not found",
    "tool_runtime.invoke_tool": "tool 'some-name' not found",
}


@pytest.mark.parametrize("version", METHODS)
def test_every_method_of_the_client_is_served_or_named(version: str, tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        told = run_script(version, "every_method", server.url)
    assert len(told) == METHODS[version]
    for called, exchange in told.items():
        assert exchange["requests"], f"{called} made no request"
        check(called.removeprefix("alpha."), exchange["requests"][-1], exchange["body"])


def check(name: str, request: dict[str, Any], body: str) -> None:
    """See that the answer to a method is one of the three it may be, and the one that it should be."""
    status = request["status"]
    if name in WORKS:
        assert status == 200, (name, body)
    elif name in REFUSED:
        assert status in (400, 404), (name, status, body)
        assert REFUSED[name] in reason_in(body), (name, body)
    else:
        assert status == 501, (name, request, body)
        assert f" {name} " in json.loads(body)["detail"]


def reason_in(body: str) -> str:
    match json.loads(body):
        case {"error": {"message": str(message)}}:
            return message
        case {"detail": str(detail)}:
            return detail
        case {"error": {"detail": {"errors": list(problems)}}}:
            return "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems)
    raise AssertionError(f"{body} is in no envelope")
