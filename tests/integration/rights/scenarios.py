"""The requests to the functions while their calls are recorded: every route, and the events beside requests.

Each scenario runs as it is, then again for each of its conditional writes, which is then refused, as if another
writer had been faster, or throttled, and again with every payload lost.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import md5
from typing import Any

import pytest

from tests.integration.rights.calls import BUCKET, TABLE
from tests.integration.rights.stage import (
    CALL,
    FILE,
    FUTURE,
    MAKE,
    MODELS,
    NOISE,
    OTHER_FILES,
    OTHER_SHIELDS,
    PAST,
    SHIELDS,
    Act,
    Session,
    Stage,
    turn_body,
)
from tests.support.aws.aws_events import ACCOUNT, FOLDER, Context, load_event
from tests.support.clients.forms import form_of
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.adapters.machine.system import RandomIds, SystemClock
from turnstone.adapters.tools.mcp.mcp import McpToolbox
from turnstone.adapters.webhooks.guarded_sender import GuardedSender
from turnstone.domain.access.caller import Caller
from turnstone.domain.jobs import Job
from turnstone.domain.letta.agents import tool_id
from turnstone.domain.refs import TurnRef
from turnstone.domain.tools.tool_runs import ToolResult
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.webhooks.webhooks import EVENT_TYPES
from turnstone.services.access.api_keys import ApiKeys
from turnstone.services.memory.folding import AT_ONCE_FROM, FOLDED_FROM
from turnstone.store.access.api_keys import ApiKeyStore
from turnstone.store.cleanup.jobs import put_job
from turnstone.store.files.contents import ContentRef, FileContents, StoredPart, completed
from turnstone.store.files.files import cleaning_of
from turnstone.store.layout.keys import job_shards

TOOLS = ["builtin::code_interpreter", "builtin::photogen"]
MCP = {"provider_id": "model-context-protocol", "mcp_endpoint": {"uri": "https://mcp.example/mcp"}}
WORDS = [NOISE[first : first + 100] for first in range(0, len(NOISE), 100)]
REGISTERED = [
    ("models", {"model_id": "m", "provider_id": "local"}),
    ("models", {"model_id": "large", "provider_id": "local", "metadata": {"note": NOISE}}),
    ("toolgroups", {"toolgroup_id": "g", **MCP, "args": {}}),
    ("toolgroups", {"toolgroup_id": "large", **MCP, "args": {"note": NOISE}}),
    ("shields", {"shield_id": "s", "provider_id": "bedrock", "provider_shield_id": "gr1"}),
    ("shields", {"shield_id": "large", "provider_id": "pattern", "params": {"words": WORDS}}),
]


BIRDS = "https://birds.example/mcp"
COUNTED = {"type": "object", "properties": {"place": {"type": "string"}}}
RESPONSES, WEBHOOKS, LETTA, RUNS = "/v1/responses", "/v1/webhooks", "/letta/v1/agents", "/letta/v1/runs"
LARGE = NOISE * 8  # more than a stored chat completion has in its record
FOLLOWED_MS = 300
TOOL_CALLS = (
    ("current_time", {}),
    ("code_interpreter", {"code": "x"}),
    ("photogen", {"query": "a cat"}),
    ("web_search", {"query": "cats"}),
)


def run_all(stage: Stage) -> None:
    """Run the chosen plays: every scenario, and those whose writes may be refused in every way."""
    with_writes = [
        *_named("requests", _requests(stage)),
        *_named("turns", _turns(stage)),
        *_named("background", _backgrounds(stage)),
    ]
    others = _named("others", _others(stage))
    for name, scenario in with_writes:
        if stage.is_chosen(name):
            stage.every_way(name, scenario)
    for name, scenario in (*_named("models", _inferences(stage)), *others):
        if stage.is_chosen(name):
            stage.play(name, scenario)
    for name, scenario in (*with_writes, *others):
        if stage.is_chosen(lost := f"{name}, payloads lost"):
            stage.play_with_lost_payloads(lost, scenario)
    for number, file in enumerate(OTHER_FILES):
        if stage.is_chosen(name := f"file {number}"):
            stage.play(name, lambda file=file: _with_another_file(stage, file))
    stage.restart(FILE)
    _run_responses(stage)
    _run_letta(stage)
    _run_webhooks(stage)


def _run_webhooks(stage: Stage) -> None:
    for name, scenario in _named("webhooks", _webhooks(stage)):
        if stage.is_chosen(name):
            stage.restart(FILE)  # functions remember the webhooks of their tenant
            stage.every_way(name, scenario)
    stage.restart(FILE)


def _run_letta(stage: Stage) -> None:
    letta = _named("letta", _letta(stage))
    for name, scenario in letta:
        if stage.is_chosen(name):
            stage.every_way(name, scenario)
    for name, scenario in _named("letta of models", _letta_of_models(stage)):
        if stage.is_chosen(name):
            stage.play(name, scenario)
    for name, scenario in letta:
        if stage.is_chosen(lost := f"{name}, payloads lost"):
            stage.play_with_lost_payloads(lost, scenario)


def _run_responses(stage: Stage) -> None:
    responses = _named("responses", _responses(stage))
    for name, scenario in responses:
        if stage.is_chosen(name):
            stage.every_way(name, scenario)
    for name, scenario in _named("responses of models", _responses_of_models(stage)):
        if stage.is_chosen(name):
            stage.play(name, scenario)
    for name, scenario in responses:
        if stage.is_chosen(lost := f"{name}, payloads lost"):
            stage.play_with_lost_payloads(lost, scenario)


def _named(kind: str, scenarios: Iterable[Callable[[], Act]]) -> list[tuple[str, Callable[[], Act]]]:
    return [(f"{kind} {number}", scenario) for number, scenario in enumerate(scenarios)]


def _with_another_file(stage: Stage, file: str) -> Act:
    stage.restart(file)
    act = _names_what_is_registered(stage)

    def use() -> None:
        act()
        stage.functions.answer("GET", "/v1/models")
        stage.functions.answer("POST", "/v1/tool-runtime/invoke", {"tool_name": "photogen", "kwargs": {"query": "x"}})

    return use


def _requests(stage: Stage) -> Iterator[Callable[[], Act]]:
    """Yield scenarios of agents, sessions and registered resources."""
    for instructions in ("", NOISE):
        config = {"model": "local", "instructions": instructions, "toolgroups": TOOLS}
        yield lambda config=config: lambda: _twice(stage, "/v1/agents", {"agent_config": config})
        yield lambda config=config: lambda: _twice(stage, "/agents/create", {"agent_config": config})
        yield lambda config=config: _reads_of_agent(stage, stage.agent(**config))
    for agent_id in (stage.agent, lambda: stage.agent(enable_session_persistence=True)):
        yield lambda agent_id=agent_id: _opens_session(stage, agent_id())
    yield lambda: _deletes(stage, stage.session())
    yield lambda: _deletes_2024(stage, stage.session())
    large = {"instructions": NOISE, "name": NOISE}
    yield lambda: _opens_session(stage, stage.agent(instructions=NOISE), NOISE)
    yield lambda: _deletes(stage, stage.session(**large))
    yield lambda: _deletes_2024(stage, stage.session(**large))
    for prompt in ("hello", LARGE):
        yield lambda prompt=prompt: lambda: _stores_completion(stage, prompt)
    yield lambda: lambda: _keeps_memory(stage, "hello")
    yield lambda: lambda: _keeps_memory(stage, NOISE)
    for content in (b"hello", LARGE.encode()):
        yield lambda content=content: lambda: _keeps_files(stage, content)
    yield lambda: _names_what_is_registered(stage)
    for kind, definition in REGISTERED:
        yield lambda kind=kind, definition=definition: lambda: _registers(stage, kind, definition)
    yield lambda: lambda: _keeps_documents(stage)
    for model, content in (("default-model", b"hello"), ("local", NOISE.encode()), ("titan", b"hello")):
        yield lambda model=model, content=content: lambda: _ingests_objects(stage, model, content)
    for model in ("local", "calls", "titan"):
        yield lambda model=model: lambda: _keeps_vector_stores(stage, model)


def _inferences(stage: Stage) -> Iterator[Callable[[], Act]]:
    """Yield scenarios of models and tools, over every function that calls them."""
    yield lambda: lambda: _infers_directly(stage)
    yield lambda: lambda: _reads_from_all(stage)
    guarded = {"input_shields": SHIELDS, "output_shields": SHIELDS, "toolgroups": TOOLS}
    for model in MODELS:
        for create in (_create, _create_2024):
            yield lambda create=create, model=model: _run_of(stage, create, stage.session(model=model, **guarded))
        yield lambda model=model: _resumed(stage, stage.overdue(until=FUTURE, model=model, **guarded), "4 degrees")
        yield lambda model=model: _taken_over(stage, stage.abandoned(model=model, **guarded))
        yield lambda model=model: _swept(stage, stage.abandoned(model=model, **guarded))


def _turns(stage: Stage) -> Iterator[Callable[[], Act]]:
    """Yield scenarios of turns, on today's paths and on those of 2024, and of clean-ups."""
    for create in (_create, _create_2024):
        for text in (CALL, MAKE, NOISE):
            yield lambda create=create, text=text: _run_of(stage, create, stage.session(toolgroups=TOOLS), text)
        yield lambda create=create: _run_after(stage, create, stage.overdue())
        yield lambda create=create: _run_after(stage, create, stage.abandoned())
        yield lambda create=create: _run_with_history(stage, create)
    for answer in ("4 degrees", MAKE, CALL, NOISE):
        config = {"until": FUTURE, "toolgroups": TOOLS, "model": "claude"}
        yield lambda config=config, answer=answer: _resumed(stage, stage.overdue(**config), answer)
    yield lambda: _cancelled(stage, stage.session())
    yield lambda: _cancelled(stage, stage.session(name=NOISE, instructions=NOISE))
    for text in (CALL, MAKE, NOISE):
        yield lambda text=text: _taken_over(stage, stage.abandoned(text, toolgroups=TOOLS))
        yield lambda text=text: _swept(stage, stage.abandoned(text, toolgroups=TOOLS))
    yield lambda: _taken_over(stage, stage.overdue())
    yield lambda: _swept(stage, stage.overdue())
    yield lambda: _clears(stage)


