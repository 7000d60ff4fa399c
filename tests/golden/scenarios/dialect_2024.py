"""Requests of a client of September 2024, at both of its prefixes."""

from __future__ import annotations

from typing import Any

from tests.golden.models import tool_loop
from tests.golden.scenarios.registry import scenario
from tests.golden.world import World

CLIENT_TOOL = {
    "type": "function_call",
    "function_name": "look",
    "description": "Look at a place.",
    "parameters": {"at": {"param_type": "string", "description": "Where.", "required": True}},
}
CONFIG: dict[str, Any] = {
    "model": "m",
    "instructions": "Be brief.",
    "sampling_params": {"strategy": "top_p", "temperature": 0.5, "top_p": 0.9},
    "input_shields": [],
    "output_shields": [],
    "tool_choice": "auto",
    "max_infer_iters": 5,
    "enable_session_persistence": True,
}
PREFIXES = ("/agents", "/alpha/agents")


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


@scenario("tests/e2e/clients/test_2024_clients.py", "tests/unit/turns/test_2024_dialect.py")
def conversation(world: World) -> None:
    world.serve(model_url=world.model(tool_loop))
    for prefix in PREFIXES:
        agent = world.post(f"{prefix}/create", {"agent_config": {**CONFIG, "tools": [CLIENT_TOOL]}})
        session = {**agent, **world.post(f"{prefix}/session/create", {**agent, "session_name": "s"})}
        turn = f"{prefix}/turn/create"
        world.send("POST", turn, {**session, "messages": [user("hi")], "stream": True})
        world.send("POST", turn, {**session, "messages": [user("look")], "stream": True})
        call_id = world.post(f"{prefix}/session/get", session)["turns"][-1]["output_message"]["tool_calls"][0][
            "call_id"
        ]
        answer = {"role": "ipython", "call_id": call_id, "tool_name": "look", "content": "rain"}
        world.send("POST", turn, {**session, "messages": [answer], "stream": True})
        values = world.post(turn, {**session, "messages": [user("hi")], "stream": False})
        named = {**agent, "turn_id": values["turn_id"]}
        query = "&".join(f"{name}={value}" for name, value in named.items())
        step_id = values["steps"][0]["step_id"]
        world.get(f"{prefix}/turn/get?{query}")
        world.post(f"{prefix}/turn/get", {**session, **named})
        world.get(f"{prefix}/step/get?{query}&step_id={step_id}")
        world.post(f"{prefix}/step/get", {**session, **named, "step_id": step_id})
        world.post(f"{prefix}/session/get", {**session, "turn_ids": [values["turn_id"]]})
        world.get(f"/v1/agents/{agent['agent_id']}")
        for path, body in (
            ("/session/delete", session),
            ("/session/get", session),
            ("/delete", agent),
            ("/delete", agent),
        ):
            world.send("POST", f"{prefix}{path}", body)


@scenario("tests/e2e/clients/test_2024_clients.py")
def server_tools_and_refusals(world: World) -> None:
    world.serve(model_url=world.model(tool_loop))
    agent = world.post(
        "/agents/create",
        {"agent_config": {"model": "tool:current_time", "instructions": "", "toolgroups": ["builtin::clock"]}},
    )
    session = {**agent, **world.post("/agents/session/create", {**agent, "session_name": "s"})}
    world.send("POST", "/agents/turn/create", {**session, "messages": [user("what time?")], "stream": True})
    memory = {"type": "memory", "memory_bank_configs": [{"type": "vector", "bank_id": "b"}]}
    world.send("POST", "/agents/create", {"agent_config": {**CONFIG, "tools": [memory]}})
    attached = {**session, "messages": [user("hi")], "attachments": [{"content": "x", "mime_type": "a/b"}]}
    world.send("POST", "/agents/turn/create", attached)
    for path in ("/session/create", "/session/get", "/turn/create", "/turn/get", "/step/get", "/session/delete"):
        world.send("POST", f"/agents{path}", {"agent_id": "x", "session_id": "y", "turn_id": "z", "step_id": "s"})
        world.send("POST", f"/agents{path}", {})
    world.send("GET", "/agents/turn/get?agent_id=x")
    world.send("GET", "/agents/step/get?agent_id=x&turn_id=y&step_id=z")
