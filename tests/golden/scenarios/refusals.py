"""Requests that are refused for their form, in the envelope of each dialect."""

from __future__ import annotations

import json
from typing import Any

from tests.golden.scenarios.registry import scenario
from tests.golden.world import World, from_user

AGENT = {"agent_config": {"model": "stub-llm", "instructions": ""}}
CHAT = "/v1/openai/v1/chat/completions"


@scenario("tests/contract/server/test_bad_input.py", "tests/contract/server/test_generated_requests.py")
def bad_bodies(world: World) -> None:
    world.serve()
    session = world.session()
    targets = ("/v1/agents", f"{session}/turn", CHAT, "/v1/chat/completions", "/agents/create", "/v1/models")
    for target in targets:
        for raw in (b"", b"{", b"[]", b"null", b'"x"', b"{}", b'{"a": NaN}', b"\xff", b'{"a": 1e999}'):
            world.send("POST", target, raw=raw)
    wrong: list[tuple[str, Any]] = [
        ("/v1/agents", {"agent_config": {**AGENT["agent_config"], "max_infer_iters": 101}}),
        ("/v1/agents", {"agent_config": {**AGENT["agent_config"], "client_tools": [{"name": ""}]}}),
        ("/v1/agents", {"agent_config": {**AGENT["agent_config"], "sampling_params": {"strategy": {"type": "x"}}}}),
        ("/v1/agents", {"agent_config": {**AGENT["agent_config"], "toolgroups": [1]}}),
        ("/v1/agents", {**AGENT, "unknown": 1}),
        (session.rpartition("/")[0], {"session_name": 1}),
        (f"{session}/turn", {"messages": []}),
        (f"{session}/turn", {"messages": [{"role": "system", "content": "x"}]}),
        (f"{session}/turn", {**from_user("x"), "stream": "maybe"}),
        (f"{session}/turn", {**from_user("x"), "toolgroups": ["unknown"]}),
        (f"{session}/turn/unknown/resume", {"tool_responses": []}),
        (f"{session}/turn/unknown/resume", {}),
        (CHAT, {"model": "stub-llm", "messages": []}),
        (CHAT, {"model": "stub-llm", **from_user("x"), "n": 2}),
        (CHAT, {"model": "stub-llm", **from_user("x"), "tool_choice": "x"}),
        (CHAT, {"model": "", **from_user("x")}),
        ("/v1/shields", {"shield_id": ""}),
        ("/v1/toolgroups", {"toolgroup_id": "x"}),
        ("/v1/safety/run-shield", {"shield_id": "x", "messages": []}),
        ("/v1/tool-runtime/invoke", {"tool_name": 1}),
    ]
    for target, body in wrong:
        world.send("POST", target, body)


@scenario("tests/contract/access/test_every_route_refuses.py")
def unknown_things(world: World) -> None:
    world.serve()
    session = world.session()
    agent_id = session.split("/")[3]
    for target in ("/v1/agents/x", f"/v1/agents/{agent_id}/session/x", f"{session}/turn/x", f"{session}/turn/x/events"):
        for method in ("GET", "DELETE", "PUT"):
            world.send(method, target)
    for target in (f"{session}/turn/x/step/y", f"{session}/attachments/x", "/", "/nowhere", "/v1", "/v1/openai/v1/x"):
        world.send("GET", target)
    for target in ("/v1/agents/x/session", f"/v1/agents/{agent_id}/session/x/turn", f"{session}/turn/x/cancel"):
        world.send("POST", target, {**from_user("x"), "session_name": "x"})
    world.send(
        "POST", f"{session}/turn/x/resume", {"tool_responses": [{"call_id": "c", "tool_name": "t", "content": ""}]}
    )
    for target in ("/v1/agents", CHAT, "/v1/health", "/agents/create"):
        world.send("PATCH", target)
        world.send("OPTIONS", target)
    world.send("HEAD", "/v1/health")
    world.send("HEAD", f"/v1/agents/{agent_id}")


@scenario("tests/contract/server/test_limits.py", "tests/unit/server/test_http_limits.py")
def too_large(world: World) -> None:
    world.serve(max_body_bytes=1_000)
    for target in ("/v1/agents", CHAT, "/agents/create"):
        world.send("POST", target, raw=b" " * 1_001)


@scenario("tests/unit/server/test_app.py", "tests/e2e/clients/test_every_method.py")
def of_other_clients(world: World) -> None:
    """Unknown client versions (426) and methods that are not served (501)."""
    world.serve()
    for target in ("/v1/agents", CHAT):
        for version in ("0.4.0", "1", "x", "0.2.99"):
            world.send("GET", target, x_llamastack_client_version=version)
    for method, target in (
        ("POST", "/v1/batches"),
        ("POST", "/v1/openai/v1/batches"),
        ("GET", "/v1/vector-dbs"),
        ("POST", "/v1/eval/benchmarks"),
        ("GET", "/v1/openai/v1/files/a/b"),
        ("DELETE", "/v1/vector_stores/x"),
        ("POST", "/alpha/memory/insert"),
        ("GET", "/v1/batches/x"),
    ):
        world.send(method, target, {} if method == "POST" else None)


@scenario("tests/e2e/clients/test_first_requests.py")
def first_requests(world: World) -> None:
    """An agent in the form of the first documented example, with ids that do not exist."""
    tool = {"name": "string", "parameter_type": "string", "description": "string", "required": True, "default": None}
    nothing = {"property1": None, "property2": None}
    config: dict[str, Any] = {
        "sampling_params": {"strategy": {"type": "greedy"}, "max_tokens": 0, "repetition_penalty": 1},
        "input_shields": ["string"],
        "output_shields": ["string"],
        "toolgroups": ["string"],
        "client_tools": [{"name": "string", "description": "string", "parameters": [tool], "metadata": nothing}],
        "tool_choice": "auto",
        "tool_prompt_format": "json",
        "tool_config": {"tool_choice": "auto", "tool_prompt_format": "json", "system_message_behavior": "append"},
        "max_infer_iters": 10,
        "model": "string",
        "instructions": "string",
        "enable_session_persistence": False,
        "response_format": {"type": "json_schema", "json_schema": nothing},
    }
    world.serve(model_url="offline")
    for body in (config, {**config, "toolgroups": [], "response_format": None}):
        raw = json.dumps({"agent_config": body}, indent=2).encode()
        agent_id = world.send("POST", "/v1/agents", raw=raw, content_type="application/json").json()["agent_id"]
        world.get(f"/v1/agents/{agent_id}")
        session = world.session(agent_id)
        world.turn(session, "string")
        world.get(session)
    world.get("/v1/agents")
    world.get(f"/v1/agents/{agent_id}/sessions")