def _backgrounds(stage: Stage) -> Iterator[Callable[[], Act]]:
    """Yield scenarios of turns that are queued."""
    for text in ("hello", CALL, NOISE):
        yield lambda text=text: _run_in_background(stage, stage.session(toolgroups=TOOLS), text)
    yield lambda: _swept(stage, _lost_in_the_queue(stage))
    for follow in (_reads_of_turn, _cancels, _creates_after, _deletes_session_of):
        yield lambda follow=follow: _after_a_lost_start(stage, follow)


def _others(stage: Stage) -> Iterator[Callable[[], Act]]:
    """Yield scenarios of reads, of the authorizer, and the events of `events/`."""
    yield lambda: _reads(stage, stage.session(toolgroups=TOOLS))
    yield lambda: _reads(stage, stage.session(toolgroups=TOOLS, instructions=NOISE, name=NOISE))
    for ref in (stage.abandoned, stage.overdue):
        yield lambda ref=ref: lambda: _reads_of_turn(stage, ref())
        yield lambda ref=ref: lambda: _reads_of_turn(stage, ref(name=NOISE))
    yield lambda: lambda: _authorizes(stage)
    yield lambda: lambda: _answers_events(stage)


def _responses(stage: Stage) -> Iterator[Callable[[], Act]]:
    """Yield scenarios of responses: of a model and of an agent with tools, continued, forked, read and deleted."""
    for text in ("hello", CALL, MAKE, NOISE):
        yield lambda text=text: _responds(stage, f"agent/{stage.agent(toolgroups=TOOLS)}", text)
    for text in ("hello", NOISE):
        yield lambda text=text: lambda: _keeps_responses(stage, text)
    for text in ("please count(place=sea)", f"{NOISE} count(place=sea)"):
        yield lambda text=text: lambda: _approves(stage, text)


