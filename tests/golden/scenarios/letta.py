"""Letta's API: agents with memory blocks, their messages, and refusals."""

from __future__ import annotations

from typing import Any

from tests.golden.scenarios.registry import scenario
from tests.golden.world import World
from tests.support.clients.forms import FORM_TYPE, form_of

LETTA = "/letta/v1"
AGENTS = f"{LETTA}/agents"
CONFIG = {"llm_config": {"model": "stub-llm"}, "system": "Be brief. {CORE_MEMORY}", "name": "Sam"}
APPEND = 'call core_memory_append {"inner_thoughts": "I keep it.", "label": "human", "content": "tea"}'
KEEP = 'call archival_memory_insert {"inner_thoughts": "I keep it.", "content": "Grass is green."}'
FIND = 'call archival_memory_search {"inner_thoughts": "I look.", "query": "grass"}'
RECALL = 'call conversation_search {"inner_thoughts": "I look.", "query": "Hello"}'
SEND = 'call send_message {"inner_thoughts": "I answer.", "message": "Hello."}'


def texts(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "text": text}], **more}


@scenario(
    "tests/e2e/letta/test_letta_client.py",
    "tests/e2e/letta/test_letta_registries.py",
    "tests/integration/letta/test_letta_agents.py",
)
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
    world.get(f"{agent}/messages?limit=2&msg_object=true")
    world.send("GET", f"{agent}/messages?before=message-0")
    world.send("POST", f"{agent}/messages", texts("hello", messages=[{"role": "assistant", "text": "x"}]))
    world.send("POST", f"{agent}/messages/stream", texts("hello", stream_tokens=True))
    for wrong in ({"name": "x"}, {**CONFIG, "name": "bad/name!"}, {**CONFIG, "source_ids": ["s"]}):
        world.send("POST", AGENTS, wrong)
    world.send("POST", AGENTS, {**CONFIG, "tool_ids": ["tool-0"]})
    (passage,) = world.post(f"{agent}/archival", {"text": "The sky is blue."})
    for path in (f"{memory}/archival", f"{agent}/archival?limit=1", f"{agent}/archival?after=passage-none"):
        world.send("GET", path)
    for text in (KEEP, FIND, RECALL):
        world.send("POST", f"{agent}/messages", texts(text))
    for _ in range(2):
        world.send("DELETE", f"{agent}/archival/{passage['id']}")
    keep_registries(world, agent)
    world.send("PATCH", f"{agent}/reset-messages?add_default_initial_messages=true")
    world.send("PATCH", f"{agent}/reset-messages")
    world.send("GET", f"{agent}/messages?limit=1")
    world.send("GET", f"{LETTA}/nothing")
    world.send("DELETE", agent)
    world.send("GET", agent)
    world.send("PATCH", agent, {"name": "x"})
    world.work()


@scenario("tests/e2e/letta/test_letta_runs.py", "tests/integration/letta/test_letta_runs.py")
def of_runs(world: World) -> None:
    world.serve()
    agent = f"{AGENTS}/{world.post(f'{AGENTS}/', CONFIG)['id']}"
    ended, failed = (_begun(world, agent, text) for text in (SEND, "fail 500"))
    for path in (f"{LETTA}/runs", f"{LETTA}/runs/active", ended, failed, f"{ended}/messages?role=assistant"):
        world.send("GET", path)
    for path in (f"{ended}/usage", f"{ended}/messages?role=none", f"{ended}/messages?cursor=message-0"):
        world.send("GET", path)
    for _ in range(2):
        world.send("DELETE", ended)
    world.send("PATCH", f"{agent}/reset-messages")
    world.send("GET", failed)
    world.send("POST", f"{AGENTS}/agent-none/messages/async", texts(SEND))
    world.send("DELETE", agent)
    world.work()


def _begun(world: World, agent: str, text: str) -> str:
    """Return the path of a run that has ended."""
    run_id = world.post(f"{agent}/messages/async", texts(text))["id"]
    world.settle()
    return f"{LETTA}/runs/{run_id}"


