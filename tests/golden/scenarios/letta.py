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
ROLL = "def roll(sides: int):\n    'Roll a die.'\n    return sides\n"
CALL_ROLL = 'call roll {"inner_thoughts": "I roll.", "sides": 6, "request_heartbeat": true}'
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
    begin_with_messages(world)
    world.send("PATCH", f"{agent}/reset-messages?add_default_initial_messages=true")
    world.send("PATCH", f"{agent}/reset-messages")
    world.send("GET", f"{agent}/messages?limit=1")
    world.send("GET", f"{LETTA}/nothing")
    world.send("DELETE", agent)
    world.send("GET", agent)
    world.send("PATCH", agent, {"name": "x"})
    world.work()


@scenario("tests/integration/letta/test_letta_agents.py", fails_by=("not_runnable",))
def of_rules_that_allow_no_tool(world: World) -> None:
    """`not_runnable`: the first call has to be of a tool that the agent lacks."""
    world.serve()
    rules = [{"type": "InitToolRule", "tool_name": "missing"}]
    only_send = {**CONFIG, "include_base_tools": False, "tools": ["send_message"], "tool_rules": rules}
    agent = f"{AGENTS}/{world.post(AGENTS, only_send)['id']}"
    world.send("POST", f"{agent}/messages", texts(SEND))
    world.send("POST", f"{agent}/messages/stream", texts(SEND))
    world.get(f"{agent}/messages?limit=100")


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


@scenario("tests/e2e/letta/test_letta_sources.py", "tests/integration/letta/test_letta_sources.py")
def of_sources(world: World) -> None:
    world.serve()
    sources, jobs = f"{LETTA}/sources", f"{LETTA}/jobs"
    birds, fish = (
        world.post(sources, {"name": name, "embedding_config": {"embedding_model": "x"}})["id"]
        for name in ("birds", "fish")
    )
    source, agent_id = f"{sources}/{birds}", world.post(f"{AGENTS}/", {**CONFIG, "source_ids": [fish]})["id"]
    agent, of_agent = f"{AGENTS}/{agent_id}", f"?agent_id={agent_id}"
    for wrong in ({}, {"name": ""}, {"name": "x", "metadata_": "x"}):
        world.send("POST", sources, wrong)
    world.send("PATCH", source, {"description": "d", "metadata_": {"k": 1}, "name": "terns"})
    for path in ("", "/", f"?cursor={birds}&limit=1", "/name/terns", "/name/birds", f"/{birds}", "/source-none"):
        world.send("GET", sources + path)
    for name, content in (("terns.txt", b"Terns dive for fish. " * 200), ("empty.bin", b"")):
        world.send("POST", f"{source}/upload", raw=form_of({}, content, filename=name), content_type=FORM_TYPE)
    for query in ("", f"?source_id={birds}", f"?source_id={fish}", "/active"):
        world.send("GET", jobs + query)
    world.work()
    _keep_source(world, source, agent, of_agent)
    for _ in range(2):
        world.send("DELETE", source)
    world.send("DELETE", agent)
    world.pass_time(180)
    world.work()


def _keep_source(world: World, source: str, agent: str, of_agent: str) -> None:
    """Read the files, passages and jobs of the source, attach it, and delete a file and a job."""
    second, first = (f"{LETTA}/jobs/{job['id']}" for job in world.get(f"{LETTA}/jobs"))
    world.send("GET", first)
    files = [file["id"] for file in world.get(f"{source}/files")]
    for path in (f"files?limit=1&cursor={files[0]}", "files?cursor=file-none", "passages?limit=1"):
        world.send("GET", f"{source}/{path}")
    for query in (of_agent, of_agent, ""):
        world.send("POST", f"{source}/attach{query}")
    for path in ("/sources", "/archival?limit=2", "/memory/archival", ""):
        world.send("GET", agent + path)
    world.send("POST", f"{agent}/messages", texts(FIND.replace("grass", "terns")))
    for ids in ([source.rpartition("/")[2], "source-none"], [source.rpartition("/")[2]]):
        world.send("PATCH", agent, {"source_ids": ids})
    world.send("POST", f"{source}/detach{of_agent}")
    world.send("GET", f"{agent}/archival")
    for target in (second, f"{source}/{files[0]}"):
        for _ in range(2):
            world.send("DELETE", target)
    world.send("GET", first)


@scenario("tests/e2e/letta/test_letta_tokens.py", "tests/integration/letta/test_letta_streams.py")
def of_tokens(world: World) -> None:
    world.serve()
    agent = f"{AGENTS}/{world.post(f'{AGENTS}/', CONFIG)['id']}"
    for text in (SEND, APPEND, "hello", "fail 500"):
        world.send("POST", f"{agent}/messages/stream", texts(text, stream_tokens=True))
    world.work()