def _responses_of_models(stage: Stage) -> Iterator[Callable[[], Act]]:
    """Yield scenarios of responses that are played once: of each model, sent again, and not stored."""
    guarded = {"input_shields": SHIELDS, "output_shields": SHIELDS, "toolgroups": TOOLS}
    for model in MODELS:
        yield lambda model=model: _responds(stage, f"agent/{stage.agent(model=model, **guarded)}", "hello")
    # with a refused write, a request sent again waits a lease long for the turn that it joins
    yield lambda: lambda: _sends_again(stage)
    for text in ("hello", MAKE):
        yield lambda text=text: _stores_nothing(stage, f"agent/{stage.agent(toolgroups=TOOLS)}", text)


def _webhooks(stage: Stage) -> Iterator[Callable[[], Act]]:
    """Yield scenarios of webhooks, and of turns whose pauses and ends they are sent."""
    for is_large in (False, True):  # the list of what the tenant registered
        yield lambda is_large=is_large: _keeps_webhooks(stage, is_large=is_large)
    for create in (_create, _create_2024):
        yield lambda create=create: _hooked(stage, _run_of(stage, create, stage.session(), CALL))
    yield lambda: _hooked(stage, _run_of(stage, _create, stage.session()))
    yield lambda: _hooked(stage, _resumed(stage, stage.overdue(until=FUTURE), "4 degrees"))
    yield lambda: _hooked(stage, _taken_over(stage, stage.overdue()))
    yield lambda: _hooked(stage, _swept(stage, stage.overdue()))
    yield lambda: _hooked(stage, _cancels_response(stage))


def _keeps_webhooks(stage: Stage, *, is_large: bool) -> Act:
    """Create a webhook, read and change it; send it a test, whose receiver fails, is gone and accepts; delete it."""
    if is_large:
        stage.functions.answer("POST", "/v1/models", REGISTERED[1][1])
    body = {"url": "https://hooks.example/turns", "event_types": ["turn.completed"]}
    key = stage.key()
    answers: list[int] = [500, 204, 410]

    def send(*_: Any) -> int:
        return answers.pop(0) if answers else 204

    def act() -> None:
        for _ in range(2):
            _, made = stage.functions.answer("POST", WEBHOOKS, body, idempotency_key=key)
        webhook = f"{WEBHOOKS}/{made.get('webhook_id', 'none')}"
        stage.functions.answer("GET", WEBHOOKS)
        stage.functions.answer("GET", webhook)
        _twice(stage, webhook, {"description": "changed"})
        _twice(stage, f"{webhook}/rotate_secret", None)
        _twice(stage, f"{webhook}/test", None)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(GuardedSender, "send", send)
            stage.clean(*stage.deliveries())
            _, listed = stage.functions.answer("GET", f"{webhook}/deliveries")
            deliveries = [each["delivery_id"] for each in listed.get("data", ())] or ["none"]
            for _ in range(2):
                _twice(stage, f"{webhook}/deliveries/{deliveries[0]}/resend", None)
                stage.clean(*stage.deliveries())
        stage.functions.answer("DELETE", webhook)

    return act


def _hooked(stage: Stage, act: Act) -> Act:
    """Do the same with a webhook, and then have the events delivered."""
    body = {"url": "https://hooks.example/turns", "event_types": list(EVENT_TYPES)}
    stage.request("POST", WEBHOOKS, body)

    def with_events() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(GuardedSender, "send", lambda *_: 204)
            act()
            while jobs := stage.deliveries():
                stage.clean(*jobs)

    return with_events


def _cancels_response(stage: Stage) -> Act:
    ref = stage.overdue(until=FUTURE, settings={"origin": "responses", "runs_in_background": True})
    path = f"{Session(ref.agent_id, ref.session_id).path}/turn/{ref.turn_id}/cancel"
    return lambda: stage.functions.answer("POST", path, idempotency_key=stage.key())


def _responds(stage: Stage, model: str, text: str) -> Act:
    body, key = {"model": model, "input": text}, stage.key()

    def act() -> None:
        status, _ = stage.functions.answer("POST", RESPONSES, body, idempotency_key=key)
        if status == 200:  # a repeated request waits for a turn that was not seen to its end
            stage.functions.answer("POST", RESPONSES, body, idempotency_key=key)

    return act


def _letta(stage: Stage) -> Iterator[Callable[[], Act]]:
    """Yield scenarios of Letta's API: agents with blocks from creation to deletion, and messages to one with tools."""
    for text in ("hello", NOISE):
        yield lambda text=text: lambda: _keeps_letta_agent(stage, text)
    for text in ("hello", CALL, MAKE, NOISE):
        yield lambda text=text: _sends_text(stage, stage.agent(toolgroups=TOOLS), text)


def _letta_of_models(stage: Stage) -> Iterator[Callable[[], Act]]:
    guarded = {"input_shields": SHIELDS, "output_shields": SHIELDS, "toolgroups": TOOLS}
    for model in MODELS:
        yield lambda model=model: _sends_text(stage, stage.agent(model=model, **guarded), "hello")


def _sends_text(stage: Stage, agent_id: str, text: str) -> Act:
    path, body, key = f"{LETTA}/{agent_id}/messages", {"messages": [{"role": "user", "text": text}]}, stage.key()

    def act() -> None:
        status, _ = stage.functions.answer("POST", path, body, idempotency_key=key)
        if status == 200:  # a repeated request waits for a turn that was not seen to its end
            stage.functions.answer("POST", path, body, idempotency_key=key)
        stage.functions.answer("GET", path)

    return act


def _keeps_registries(answer: Callable[..., Any], agent_id: str) -> None:
    """Change the tools of the agent, read its context, and share a block with it."""
    agent, tool = f"{LETTA}/{agent_id}", f"tool-{tool_id('send_message')}"
    for path in (f"/letta/v1/tools/{tool}", "/letta/v1/tools/name/send_message", f"{agent}/tools", f"{agent}/context"):
        answer("GET", path)
    for path in ("messages", "recall"):
        answer("GET", f"{agent}/memory/{path}")
    for verb in ("remove-tool", "add-tool"):
        answer("PATCH", f"{agent}/{verb}/{tool}")
    _keeps_python_tools(answer, agent)
    blocks = "/letta/v1/blocks"
    block = f"{blocks}/{answer('POST', blocks, {'label': 'team', 'value': 'tea'})[1].get('id', 'block-none')}"
    answer("PATCH", f"{block}/attach?agent_id={agent_id}")
    answer("PATCH", block, {"value": "cake", "label": "we"})
    for path in (f"{blocks}?templates_only=false", block):
        answer("GET", path)
    answer("PATCH", f"{block}/detach?agent_id={agent_id}")
    answer("DELETE", block)