@scenario("tests/e2e/letta/test_letta_tokens.py", "tests/integration/letta/test_letta_streams.py")
def of_tokens(world: World) -> None:
    world.serve()
    agent = f"{AGENTS}/{world.post(f'{AGENTS}/', CONFIG)['id']}"
    for text in (SEND, APPEND, "hello", "fail 500"):
        world.send("POST", f"{agent}/messages/stream", texts(text, stream_tokens=True))
    world.work()


def keep_registries(world: World, agent: str) -> None:
    """Change the tools and the blocks of the agent, and read its context."""
    (tool,) = (each["id"] for each in world.get(f"{LETTA}/tools") if each["name"] == "conversation_search")
    for path in (
        f"tools/{tool}",
        "tools/name/send_message",
        "tools/name/none",
        "models/embedding",
        "tags",
        "tags?limit=0",
    ):
        world.send("GET", f"{LETTA}/{path}")
    for verb in ("remove-tool", "add-tool"):
        for name in (tool, "tool-0"):
            world.send("PATCH", f"{agent}/{verb}/{name}")
    world.send("POST", f"{agent}/messages", texts(SEND))
    for path in ("tools", "context", "memory/messages", "memory/recall"):
        world.send("GET", f"{agent}/{path}")
    blocks = f"{LETTA}/blocks"
    own = world.post(blocks, {"label": "team", "value": "We like tea.", "limit": 20})["id"]
    world.send("POST", blocks, {"label": "team", "value": "We like tea.", "limit": 2})
    for query in ("", "?templates_only=false&limit=1", "?label=team&templates_only=no", "?cursor=block-none"):
        world.send("GET", blocks + query)
    block, of_agent = f"{blocks}/{own}", f"?agent_id={agent.removeprefix(AGENTS + '/')}"
    for query in (of_agent, of_agent, ""):
        world.send("PATCH", f"{block}/attach{query}")
    world.send("PATCH", block, {"value": "We like cake."})
    world.send("PATCH", block, {"label": "human"})
    world.send("GET", f"{agent}/memory/block/team")
    for _ in range(2):
        world.send("PATCH", f"{block}/detach{of_agent}")
    for _ in range(2):
        world.send("DELETE", block)
    world.send("GET", block)
    world.send("PATCH", agent, {"block_ids": [own]})


@scenario("tests/e2e/letta/test_letta_edits.py", "tests/integration/letta/test_letta_edits.py")
def of_edits(world: World) -> None:
    world.serve()
    agent = f"{AGENTS}/{world.post(f'{AGENTS}/', CONFIG)['id']}"
    (_, sent) = world.post(f"{agent}/messages", texts(SEND))["messages"]
    message = f"{agent}/messages/{sent['id']}"
    world.send("PATCH", f"{message[:-1]}0", {"text": "edited"})
    world.send("PATCH", message, {"text": "I thought."})
    world.send("PATCH", f"{message[:-1]}0", {"tool_call_id": "x"})
    world.send("PATCH", f"{agent}/messages/message-0", {"text": "edited"})
    world.send("POST", f"{agent}/messages", texts("hello"))
    world.get(f"{agent}/messages?limit=100")


@scenario(
    "tests/e2e/letta/test_letta_files.py",
    "tests/e2e/letta/test_letta_multi_agent.py",
    "tests/e2e/letta/test_letta_pressure.py",
    "tests/integration/letta/test_letta_imports.py",
)
def of_files(world: World) -> None:
    world.serve()
    agent = f"{AGENTS}/{world.post(f'{AGENTS}/', CONFIG)['id']}"
    world.post(f"{agent}/messages", texts(SEND))
    for query in ("", "?scrub_messages=true", "?use_legacy_format=true"):
        world.send("GET", f"{agent}/export{query}")
    content = b'{"agents": [{"name": "Ann", "llm_config": {"model": "offline"}}], "groups": []}'
    for sent in (content, content.replace(b"[]", b'[{"id": "group-0"}]')):
        world.send("POST", f"{AGENTS}/import", raw=form_of({"name": "Ann"}, sent), content_type=FORM_TYPE)