@scenario("tests/e2e/letta/test_letta_tools.py", "tests/integration/letta/test_letta_tools.py")
def of_python_tools(world: World) -> None:
    world.serve()
    tools, roll = f"{LETTA}/tools", {"source_code": ROLL}
    tool = world.post(tools, {**roll, "tags": ["dice"]})["id"]
    for body in (roll, {"source_code": "def roll(:"}, {"source_code": "x = 1"}, {**roll, "return_char_limit": 0}):
        world.send("POST", tools, body)
    world.send("PUT", tools, {**roll, "tags": ["new"]})
    for path in (tools, f"{tools}?limit=1", f"{tools}?cursor={tool}", f"{tools}/{tool}", f"{tools}/name/roll"):
        world.send("GET", path)
    world.send("PATCH", f"{tools}/{tool}", {"return_char_limit": 9})
    world.send("PATCH", f"{tools}/{tool}", {"name": "none"})
    base = next(each["id"] for each in world.get(tools) if each["name"] == "send_message")
    for method in ("PATCH", "DELETE"):
        world.send(method, f"{tools}/{base}", {})
    world.send("POST", f"{tools}/run", {**roll, "args": {"sides": "6"}})
    variables = {"tool_exec_environment_variables": {"API_KEY": "hush"}}
    agent = f"{AGENTS}/{world.post(AGENTS, {**CONFIG, 'tools': ['roll'], **variables})['id']}"
    world.send("POST", f"{agent}/messages", texts(CALL_ROLL))
    for verb in ("remove-tool", "add-tool"):
        world.send("PATCH", f"{agent}/{verb}/{tool}")
    world.send("PATCH", agent, {"tool_exec_environment_variables": {}})
    for _ in range(2):
        world.send("DELETE", f"{tools}/{tool}")
    world.send("GET", f"{agent}/tools")
    world.send("DELETE", agent)
    world.work()


def begin_with_messages(world: World) -> None:
    """Create an agent by the handles of its models, with rules without a type and first messages."""
    first = [{"role": "system", "text": "Bob is new."}, {"role": "user", "text": "hello"}]
    rules = [{"tool_name": "core_memory_append", "children": ["send_message"]}]
    handles = {"llm": CONFIG["llm_config"]["model"], "embedding": "p/vectors", "embedding_chunk_size": 300}
    begun = world.post(AGENTS, {"name": "Eve", **handles, "tool_rules": rules, "initial_message_sequence": first})["id"]
    world.get(f"{AGENTS}/{begun}/messages")
    world.send("POST", f"{AGENTS}/{begun}/messages", texts("hello"))
    for wrong in ({"embedding_chunk_size": 100}, {"initial_message_sequence": [{"role": "assistant", "text": "x"}]}):
        world.send("POST", AGENTS, {**handles, **wrong})
    named = [{"role": "user", "text": "hello", "name": "bob"}]
    world.send("POST", f"{AGENTS}/{begun}/messages", texts("hello", messages=named))
    world.send("DELETE", f"{AGENTS}/{begun}")


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


@scenario("tests/e2e/letta/test_letta_later.py", "tests/contract/letta/test_later_methods.py")
def of_later_clients(world: World) -> None:
    world.serve()
    folders = f"{LETTA}/folders"
    birds, fish = (world.post(folders, {"name": name})["id"] for name in ("birds", "fish"))
    made = world.post(AGENTS, {**CONFIG, "source_ids": [birds, fish]})
    agent, (tool, *_) = f"{AGENTS}/{made['id']}", [each["id"] for each in made["tools"]]
    for change in ("detach", "attach"):
        world.send("PATCH", f"{agent}/tools/{change}/{tool}")
    first, *_ = world.get(f"{agent}/tools?limit=1")
    for query in (f"?after={first['id']}&limit=2", "?after=tool-none", "?order=desc"):
        world.send("GET", f"{agent}/tools{query}")
    _keep_memory(world, agent)
    for query in ("", f"?after={birds}", f"?before={birds}"):
        world.send("GET", f"{agent}/folders{query}")
        world.send("GET", f"{folders}{query}")
    world.send("PATCH", f"{folders}/{birds}", {"name": "terns"})
    world.send("PATCH", f"{folders}/{birds}", {"metadata": {"k": 1}})
    for path in ("", "/files", "/agents"):
        world.send("GET", f"{folders}/{birds}{path}")
    world.send("DELETE", f"{folders}/{birds}/file-none")
    world.send("DELETE", f"{folders}/{birds}")
    world.send("POST", f"{folders}/{fish}/upload")


def _keep_memory(world: World, agent: str) -> None:
    """Keep a block and a passage, and read both."""
    blocks, passages = f"{agent}/core-memory/blocks", f"{agent}/archival-memory"
    world.send("POST", blocks, {"label": "pet", "value": "cat"})
    world.send("PATCH", f"{blocks}/pet", {"value": "dog"})
    world.send("PATCH", f"{blocks}/pet", {"value": "dog", "read_only": True})
    for path in ("", "?limit=1", "/pet", "/attach/block-none"):
        world.send("GET" if "attach" not in path else "PATCH", f"{blocks}{path}")
    world.send("DELETE", f"{blocks}/pet")
    (passage,) = world.post(passages, {"text": "The sky is blue."})
    world.send("POST", passages, {"text": "The sky is blue.", "tags": ["sky"]})
    for query in ("", "?ascending=false", "?search=sky", "/search?query=sky"):
        world.send("GET", passages + query)
    world.send("DELETE", f"{passages}/{passage['id']}")