def _keeps_python_tools(answer: Callable[..., Any], agent: str) -> None:
    """Create a tool of Python, give it to the agent, run and delete it."""
    tools = "/letta/v1/tools"
    source = {"source_code": "def roll(sides: int):\n    'Roll a die.'\n    return sides\n"}
    tool = answer("POST", tools, source)[1].get("id", "tool-none")
    answer("PUT", tools, source)
    answer("PATCH", f"{agent}/add-tool/{tool}")
    answer("PATCH", f"{tools}/{tool}", {"tags": ["dice"]})
    for path in (tools, f"{tools}/{tool}", f"{tools}/name/roll", agent):
        answer("GET", path)
    answer("POST", f"{tools}/run", {**source, "args": {"sides": "6"}})
    answer("POST", f"{agent}/messages", {"messages": [{"role": "user", "text": "please roll(sides=6)"}]})
    answer("DELETE", f"{tools}/{tool}")


def _keeps_letta_agent(stage: Stage, text: str) -> None:
    """Create an agent with blocks, change and list it, send it a text, and delete it."""
    answer = stage.functions.answer
    block = {"label": "human", "value": text[:5_000]}
    body = {"name": "Sam", "llm_config": {"model": "local"}, "system": text, "memory_blocks": [block], "tags": ["a"]}
    made = [answer("POST", LETTA, body, idempotency_key=stage.key())[1].get("id", "agent-none") for _ in range(2)]
    agent = f"{LETTA}/{made[0]}"
    answer("PATCH", agent, {"name": "Ann", "tags": ["b"]})
    answer("POST", f"{agent}/memory/block", {"label": "pet", "value": "cat"})
    answer("PATCH", f"{agent}/memory/block/pet", {"value": "dog"})
    for path in (LETTA, f"{LETTA}?tags=b", agent, f"{agent}/memory", f"{agent}/memory/block/human"):
        answer("GET", path)
    answer("DELETE", f"{agent}/memory/block/pet")
    answer("POST", f"{agent}/messages", {"messages": [{"role": "user", "text": "hello"}]})
    shown = answer("GET", f"{agent}/messages")[1]
    newest = shown[-1]["id"] if isinstance(shown, list) else "message-none"
    answer("PATCH", f"{agent}/messages/{newest}", {"text": text[:5_000]})
    kept = answer("POST", f"{agent}/archival", {"text": text[:5_000]})[1]
    passage_id = kept[0]["id"] if isinstance(kept, list) else "passage-none"
    answer("GET", f"{agent}/archival")
    answer("GET", f"{agent}/memory/archival")
    answer("DELETE", f"{agent}/archival/{passage_id}")
    _keeps_registries(answer, made[0])
    content = answer("GET", f"{agent}/export")[1]
    form = form_of({}, json.dumps(content).encode())
    imported = answer("POST", f"{LETTA}/import", form)[1].get("agent_ids", ())
    for agent_id in imported:
        answer("DELETE", f"{LETTA}/{agent_id}")
    answer("PATCH", f"{agent}/reset-messages")
    _keeps_runs(stage, agent)
    _keeps_sources(stage, made[0])
    for path in ("models", "models/embedding", "tags", "tools"):
        answer("GET", f"/letta/v1/{path}")
    for agent_id in made:
        answer("DELETE", f"{LETTA}/{agent_id}")


def _keeps_sources(stage: Stage, agent_id: str) -> None:
    """Upload a file into a source of the agent, list and change it, and delete it."""
    answer, sources = stage.functions.answer, "/letta/v1/sources"
    body = {"name": "birds"}
    made = answer("POST", sources, body, idempotency_key=stage.key())[1].get("id", "source-none")
    source = f"{sources}/{made}"
    job_id = answer("POST", f"{source}/upload", form_of({}, b"Herons nest."))[1].get("id", "job-none")
    answer("PATCH", source, {"name": "terns"})
    answer("POST", f"{source}/attach?agent_id={agent_id}")
    shown = answer("GET", f"{source}/files")[1]
    file_id = shown[0]["id"] if isinstance(shown, list) and shown else "file-none"
    for path in (sources, f"{sources}/name/terns", source, f"{source}/passages", f"{LETTA}/{agent_id}/sources"):
        answer("GET", path)
    for path in ("jobs", "jobs/active", f"jobs/{job_id}"):
        answer("GET", f"/letta/v1/{path}")
    answer("POST", f"{source}/detach?agent_id={agent_id}")
    answer("DELETE", f"/letta/v1/jobs/{job_id}")
    answer("DELETE", f"{source}/{file_id}")
    answer("DELETE", source)


def _keeps_runs(stage: Stage, agent: str) -> None:
    """Begin a run of the agent, read and list it, and delete it."""
    answer = stage.functions.answer
    body = {"messages": [{"role": "user", "text": "hello"}]}
    run_id = answer("POST", f"{agent}/messages/async", body, idempotency_key=stage.key())[1].get("id", "run-none")
    run = f"{RUNS}/{run_id}"
    for path in (RUNS, f"{RUNS}/active", run, f"{run}/messages", f"{run}/usage"):
        answer("GET", path)
    answer("DELETE", run)


def _keeps_responses(stage: Stage, text: str) -> None:
    """Start a response, continue it twice, read and list all, and delete them."""
    made: list[str] = []
    for previous in (None, 0, 0):
        body = {"model": "local", "input": text, **({} if previous is None else {"previous_response_id": made[0]})}
        made.append(stage.functions.answer("POST", RESPONSES, body)[1].get("id", "resp_unknown"))
    stage.functions.answer("GET", f"{RESPONSES}?limit=2")
    for response_id in made:
        stage.functions.answer("GET", f"{RESPONSES}/{response_id}")
        stage.functions.answer("GET", f"{RESPONSES}/{response_id}/input_items")
        stage.functions.answer("DELETE", f"{RESPONSES}/{response_id}")


