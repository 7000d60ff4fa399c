"""Letta's API: agents with memory blocks, their messages, and refusals."""

from __future__ import annotations

from typing import Any

from tests.golden.scenarios.registry import scenario
from tests.golden.world import World

LETTA = "/letta/v1"
AGENTS = f"{LETTA}/agents"
CONFIG = {"llm_config": {"model": "stub-llm"}, "system": "Be brief. {CORE_MEMORY}", "name": "Sam"}
APPEND = 'call core_memory_append {"inner_thoughts": "I keep it.", "label": "human", "content": "tea"}'
SEND = 'call send_message {"inner_thoughts": "I answer.", "message": "Hello."}'


def texts(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "text": text}], **more}


@scenario("tests/e2e/letta/test_letta_client.py", "tests/integration/letta/test_letta_agents.py")
def of_agents(world: World) -> None:
    world.serve()
    for path in ("health", "health/", "models", "tools"):
        world.get(f"{LETTA}/{path}")
    world.send("POST", f"{LETTA}/tools/add-base-tools")
    human = {"label": "human", "value": "name: Bob"}
    sam = world.post(f"{AGENTS}/", {**CONFIG, "memory_blocks": [human], "tags": ["a"], "metadata_": {"k": 1}})["id"]
    world.post(AGENTS, {**CONFIG, "name": "Ann", "include_base_tools": False})
    agent, memory = f"{AGENTS}/{sam}", f"{AGENTS}/{sam}/memory"
    for query in ("", "?limit=1", f"?cursor={sam}", "?tags=a&name=Sam", "?query_text=none", "?limit=0"):
        world.send("GET", AGENTS + query)
    world.get(agent)
    world.send("POST", f"{memory}/block", {"label": "pet", "value": "cat", "limit": 10})
    world.send("POST", f"{memory}/block", {"label": "pet", "value": "dog"})
    world.send("PATCH", f"{memory}/block/pet", {"value": "dog"})
    world.send("PATCH", f"{memory}/block/pet", {"value": "a dog and a cat"})
    for path in (memory, f"{memory}/block", f"{memory}/block/pet", f"{memory}/block/none"):
        world.send("GET", path)
    world.send("DELETE", f"{memory}/block/pet")
    world.send("PATCH", agent, {"description": "d", "tags": ["b"], "tool_rules": []})
    world.send("GET", f"{agent}/messages")
    for text in (SEND, APPEND, "hello"):
        world.send("POST", f"{agent}/messages", texts(text))
        world.send("POST", f"{agent}/messages/stream", texts(text))
    world.send("POST", f"{agent}/messages", texts(SEND, config={"use_assistant_message": False}))
    world.send("POST", f"{agent}/messages", texts("fail 500"))
    world.send("POST", f"{agent}/messages/stream", texts("fail 500"))
    world.get(f"{agent}/messages?limit=100")
    world.send("GET", f"{agent}/messages?before=message-0")
    world.send("POST", f"{agent}/messages", texts("hello", messages=[{"role": "assistant", "text": "x"}]))
    world.send("POST", f"{agent}/messages/stream", texts("hello", stream_tokens=True))
    for wrong in ({"name": "x"}, {**CONFIG, "name": "bad/name!"}, {**CONFIG, "source_ids": ["s"]}):
        world.send("POST", AGENTS, wrong)
    world.send("POST", AGENTS, {**CONFIG, "tool_ids": ["tool-0"]})
    run = f"{LETTA}/runs/{world.post(f'{agent}/messages/async', texts(SEND))['id']}"
    world.settle()
    for path in (f"{LETTA}/runs", f"{LETTA}/runs/active", run, f"{run}/messages?role=assistant", f"{run}/usage"):
        world.send("GET", path)
    world.send("GET", f"{run}/messages?role=none")
    for _ in range(2):
        world.send("DELETE", run)
    world.send("GET", f"{LETTA}/nothing")
    world.send("DELETE", agent)
    world.send("GET", agent)
    world.send("PATCH", agent, {"name": "x"})
    world.work()