def _sends_again(stage: Stage) -> None:
    """Start a response and a fork of it, each sent again as the official client does that missed the answer."""
    body = {"model": "local", "input": "hello"}
    _, made = stage.functions.answer("POST", RESPONSES, body)
    previous = made.get("id", "resp_unknown")
    stage.functions.answer("POST", RESPONSES, {**body, "previous_response_id": previous})
    for again in (body, {**body, "previous_response_id": previous}):
        for count in ("0", "1"):
            stage.functions.answer("POST", RESPONSES, again, x_stainless_retry_count=count)


def _stores_nothing(stage: Stage, model: str, text: str) -> Act:
    """Continue a response without storing the next, and refer to an item of it."""
    body = {"model": model, "input": text}

    def act() -> None:
        _, made = stage.functions.answer("POST", RESPONSES, body)
        message = next((item["id"] for item in made.get("output", ()) if item["type"] == "message"), "msg_unknown")
        previous = made.get("id", "resp_unknown")
        stage.functions.answer("POST", RESPONSES, {**body, "store": False, "previous_response_id": previous})
        referring = [{"type": "item_reference", "id": message}, {"role": "user", "content": text}]
        stage.functions.answer("POST", RESPONSES, {**body, "input": referring, "store": False})

    return act


def _approves(stage: Stage, text: str) -> None:
    """Start a response that requests the approval of a call, approve it, and send the approval again."""
    body = {"model": "calls", "tools": [{"type": "mcp", "server_label": "birds", "server_url": BIRDS}]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(McpToolbox, "tools", lambda *_: (ToolDef(name="count", input_schema=COUNTED),))
        patch.setattr(McpToolbox, "invoke", lambda *_: ToolResult("4"))
        _, made = stage.functions.answer("POST", RESPONSES, {**body, "input": text})
        requested = made.get("output") or [{"id": "none"}]
        approval = {"type": "mcp_approval_response", "approval_request_id": requested[-1]["id"], "approve": True}
        continued = {**body, "previous_response_id": made.get("id", "resp_unknown"), "input": [approval]}
        for _ in range(2):
            stage.functions.answer("POST", RESPONSES, continued)


def _twice(stage: Stage, path: str, body: Any) -> None:
    """Send a request twice under one key, as a client does that missed the first answer."""
    key = stage.key()
    for _ in range(2):
        stage.functions.answer("POST", path, body, idempotency_key=key)


def _reads_of_agent(stage: Stage, agent_id: str) -> Act:
    stage.agent()

    def act() -> None:
        stage.request("GET", f"/v1/agents/{agent_id}")
        for query in ("", "?limit=1"):
            stage.request("GET", f"/v1/agents{query}")

    return act


def _opens_session(stage: Stage, agent_id: str, name: str = "s") -> Act:
    for _ in range(2):
        stage.over(agent_id)

    def act() -> None:
        _twice(stage, f"/v1/agents/{agent_id}/session", {"session_name": name})
        _twice(stage, "/agents/session/create", {"agent_id": agent_id, "session_name": name})
        stage.request("GET", f"/v1/agents/{agent_id}/sessions")

    return act


def _names_what_is_registered(stage: Stage) -> Act:
    """Name toolgroups and models of the tenant's own, the list of which is too large for a record."""
    for kind, definition in REGISTERED:
        stage.functions.answer("POST", f"/v1/{kind}", definition)
    config = {"model": "large", "instructions": "", "toolgroups": ["unknown"], "input_shields": ["unknown"]}

    def act() -> None:
        for path in ("/v1/agents", "/agents/create"):
            stage.functions.answer("POST", path, {"agent_config": config})
        body = {"model": "large", "messages": [{"role": "user", "content": "hello"}]}
        stage.request("POST", "/v1/chat/completions", body)
        stage.request("GET", "/v1/usage")

    return act


def _stores_completion(stage: Stage, text: str) -> None:
    path = "/v1/chat/completions"
    body = {"model": "local", "messages": [{"role": "user", "content": text}], "store": True}
    _, answer = stage.functions.answer("POST", path, body)
    completion_id = answer.get("id", "chatcmpl-00000000-0000-7000-8000-000000000000")
    stage.functions.answer("GET", path)
    stage.functions.answer("GET", f"{path}/{completion_id}")
    stage.functions.answer("GET", f"{path}/{completion_id}/messages")
    stage.functions.answer("POST", f"{path}/{completion_id}", {"metadata": {"topic": text[:500]}})
    stage.functions.answer("DELETE", f"{path}/{completion_id}")


def _deletes(stage: Stage, session: Session) -> Act:
    def act() -> None:
        stage.functions.answer("DELETE", session.path)
        stage.functions.answer("DELETE", f"/v1/agents/{session.agent_id}")

    return act


def _deletes_2024(stage: Stage, session: Session) -> Act:
    def act() -> None:
        ids = {"agent_id": session.agent_id, "session_id": session.session_id}
        stage.functions.answer("POST", "/agents/session/delete", ids)
        stage.functions.answer("POST", "/agents/delete", {"agent_id": session.agent_id})

    return act


def _registers(stage: Stage, kind: str, definition: dict[str, Any]) -> None:
    identifier = next(iter(definition.values()))
    _twice(stage, f"/v1/{kind}", definition)
    stage.functions.answer("GET", f"/v1/{kind}")
    stage.functions.answer("GET", f"/v1/{kind}/{identifier}")
    if kind == "models":
        stage.functions.answer("GET", f"/v1/openai/v1/models/{identifier}")
    stage.functions.answer("DELETE", f"/v1/{kind}/{identifier}")


def _keeps_memory(stage: Stage, text: str) -> None:
    """Register, fill, search and delete a vector database; its log is folded, and a large request is a segment."""
    for model in ("local", "calls", "titan"):
        name = f"memory-{model}"
        definition = {"vector_db_id": name, "embedding_model": model}
        stage.functions.answer("POST", "/v1/vector-dbs", definition)
        stage.functions.answer("GET", "/v1/vector-dbs")
        stage.functions.answer("GET", f"/v1/vector-dbs/{name}")
        for part, size in enumerate((FOLDED_FROM // 2, FOLDED_FROM // 2, AT_ONCE_FROM)):
            chunks = [{"content": f"{text} {part} {number}", "metadata": {}} for number in range(size)]
            stage.functions.answer("POST", "/v1/vector-io/insert", {"vector_db_id": name, "chunks": chunks})
        stage.functions.answer("POST", "/v1/vector-io/query", {"vector_db_id": name, "query": "hello"})
        stage.functions.answer("DELETE", f"/v1/vector-dbs/{name}")


def _keeps_documents(stage: Stage) -> None:
    """Fill, replace, query and delete banks of all kinds; long values and many edges are removed by jobs."""
    edges = [{"subject": "Tern", "relation": "knows", "object": f"bird {number}"} for number in range(50)]
    contents = {"vector": "hello", "keyword": NOISE, "keyvalue": NOISE, "graph": json.dumps(edges)}
    for kind, content in contents.items():
        params = {"memory_bank_type": kind, **({"embedding_model": "offline"} if kind == "vector" else {})}
        bank = {"memory_bank_id": kind, "params": params, "expires_after_s": 60}
        path = f"/v1/memory-banks/{kind}"
        stage.functions.answer("POST", "/v1/memory-banks", bank)
        stage.functions.answer("GET", path)
        for metadata in ({"a": 1}, {"a": 2}):
            for text in (content, content.replace("1", "2")):
                documents = [{"document_id": "d", "content": text, "metadata": metadata}]
                stage.functions.answer("POST", f"{path}/documents", {"documents": documents})
        stage.functions.answer("GET", f"{path}/documents")
        stage.functions.answer("POST", f"{path}/query", {"query": "hello tern d"})
        stage.functions.answer("POST", "/v1/tool-runtime/rag-tool/query", {"content": "tern", "vector_db_ids": [kind]})
        stage.functions.answer("DELETE", f"{path}/documents/d")
        stage.functions.answer("DELETE", path)


def _ingests_objects(stage: Stage, model: str, content: bytes) -> None:
    """Insert an object, replace it, and by one without a text; the last one was deleted before its event came."""
    params = {"memory_bank_type": "vector", "embedding_model": model}
    stage.functions.answer("POST", "/v1/memory-banks", {"memory_bank_id": "b", "params": params, "expires_after_s": 60})
    key = f"uploads/{ACCOUNT}/b/a.txt"
    for body in (content, content + b" again", b"%PDF-1.7"):
        stage.cloud.s3.put_object(Bucket=BUCKET, Key=key, Body=body)
        _pass_to_ingest(stage, _upload_of(key))
    stage.cloud.s3.delete_object(Bucket=BUCKET, Key=key)
    _pass_to_ingest(stage, _upload_of(key))


def _upload_of(key: str) -> str:
    (record,) = load_event("ingest_upload")["Records"]
    event = json.loads(record["body"])
    event["detail"]["object"]["key"] = key
    return json.dumps(event)


def _pass_to_ingest(stage: Stage, body: str) -> None:
    """Pass a message to the function, then those that the queue has; a failed one is passed twice."""
    (record,) = load_event("ingest")["Records"]
    queue: dict[str, Any] = {"QueueUrl": stage.cloud.ingestions_url}
    waiting = [body]
    while waiting:
        event = {"Records": [{**record, "body": waiting.pop()}]}
        if stage.functions.invoke("Ingest", event)["batchItemFailures"]:
            stage.functions.invoke("Ingest", event)
        for message in stage.cloud.sqs.receive_message(**queue).get("Messages", ()):
            waiting.append(message["Body"])
            stage.cloud.sqs.delete_message(**queue, ReceiptHandle=message["ReceiptHandle"])


def _keeps_files(stage: Stage, content: bytes) -> None:
    """Store files, whole and in parts, read them and delete them; one more upload is cancelled."""
    _twice(stage, "/v1/files", form_of({"purpose": "user_data"}, content))
    lasting = form_of({"purpose": "batch"}, content)
    file_id = _id_in(stage.functions.answer("POST", "/v1/files", lasting), "file")
    upload = {"bytes": len(content), "filename": "a", "mime_type": "text/plain", "purpose": "batch"}
    _twice(stage, "/v1/uploads", upload)
    upload_id = _id_in(stage.functions.answer("POST", "/v1/uploads", upload), "upload")
    part = form_of({}, content, name="data")
    _twice(stage, f"/v1/uploads/{upload_id}/parts", part)
    part_id = _id_in(stage.functions.answer("POST", f"/v1/uploads/{upload_id}/parts", part), "part")
    ending = {"part_ids": [part_id], "md5": md5(content, usedforsecurity=False).hexdigest()}
    for _ in range(2):
        stage.functions.answer("POST", f"/v1/uploads/{upload_id}/complete", ending)
    cancelled = _id_in(stage.functions.answer("POST", "/v1/uploads", upload), "upload")
    stage.functions.answer("POST", f"/v1/uploads/{cancelled}/cancel")
    stage.functions.answer("GET", "/v1/files")
    stage.functions.answer("GET", f"/v1/files/{file_id}")
    stage.functions.answer("GET", f"/v1/files/{file_id}/content")
    stage.functions.answer("DELETE", f"/v1/files/{file_id}")


def _keeps_vector_stores(stage: Stage, model: str) -> None:
    """Make a vector store with files, have them inserted, search it, change it and delete it."""
    answer = stage.functions.answer
    files = [
        _id_in(answer("POST", "/v1/files", form_of({"purpose": "user_data"}, text)), "file")
        for text in (b"hello", NOISE.encode(), b"later")
    ]
    expiry = {"anchor": "last_active_at", "days": 1}
    new = {"embedding_model": model, "file_ids": files[:2], "expires_after": expiry}
    _twice(stage, "/v1/vector_stores", new)
    store = f"/v1/vector_stores/{_id_in(answer('POST', '/v1/vector_stores', new), 'vs')}"
    _twice(stage, f"{store}/files", {"file_id": files[2], "attributes": {"a": 1}})
    _twice(stage, f"{store}/file_batches", {"file_ids": files})
    batch = _id_in(answer("POST", f"{store}/file_batches", {"file_ids": files}), "vsfb")
    for path in ("", "/files", f"/file_batches/{batch}", f"/file_batches/{batch}/files", f"/files/{files[0]}"):
        answer("GET", store + path)
    answer("GET", "/v1/vector_stores")
    answer("POST", f"{store}/file_batches/{batch}/cancel")
    document = {"document_id": "long", "content": NOISE, "metadata": {"a": 1}}
    answer("POST", f"/v1/memory-banks/{store.rpartition('/')[2]}/documents", {"documents": [document] * 2})
    answer("POST", f"{store}/search", {"query": "hello"})
    answer("GET", f"{store}/files/long/content")
    answer("POST", f"{store}/files/long", {"attributes": {"a": 2}})
    answer("POST", store, {"name": "hello"})
    for path in ("/files/long", f"/files/{files[0]}", ""):
        answer("DELETE", store + path)


def _id_in(answered: tuple[int, Any], kind: str) -> str:
    """Return the id of a created object, an unused one if it was not created."""
    _, answer = answered
    separator = "-" if kind == "file" else "_"
    created: str = answer.get("id", f"{kind}{separator}00000000-0000-7000-8000-000000000000")
    return created


def _infers_directly(stage: Stage) -> None:
    messages = [{"role": "user", "content": "hello"}]
    for model in MODELS:
        for is_stream in (False, True):
            body = {"model": model, "messages": messages, "stream": is_stream}
            stage.request("POST", "/v1/chat/completions", body)
    for model in ("local", "calls"):
        stage.request("POST", "/v1/embeddings", {"model": model, "input": "hello"})
    stage.request("POST", "/v1/completions", {"model": "calls", "prompt": "Once upon"})


def _reads_from_all(stage: Stage) -> None:
    for name in ("/v1/models", "/v1/openai/v1/models", "/v1/providers", "/v1/tools", "/v1/health", "/v1/usage"):
        stage.request("GET", name)
    for name, arguments in TOOL_CALLS:
        stage.request("POST", "/v1/tool-runtime/invoke", {"tool_name": name, "kwargs": arguments})
    for shield in (*SHIELDS, *OTHER_SHIELDS):
        body = {"shield_id": shield, "messages": [{"role": "user", "content": "hello"}], "params": {}}
        stage.request("POST", "/v1/safety/run-shield", body)
    status, _ = stage.functions.answer("GET", "/v1/nothing")
    assert status == 404


def _create(stage: Stage, session: Session, text: str, key: str) -> Any:
    return stage.functions.answer("POST", f"{session.path}/turn", turn_body(text), idempotency_key=key)


def _create_2024(stage: Stage, session: Session, text: str, key: str) -> Any:
    ids = {"agent_id": session.agent_id, "session_id": session.session_id}
    return stage.functions.answer("POST", "/agents/turn/create", {**ids, **turn_body(text)}, idempotency_key=key)


def _run_of(stage: Stage, create: Callable[..., Any], session: Session, text: str = "hello") -> Act:
    key = stage.key()

    def act() -> None:
        status, _ = create(stage, session, text, key)
        if status == 200:  # a repeated request waits for a turn that was not seen to its end
            create(stage, session, text, key)
        stage.functions.answer("GET", session.path)

    return act


def _run_after(stage: Stage, create: Callable[..., Any], before: TurnRef) -> Act:
    """A turn of a session whose last turn is still open."""
    session = Session(before.agent_id, before.session_id)
    return lambda: create(stage, session, "hello", stage.key())


def _run_with_history(stage: Stage, create: Callable[..., Any]) -> Act:
    """A turn whose history is not in the log of its session, because its messages are too large."""
    session = stage.session()
    for text in ("hello", NOISE, "hello again"):
        stage.turn(session, text)
    return lambda: create(stage, session, "hello", stage.key())


def _resumed(stage: Stage, ref: TurnRef, answer: str) -> Act:
    session = Session(ref.agent_id, ref.session_id)
    answers = [{"call_id": "c", "tool_name": "get_weather", "content": answer}]

    def act() -> None:
        path, key = f"{session.path}/turn/{ref.turn_id}/resume", stage.key()
        body = {"stream": False, "tool_responses": answers}
        status, _ = stage.functions.answer("POST", path, body, idempotency_key=key)
        if status == 200:
            stage.functions.answer("POST", path, body, idempotency_key=key)

    return act


def _cancelled(stage: Stage, session: Session) -> Act:
    waiting = stage.turn(session, CALL)
    stage.wait_with(TurnRef(**session.ref.model_dump(), turn_id=waiting["turn_id"]))
    path, key = f"{session.path}/turn/{waiting['turn_id']}/cancel", stage.key()
    return lambda: [stage.functions.answer("POST", path, idempotency_key=key) for _ in range(2)]


def _taken_over(stage: Stage, ref: TurnRef) -> Act:
    return lambda: stage.functions.invoke("RunTurn", ref.model_dump())


def _create_in_background(stage: Stage, session: Session, text: str, key: str) -> tuple[int, Any]:
    body = {"messages": [{"role": "user", "content": text}]}
    answered: tuple[int, Any] = stage.functions.answer(
        "POST", f"{session.path}/turn", body, idempotency_key=key, prefer="respond-async"
    )
    return answered


def _run_in_background(stage: Stage, session: Session, text: str) -> Act:
    """A turn that no request runs: the state machine invokes the worker, and a repeated request finds it."""
    key = stage.key()

    def act() -> None:
        status, accepted = _create_in_background(stage, session, text, key)
        assert status == 202 or stage.cloud.is_losing, (status, accepted)
        if status == 202:
            _create_in_background(stage, session, text, key)
            stage.functions.invoke("RunTurn", session.ref.turn(accepted["turn_id"]).model_dump())
            stage.functions.answer("GET", f"{session.path}/turn/{accepted['turn_id']}")

    return act


def _lost_in_the_queue(stage: Stage) -> TurnRef:
    """Return a turn that has been queued for long, because its execution never started."""
    session = stage.session(toolgroups=TOOLS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemClock, "now", lambda _: PAST)
        status, accepted = _create_in_background(stage, session, "hello", stage.key())
    assert status == 202, accepted
    return session.ref.turn(accepted["turn_id"])


def _after_a_lost_start(stage: Stage, follow: Callable[[Stage, TurnRef], object]) -> Act:
    ref = _lost_in_the_queue(stage)
    return lambda: follow(stage, ref)


def _cancels(stage: Stage, ref: TurnRef) -> None:
    path = f"{Session(ref.agent_id, ref.session_id).path}/turn/{ref.turn_id}/cancel"
    stage.functions.answer("POST", path, idempotency_key=stage.key())


def _creates_after(stage: Stage, ref: TurnRef) -> None:
    session = Session(ref.agent_id, ref.session_id)
    for create in (_create, _create_2024, _create_in_background):
        create(stage, session, "hello", stage.key())


def _deletes_session_of(stage: Stage, ref: TurnRef) -> None:
    stage.functions.answer("DELETE", Session(ref.agent_id, ref.session_id).path)


def _swept(stage: Stage, ref: TurnRef) -> Act:
    def act() -> None:
        stage.functions.invoke("Sweeper", load_event("sweeper"))
        stage.functions.answer("GET", f"/v1/agents/{ref.agent_id}/session/{ref.session_id}/turn/{ref.turn_id}")

    return act


def _reads(stage: Stage, session: Session) -> Act:
    """Read the records and files of a turn, and of a turn too large for its record."""
    made = stage.turn(session, MAKE)
    stage.turn(session, NOISE)
    step = made["steps"][0]["step_id"]
    ids = {"agent_id": session.agent_id, "session_id": session.session_id, "turn_id": made["turn_id"]}
    query = "&".join(f"{name}={value}" for name, value in ids.items())

    def act() -> None:
        for path in ("", f"?turn_ids={made['turn_id']}", "/context", f"/turn/{made['turn_id']}"):
            stage.request("GET", f"{session.path}{path}")
        for path in (f"/turn/{made['turn_id']}/step/{step}", f"/turn/{made['turn_id']}/events?after=0"):
            stage.request("GET", f"{session.path}{path}")
        for attachment in made["output_attachments"]:
            stage.request("GET", attachment["content"]["uri"])
        stage.request("GET", f"/v1/usage?agent_id={session.agent_id}")
        stage.request("POST", "/agents/session/get", {k: ids[k] for k in ("agent_id", "session_id")})
        stage.request("POST", "/agents/turn/get", ids)
        stage.request("GET", f"/agents/turn/get?{query}")
        stage.request("POST", "/agents/step/get", {**ids, "step_id": step})
        stage.request("GET", f"/agents/step/get?{query}&step_id={step}")
        stage.functions.answer("GET", f"/agents/turn/get?agent_id={session.agent_id}&turn_id={made['turn_id']}")

    return act


def _reads_of_turn(stage: Stage, ref: TurnRef) -> None:
    """Read a turn without a process by every route; the state machine supervises it then."""
    session = Session(ref.agent_id, ref.session_id)
    turn = f"{session.path}/turn/{ref.turn_id}"
    ids = {"agent_id": ref.agent_id, "session_id": ref.session_id, "turn_id": ref.turn_id}
    for path in (session.path, turn, f"{turn}/step/none"):
        stage.functions.answer("GET", path)
    in_a_hurry = Context(
        remaining_ms=FOLLOWED_MS
    )  # otherwise a turn without a run is followed until the function's end
    stage.functions.answer("GET", f"{turn}/events?after=0", context=in_a_hurry)
    stage.functions.answer("POST", "/agents/session/get", {k: ids[k] for k in ("agent_id", "session_id")})
    stage.functions.answer("POST", "/agents/turn/get", ids)


def _authorizes(stage: Stage) -> None:
    keys = ApiKeys(ApiKeyStore(DynamoRangeStore(stage.cloud.dynamo, TABLE)), SystemClock(), RandomIds(), os.urandom)
    _, token = keys.create(Caller(tenant="acme", principal="ann"), "laptop")
    event = load_event("authorize")
    event["headers"]["Authorization"] = f"Bearer {token}"
    event["multiValueHeaders"]["Authorization"] = [f"Bearer {token}"]
    assert stage.functions.invoke("Authorize", event)["principalId"] == "ann"


def _clears(stage: Stage) -> Act:
    """Clean up after a session and an agent that were deleted long ago, and end a session that lived long enough."""
    ended, gone = stage.session(), stage.session(toolgroups=TOOLS)
    stage.turn(gone, MAKE)
    stage.turn(gone, NOISE)
    agent = stage.session()
    now = datetime.now(UTC)
    jobs = [
        stage.job("clean_session", gone, PAST),
        stage.job("clean_agent", Session(agent.agent_id, ""), PAST),
        stage.job("end_session", ended, PAST),
        stage.job("end_session", stage.over(agent.agent_id), PAST),
        stage.job("end_session", stage.session(name=NOISE), PAST),
        stage.job("clean_session", stage.session(), now),  # to be checked again later
        *_contents_to_clean(stage),
    ]
    ingestion = Job(kind="ingest_document", tenant=ACCOUNT, order="none", name="none", since=PAST, due_at=PAST)
    stage.store.write([put_job(ingestion)])
    for _ in range(len(job_shards()) + 1):  # so that one shard has two, which are read together
        stage.job("end_session", stage.session(), now - timedelta(minutes=10))

    def act() -> None:
        stage.clean(*jobs)
        stage.functions.invoke("Sweeper", load_event("sweeper"))

    return act


def _contents_to_clean(stage: Stage) -> Iterator[Job]:
    """Yield the jobs of contents that were never completed, of an expired file, and of one with an unused part."""
    contents = FileContents(stage.store)
    for name, ends_at in (("pending", None), ("expired", PAST), ("used", FUTURE)):
        ref, job = ContentRef(ACCOUNT, name), cleaning_of(ACCOUNT, name, PAST, PAST)
        contents.begin(ref, job)
        contents.add(ref, "unused", [NOISE.encode()])
        if ends_at is not None:
            stage.store.write([completed(ref, "file-1", ends_at, [StoredPart("0", 0)])])
        yield job


def _answers_events(stage: Stage) -> None:
    """Give each function its event; most name missing resources."""
    for path in FOLDER.glob("*.json"):
        event = load_event(path.stem)
        if "httpMethod" in event and path.stem not in ("authorize", "get_docs", "get_openapi"):
            stage.functions.invoke(stage.functions.function_of(event["httpMethod"], event["path"]), event)
