"""Every field of an agent and of a turn has an effect, which is shown here, or is refused by name.

The fields are found in the models themselves: a new one without a row fails.

Covers: domain/agents/agents, services/agents/agents, services/agents/refusals
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Answer, call_answer, text_answer
from tests.fakes.models.openai_server import ModelServer
from tests.fakes.tools.search_services import KEY, brave, wolfram
from tests.fakes.web.web_server import HOST, WebAnswer, WebRequest, WebServer, json_answer
from tests.support.server.asgi_client import Answered, Served, served
from tests.support.server.field_paths import paths_of
from turnstone.dialects.llama_stack.turns.requests import CreateTurn
from turnstone.domain.agents.agents import AgentConfig, TurnOverrides

Body = Mapping[str, Any]
Fields = Mapping[str, Any]
AGENT: Fields = {"model": "m", "instructions": "Be brief."}
HELLO: Fields = {"messages": [{"role": "user", "content": "hello"}]}
PNG = "iVBORw0KGgoAAAANSUhEUg=="
PICTURE = "https://example.org/a.png"
TOOL: Fields = {"name": "look"}
SCHEMA: Fields = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
PARAMETER: Fields = {"name": "at", "parameter_type": "string", "description": "Where."}
IN_WORDS = "function_tag"


@dataclass
class World:
    """A server, and the model server behind it, which answers "ok" unless `answers` has another answer."""

    model: ModelServer
    web: WebServer
    serving: Served
    answers: list[Answer] = field(default_factory=list)

    def post(self, path: str, body: Fields) -> Answered:
        return self.serving.client.post(path, body)

    def session(self, config: Fields) -> str:
        """Return the path of a new session of a new agent."""
        made = self.post("/v1/agents", {"agent_config": {**AGENT, **config}})
        assert made.status == 200, made
        agent = f"/v1/agents/{made.json()['agent_id']}"
        return f"{agent}/session/{self.post(f'{agent}/session', {'session_name': 's'}).json()['session_id']}"

    def turn(self, config: Fields, turn: Fields, *answers: Answer) -> tuple[list[Body], Answered]:
        """Return the requests to the model in a turn, and the turn."""
        self.answers[:] = answers
        before = len(self.model.requests)
        answered = self.post(f"{self.session(config)}/turn", {**HELLO, **turn})
        assert answered.status == 200, answered
        return self.model.requests[before:], answered

    def first_request(self, config: Fields, turn: Fields) -> Body:
        """Return the first request of a turn to the model."""
        return self.turn(config, turn)[0][0]


def on_the_web(request: WebRequest) -> WebAnswer:
    if request.path == "/drawing":
        return WebAnswer(200, b"GIF89a hidden", "image/gif")
    services = {"/res/v1/web/search": brave, "/v2/query": wolfram}
    return services.get(request.path, lambda _: json_answer({"told": "hidden"}))(request)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    answers: list[Answer] = []
    folder = tmp_path_factory.mktemp("fields")
    with (
        ModelServer(lambda _: answers.pop(0) if answers else text_answer("ok")) as model,
        WebServer(on_the_web) as web,
    ):
        config = folder / "turnstone.toml"
        config.write_text(f"""
            default_provider = "p"
            [providers.p]
            type = "openai"
            url = "{model.url}"
            [models.wordless]
            provider = "p"
            tools = "prompted"
            [providers.inside]
            type = "offline"
            [models.embedder]
            provider = "inside"
            embedding_dimension = 384
            [tools.websearch]
            url = "{web.url}/res/v1/web/search"
            [tools.wolfram_alpha]
            url = "{web.url}/v2/query"
        """)
        with served(folder / "data", config=config, fetch_allow=f"{HOST}:{web.port}") as serving:
            world = World(model, web, serving, answers)
            fill(world)
            yield world


def fill(world: World) -> None:
    """Register a memory bank, and insert what the agents of these tests remember."""
    bank = {"vector_db_id": "notes", "embedding_model": "embedder"}
    assert world.post("/v1/vector-dbs", bank).status == 200
    texts = [
        f"Note {number}: {text}." for number, text in enumerate(("the boat is blue", "tea at five", "boat in bay"))
    ]
    chunks = [{"content": text, "metadata": {"document_id": "n"}} for text in texts]
    assert world.post("/v1/vector-io/insert", {"vector_db_id": "notes", "chunks": chunks}).status == 200
    edges = [
        {"subject": "Ann", "relation": "rows", "object": "Stint"},
        {"subject": "Bo", "relation": "sails", "object": "Ruff"},
    ]
    documents = {
        "keyword": {"a": "the boat is blue"},
        "keyvalue": {"colour": "blue as the boat", "tea": "at five"},
        "graph": {"crew": json.dumps(edges)},
    }
    for kind, texts in documents.items():
        bank = {"memory_bank_id": f"{kind}-notes", "params": {"memory_bank_type": kind}}
        assert world.post("/v1/memory-banks", bank).status == 200
        mime_type = "application/json" if kind == "graph" else "text/plain"
        given = [{"document_id": name, "content": text, "mime_type": mime_type} for name, text in texts.items()]
        inserted = world.post(f"/v1/memory-banks/{kind}-notes/documents", {"documents": given})
        assert inserted.status == 200, inserted


Row = Callable[[World, str], None]  # shows a field's effect, sent with an `agent` or with a `turn`


def parted(sent_with: str, fields: Fields) -> tuple[Fields, Fields]:
    """Return the fields of the agent and those of the turn."""
    return (fields, {}) if sent_with == "agent" else ({}, fields)


def sees(fields: Fields, value_of: Callable[[Body], Any], expected: Any, *, beside: Fields | None = None) -> Row:
    """Return a row for a value in the request to the model: as expected with the fields, and not without them."""

    def row(world: World, sent_with: str) -> None:
        assert value_of(world.first_request(*parted(sent_with, fields))) == expected
        assert value_of(world.first_request(*parted(sent_with, beside or {}))) != expected

    return row


def refuses(fields: Fields, *location: str | int) -> Row:
    """Return a row for fields that are refused, at the latest by the turn, with their location in the body."""

    def row(world: World, sent_with: str) -> None:
        config, turn = parted(sent_with, fields)
        before = len(world.model.requests)
        answer = world.post("/v1/agents", {"agent_config": {**AGENT, **config}})
        if answer.status == 200:
            agent = f"/v1/agents/{answer.json()['agent_id']}"
            session = world.post(f"{agent}/session", {"session_name": "s"}).json()["session_id"]
            answer = world.post(f"{agent}/session/{session}/turn", {**HELLO, **turn})
        assert answer.status == 400, answer
        assert any(tuple(problem["loc"])[-len(location) :] == location for problem in problems_of(answer)), answer
        assert len(world.model.requests) == before

    return row


def shields(name: str, *, stopped_word: str, reaches_model: bool) -> Row:
    """Return a row for a list of shields: one that stops a word ends the turn, and an unregistered one is refused."""

    def row(world: World, sent_with: str) -> None:
        shield = {
            "shield_id": name,
            "provider_id": "pattern",
            "params": {"words": [stopped_word], "user_message": "No."},
        }
        assert world.post("/v1/shields", shield).status == 200
        requests, answered = world.turn(*parted(sent_with, {name: [name]}))
        assert (answered.json()["output_message"]["content"], bool(requests)) == ("No.", reaches_model)
        assert world.turn({}, {})[1].json()["output_message"]["content"] == "ok"
        refuses({name: ["nobody's"]}, name)(world, sent_with)

    return row


def problems_of(answer: Answered) -> list[dict[str, Any]]:
    problems = answer.json()["error"]["detail"]["errors"]
    assert isinstance(problems, list)
    return problems


def is_for_readers_only(tool: Fields, name: str) -> Row:
    """Return a row for a field of a tool's definition that readers of the agent see, and no model."""

    def row(world: World, sent_with: str) -> None:
        session = world.session({"client_tools": [{**TOOL, **tool}]})
        agent = world.serving.client.get(session.partition("/session/")[0]).json()
        assert agent["agent_config"]["client_tools"][0][name] == tool[name]
        with_it, without = (parted(sent_with, {"client_tools": [each]}) for each in ({**TOOL, **tool}, TOOL))
        assert world.first_request(*with_it) == world.first_request(*without)

    return row


def system_of(body: Body) -> str:
    first = body["messages"][0]
    return str(first["content"]) if first["role"] == "system" else ""


def tools_of(body: Body) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", ())]


def function_of(body: Body) -> Fields:
    tools: list[Fields] = [tool["function"] for tool in body.get("tools", ())]
    return tools[0] if tools else {}


def at_of(body: Body) -> Any:
    return function_of(body).get("parameters", {}).get("properties", {}).get("at")


def strategy(**fields: Any) -> Fields:
    return {"sampling_params": {"strategy": fields}}


def sampling(name: str, value: Any) -> Row:
    return sees({"sampling_params": {name: value}}, lambda body: body.get(name), value)


def tool(**fields: Any) -> Fields:
    return {"client_tools": [{**TOOL, **fields}]}


def parameter(**fields: Any) -> Fields:
    return tool(parameters=[{**PARAMETER, **fields}])


def choice(fields: Fields, expected: Any) -> Row:
    return sees({**tool(), **fields}, lambda body: body.get("tool_choice"), expected, beside=tool())


def in_words(fields: Fields) -> Row:
    """Return a row for a prompt format: it has an effect for models without native tools only."""

    def row(world: World, sent_with: str) -> None:
        prompted = world.first_request(*wordless(sent_with, {**tool(), **fields}))
        assert ("<function=" in system_of(prompted), tools_of(prompted)) == (True, [])
        otherwise = world.first_request(*wordless(sent_with, tool()))
        assert ("<function=" in system_of(otherwise), tools_of(otherwise)) == (False, [])
        assert '"name": "look"' in system_of(otherwise)
        native = world.first_request(*parted(sent_with, {**tool(), **fields}))
        assert native == world.first_request(*parted(sent_with, tool()))
        assert tools_of(native) == ["look"]
        reply = text_answer("Let me ", 'see. <function=look>{"at": "x"}</function>')
        _, answered = world.turn(*wordless(sent_with, {**tool(), **fields}), reply)
        output = answered.json()["output_message"]
        assert (output["content"], output["stop_reason"]) == ("Let me see.", "end_of_message")
        assert [(call["tool_name"], call["arguments"]) for call in output["tool_calls"]] == [("look", {"at": "x"})]

    return row


def wordless(sent_with: str, fields: Fields) -> tuple[Fields, Fields]:
    """Return the fields of an agent whose model has no native tools, and those of the turn."""
    config, turn = parted(sent_with, fields)
    return {**config, "model": "wordless"}, turn


def replaces(world: World, sent_with: str) -> None:
    """The instructions are the whole prompt of a model without native tools; functions replace the placeholder."""
    config = {"tool_prompt_format": IN_WORDS, "system_message_behavior": "replace"}
    instructions = {"instructions": "X {{ function_description }} Y", **tool()}
    system = system_of(world.first_request(*wordless(sent_with, {**instructions, "tool_config": config})))
    assert (system[:2], system[-2:], '"name": "look"' in system) == ("X ", " Y", True)
    appended = {**instructions, "tool_config": {**config, "system_message_behavior": "append"}}
    assert "function_description" in system_of(world.first_request(*wordless(sent_with, appended)))
    alone = {**instructions, "tool_config": {"system_message_behavior": "replace"}}
    native = world.first_request(*parted(sent_with, alone))
    assert (system_of(native), tools_of(native)) == (instructions["instructions"], ["look"])


def fixes_arguments(world: World, sent_with: str) -> None:
    groups = {"toolgroups": [{"name": "builtin::clock", "args": {"timezone": "Asia/Tokyo"}}]}
    requests, _ = world.turn(*parted(sent_with, groups), call_answer(("current_time", "{}")))
    assert requests[1]["messages"][-1]["content"].endswith("+09:00")


def limits_inferences(world: World, sent_with: str) -> None:
    answers = [call_answer(("current_time", "{}"))] * 5
    fields = {"toolgroups": ["builtin::clock"], "max_infer_iters": 2}
    requests, _ = world.turn(*parted(sent_with, fields), *answers)
    assert len(requests) == 2


def names_the_agent(world: World, _: str) -> None:
    world.session({"name": "Ann"})
    listed = world.serving.client.get("/v1/agents?name=Ann").json()["data"]
    assert [agent["agent_config"]["name"] for agent in listed] == ["Ann"]


def keeps_sessions(world: World, _: str) -> None:
    """Sessions of an agent without it have a job that removes them after their last use."""
    jobs = []
    for is_kept in (True, False):
        session_id = world.session({"enable_session_persistence": is_kept}).rpartition("/")[2]
        with closing(sqlite3.connect(world.serving.data_dir / "turnstone.db")) as store:
            keys = store.execute("SELECT pk FROM items WHERE pk LIKE ?", (f"job:%{session_id}",))
            jobs.append(len(keys.fetchall()))
    assert jobs == [0, 1]


def shows(content: Any, expected: Any, *, name: str = "content") -> Row:
    """Return a row for the text of a user's message in the request to the model."""

    def row(world: World, _: str) -> None:
        message = {"role": "user", "content": "q", **{name: content}}
        assert world.first_request({}, {"messages": [message]})["messages"][-1]["content"] == expected

    return row


def documents(content: Any, expected: Any, mime_type: str = "text/plain") -> Row:
    """Return a row for a turn's document in the request to the model."""

    def row(world: World, _: str) -> None:
        turn = {"documents": [{"content": content, "mime_type": mime_type}]}
        assert world.first_request({}, turn)["messages"][-1]["content"] == expected

    return row


def context(content: Any, expected: Any) -> Row:
    return shows(content, expected, name="context")


def returns(content: Any, expected: str, call_id: str | None = None) -> Row:
    """Return a row for a tool's message, which answers the call a turn waits for, or is refused."""

    def row(world: World, _: str) -> None:
        session = world.session(tool())
        world.answers[:] = [call_answer(("look", "{}"))]
        (call,) = world.post(f"{session}/turn", HELLO).json()["output_message"]["tool_calls"]
        message = {"role": "tool", "call_id": call_id or call["call_id"], "content": content}
        answer = world.post(f"{session}/turn", {"messages": [message]})
        if call_id is None:
            assert world.model.requests[-1]["messages"][-1]["content"] == expected
        assert answer.status == (200 if call_id is None else 400), answer

    return row


def streams(world: World, _: str) -> None:
    _, whole = world.turn({}, {"stream": False})
    _, streamed = world.turn({}, {"stream": True})
    assert whole.headers["content-type"].startswith("application/json")
    assert streamed.headers["content-type"].startswith("text/event-stream")


TEXT = {"type": "text", "text": "t"}
BY_ADDRESS = {"type": "image", "image": {"url": {"uri": PICTURE}}}
BY_VALUE = {"type": "image", "image": {"data": PNG}}
SHOWN_BY_ADDRESS = {"type": "image_url", "image_url": {"url": PICTURE}}
SHOWN_BY_VALUE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
QUESTION = {"type": "text", "text": "q"}
HI = {"type": "text", "text": "hello"}
GRAMMAR = {"response_format": {"type": "grammar", "bnf": {"grammar": "root ::= x"}}}
JSON_ONLY = {"response_format": {"type": "json_schema", "json_schema": {**SCHEMA, "title": "Place"}}}
OF_EITHER: Mapping[str, Row] = {
    "sampling_params.strategy.greedy": sees(
        strategy(type="greedy"), lambda body: body.get("temperature"), 0, beside=strategy(type="top_k", top_k=3)
    ),
    "sampling_params.strategy.top_p.temperature": sees(
        strategy(type="top_p", temperature=0.7), lambda body: body.get("temperature"), 0.7
    ),
    "sampling_params.strategy.top_p.top_p": sees(
        strategy(type="top_p", temperature=None, top_p=0.5), lambda body: body.get("top_p"), 0.5
    ),
    "sampling_params.strategy.top_k.top_k": sees(strategy(type="top_k", top_k=3), lambda body: body.get("top_k"), 3),
    "sampling_params.max_tokens": sampling("max_tokens", 7),
    "sampling_params.repetition_penalty": sampling("repetition_penalty", 1.5),
    "sampling_params.stop": sampling("stop", ["END"]),
    "input_shields": shields("input_shields", stopped_word="hello", reaches_model=False),
    "output_shields": shields("output_shields", stopped_word="ok", reaches_model=True),
    "toolgroups": sees({"toolgroups": ["builtin::clock"]}, tools_of, ["current_time"]),
    "toolgroups.name": sees({"toolgroups": [{"name": "builtin::clock", "args": {}}]}, tools_of, ["current_time"]),
    "toolgroups.args": fixes_arguments,
    "client_tools.name": sees(tool(), tools_of, ["look"]),
    "client_tools.description": sees(tool(description="D"), lambda body: function_of(body).get("description"), "D"),
    "client_tools.parameters.name": sees(parameter(), lambda body: at_of(body) is not None, True),
    "client_tools.parameters.parameter_type": sees(
        parameter(parameter_type="integer"), lambda body: (at_of(body) or {}).get("type"), "integer", beside=parameter()
    ),
    "client_tools.parameters.description": sees(
        parameter(), lambda body: (at_of(body) or {}).get("description"), "Where.", beside=parameter(description="W")
    ),
    "client_tools.parameters.required": sees(
        parameter(required=False), lambda body: function_of(body)["parameters"]["required"], [], beside=parameter()
    ),
    "client_tools.parameters.default": sees(
        parameter(default="x"), lambda body: (at_of(body) or {}).get("default"), "x", beside=parameter()
    ),
    "client_tools.metadata": is_for_readers_only({"metadata": {"a": 1}}, "metadata"),
    "client_tools.input_schema": sees(
        tool(input_schema=SCHEMA), lambda body: function_of(body).get("parameters"), SCHEMA, beside=tool()
    ),
    "client_tools.output_schema": is_for_readers_only({"output_schema": {"type": "string"}}, "output_schema"),
    "client_tools.toolgroup_id": refuses(tool(toolgroup_id="g"), "client_tools", 0, "toolgroup_id"),
    "tool_choice": choice({"tool_choice": "required"}, "required"),
    "tool_prompt_format": in_words({"tool_prompt_format": IN_WORDS}),
    "tool_config.tool_choice": choice(
        {"tool_config": {"tool_choice": "look"}}, {"type": "function", "function": {"name": "look"}}
    ),
    "tool_config.tool_prompt_format": in_words({"tool_config": {"tool_prompt_format": IN_WORDS}}),
    "tool_config.system_message_behavior": replaces,
    "max_infer_iters": limits_inferences,
    "instructions": sees({"instructions": "Rhyme."}, system_of, "Rhyme."),
}
KINDS: Mapping[str, Fields] = {
    **{kind: {"type": kind} for kind in ("brave_search", "wolfram_alpha", "photogen", "code_interpreter")},
    "function_call": {"type": "function_call", "function_name": "brave_search"},
}


def ran(world: World, tool: Fields, argument: str) -> tuple[list[WebRequest], Body]:
    """Return the web requests made while the model called the defined tool, and the turn."""
    called = tool.get("function_name", tool["type"])
    name = "code" if called == "code_interpreter" else "query"
    before = len(world.web.requests)
    _, answered = world.turn({"tools": [tool]}, {}, call_answer((called, json.dumps({name: argument}))))
    return world.web.requests[before:], answered.json()


def elsewhere(kind: str, value_of: Callable[[WebRequest], Any], expected: Any, **fields: Any) -> Row:
    """Return a row for a value in the request to a tool's own URL: as expected with the fields, not without them."""

    def row(world: World, _: str) -> None:
        least = {"url": f"{world.web.url}/there", "method": "POST"}
        given = {**least, **{name: world.web.url + text if name == "url" else text for name, text in fields.items()}}
        sequences = [ran(world, {**KINDS[kind], "remote_execution": sent}, "x")[0] for sent in (given, least)]
        assert [[value_of(request) == expected for request in requests] for requests in sequences] == [[True], [False]]

    return row


def judged(kind: str, name: str) -> Row:
    """Return a row for the shields of a tool: one that stops a call, or an answer, ends the turn."""

    def row(world: World, _: str) -> None:
        shield = f"{kind}-{name}"
        params = {"words": ["hidden"], "user_message": "No."}
        assert (
            world.post("/v1/shields", {"shield_id": shield, "provider_id": "pattern", "params": params}).status == 200
        )
        remote = {"url": f"{world.web.url}/there", "method": "POST"}
        tool = {**KINDS[kind], "remote_execution": remote}
        argument = "hidden" if name == "input_shields" else "open"
        requests, turn = ran(world, {**tool, name: [shield]}, argument)
        assert (turn["output_message"]["content"], len(requests)) == ("No.", int(name == "output_shields"))
        requests, turn = ran(world, tool, argument)
        assert (turn["output_message"]["content"], len(requests)) == ("ok", 1)

    return row


def of_every_kind(kind: str) -> Mapping[str, Row]:
    at = f"tools.{kind}"
    remote = f"{at}.remote_execution"
    query = "code" if kind == "code_interpreter" else "query"
    return {
        f"{at}.input_shields": judged(kind, "input_shields"),
        f"{at}.output_shields": judged(kind, "output_shields"),
        f"{remote}.url": elsewhere(kind, lambda request: request.path, "/here/x", url=f"/here/{{{query}}}"),
        f"{remote}.method": elsewhere(kind, lambda request: request.method, "GET", method="GET"),
        f"{remote}.params": elsewhere(kind, lambda request: request.params.get("a"), ["b"], params={"a": "b"}),
        f"{remote}.headers": elsewhere(kind, lambda request: request.headers.get("x-key"), "k", headers={"x-key": "k"}),
        f"{remote}.body": elsewhere(kind, lambda request: request.json_body.get("a"), [1], body={"a": [1]}),
    }


def answered(tool: Fields, expected: str, beside: Fields) -> Row:
    """Return a row for the answer of a defined tool: it has the text, the answer of the other definition has not."""

    def row(world: World, _: str) -> None:
        answers = [
            json.dumps([s for s in ran(world, each, "x")[1]["steps"] if "tool_responses" in s])
            for each in (tool, beside)
        ]
        assert [expected in text for text in answers] == [True, False]

    return row


def runs_code_or_leaves_it(world: World, sent_with: str) -> None:
    """On this server, which runs no code, the turn is refused if the definition requests inline execution."""
    left = {**KINDS["code_interpreter"], "enable_inline_code_execution": False}
    _, turn = ran(world, left, "1")
    assert [call["tool_name"] for call in turn["output_message"]["tool_calls"]] == ["code_interpreter"]
    refuses({"tools": [{**left, "enable_inline_code_execution": True}]}, "tools")(world, sent_with)


def function(**fields: Any) -> Fields:
    return {"tools": [{"type": "function_call", "function_name": "look", **fields}]}


def parameter_2024(**fields: Any) -> Fields:
    return function(parameters={"at": {"param_type": "string", "description": "Where.", **fields}})


def memory(**fields: Any) -> Fields:
    banks = [{"type": "vector", "bank_id": "notes"}]
    return {"tools": [{"type": "memory", "memory_bank_configs": banks, **fields}]}


def remembers(text: str, question: Any, beside: Fields, *answers: Answer, **fields: Any) -> Row:
    """Return a row for a field of the memory tool: with it the model is shown the text, with `beside` it is not."""

    def row(world: World, _: str) -> None:
        shown = []
        for config in (fields, beside):
            messages = [
                {"role": "user", "content": each} for each in ([question] if isinstance(question, str) else question)
            ]
            requests, _ = world.turn(memory(**config), {"messages": messages}, *answers)
            shown.append(text in json.dumps(requests[-1]["messages"]))
        assert shown == [True, False]

    return row


def generated(**generator: Any) -> Fields:
    return {"query_generator_config": generator}


def written_by(world: World, _: str) -> None:
    """The model of the query is called first, by its name."""
    fields = generated(type="llm", model="writer", template="Find it: {{ messages[-1].content }}")
    requests, _ = world.turn(memory(max_chunks=1, **fields), {}, text_answer("tea at five"))
    assert [request["model"] for request in requests] == ["writer", "m"]
    assert requests[0]["messages"] == [{"role": "user", "content": "Find it: hello"}]
    assert "tea at five" in json.dumps(requests[1]["messages"])


def called_for_a_query(world: World, sent_with: str) -> None:
    fields = generated(type="custom", tool="builtin::clock/current_time")
    assert len(world.turn(memory(**fields), {})[0]) == 1
    refuses(memory(**generated(type="custom", tool="builtin::clock/none")), "tool")(world, sent_with)


def judged_memory(name: str) -> Row:
    """Return a row for the shields of memory: one that stops the query, or the context, ends the turn."""

    def row(world: World, _: str) -> None:
        word = "hello" if name == "input_shields" else "Note"
        shield = {
            "shield_id": f"memory-{name}",
            "provider_id": "pattern",
            "params": {"words": [word], "user_message": "No."},
        }
        assert world.post("/v1/shields", shield).status == 200
        requests, answered = world.turn(
            memory(**{name: [f"memory-{name}"]}), {"messages": [{"role": "user", "content": "hello boat"}]}
        )
        assert (answered.json()["output_message"]["content"], requests) == ("No.", [])

    return row


def bank_of(kind: str, **fields: Any) -> Fields:
    return {"memory_bank_configs": [{"type": kind, "bank_id": f"{kind}-notes", **fields}]}


ONE: Fields = {"max_chunks": 1}
NO_BANKS: Fields = {"memory_bank_configs": []}
BANK_OF_MEMORY = "tools.memory.memory_bank_configs"
QUERY_OF_MEMORY = "tools.memory.query_generator_config"
OF_MEMORY: Mapping[str, Row] = {
    "tools.memory.input_shields": judged_memory("input_shields"),
    "tools.memory.output_shields": judged_memory("output_shields"),
    f"{BANK_OF_MEMORY}.vector.bank_id": remembers("boat is blue", "boat", NO_BANKS),
    f"{BANK_OF_MEMORY}.keyword.bank_id": remembers("boat is blue", "boat", NO_BANKS, **bank_of("keyword")),
    f"{BANK_OF_MEMORY}.keyvalue.bank_id": remembers("blue as", "which colour?", NO_BANKS, **bank_of("keyvalue")),
    f"{BANK_OF_MEMORY}.keyvalue.keys": remembers(
        "blue as", "hello", bank_of("keyvalue", keys=["tea"]), **bank_of("keyvalue", keys=["colour"])
    ),
    f"{BANK_OF_MEMORY}.graph.bank_id": remembers("rows Stint", "Who is Ann?", NO_BANKS, **bank_of("graph")),
    f"{BANK_OF_MEMORY}.graph.entities": remembers(
        "rows Stint", "hello", bank_of("graph", entities=["Bo"]), **bank_of("graph", entities=["Ann"])
    ),
    f"{QUERY_OF_MEMORY}.default.sep": remembers(
        "tea at five", ("te", "a"), ONE, **ONE, **generated(type="default", sep="")
    ),
    f"{QUERY_OF_MEMORY}.llm.model": written_by,
    f"{QUERY_OF_MEMORY}.llm.template": written_by,
    f"{QUERY_OF_MEMORY}.custom.tool": called_for_a_query,
    "tools.memory.max_tokens_in_context": remembers("boat in bay", "boat", {"max_tokens_in_context": 5}),
    "tools.memory.max_chunks": remembers("boat is blue", "boat in bay", ONE, max_chunks=2),
}
SEARCH, MATHS = KINDS["brave_search"], KINDS["wolfram_alpha"]
OF_DEFINED_TOOLS: Mapping[str, Row] = {
    **{path: row for kind in KINDS for path, row in of_every_kind(kind).items()},
    "tools.brave_search.api_key": answered({**SEARCH, "api_key": KEY}, "top_k", SEARCH),
    "tools.brave_search.engine": answered({**SEARCH, "engine": "tavily"}, "Tavily", SEARCH),
    "tools.wolfram_alpha.api_key": answered({**MATHS, "api_key": KEY}, "queryresult", MATHS),
    "tools.code_interpreter.enable_inline_code_execution": runs_code_or_leaves_it,
    "tools.function_call.function_name": sees(function(), tools_of, ["look"]),
    "tools.function_call.description": sees(
        function(description="D"), lambda body: function_of(body).get("description"), "D"
    ),
    "tools.function_call.parameters.param_type": sees(
        parameter_2024(param_type="int"),
        lambda body: (at_of(body) or {}).get("type"),
        "integer",
        beside=parameter_2024(),
    ),
    "tools.function_call.parameters.description": sees(
        parameter_2024(), lambda body: (at_of(body) or {}).get("description"), "Where."
    ),
    "tools.function_call.parameters.required": sees(
        parameter_2024(required=False),
        lambda body: function_of(body)["parameters"]["required"],
        [],
        beside=parameter_2024(),
    ),
    "tools.function_call.parameters.default": sees(
        parameter_2024(default="x"), lambda body: (at_of(body) or {}).get("default"), "x", beside=parameter_2024()
    ),
}
OF_AGENTS: Mapping[str, Row] = {
    **OF_DEFINED_TOOLS,
    **OF_MEMORY,
    "model": sees({"model": "other"}, lambda body: body["model"], "other"),
    "name": names_the_agent,
    "enable_session_persistence": keeps_sessions,
    "memory_blocks": refuses({"memory_blocks": ["none"]}, "memory_blocks"),  # shown: test_memory_blocks
    "response_format.json_schema.json_schema": sees(
        JSON_ONLY,
        lambda body: body.get("response_format"),
        {"type": "json_schema", "json_schema": {"name": "Place", "schema": {**SCHEMA, "title": "Place"}}},
    ),
    "response_format.grammar.bnf": refuses(GRAMMAR, "response_format"),
}
OF_TURNS: Mapping[str, Row] = {
    "messages.user.content": shows("hi", "hi"),
    "messages.user.content.text.text": shows([TEXT], "t"),
    "messages.user.content.image.image.url.uri": shows([TEXT, BY_ADDRESS], [TEXT, SHOWN_BY_ADDRESS]),
    "messages.user.content.image.image.data": shows(BY_VALUE, [SHOWN_BY_VALUE]),
    "messages.user.context": context("more", "q\n\nmore"),
    "messages.user.context.text.text": context(TEXT, "q\n\nt"),
    "messages.user.context.image.image.url.uri": context([BY_ADDRESS], [QUESTION, SHOWN_BY_ADDRESS]),
    "messages.user.context.image.image.data": context(BY_VALUE, [QUESTION, SHOWN_BY_VALUE]),
    "messages.tool.call_id": returns("seen", "", call_id="another"),
    "messages.tool.content": returns("seen", "seen"),
    "messages.tool.content.text.text": returns([TEXT], "t"),
    "messages.tool.content.image.image.url.uri": returns([TEXT, BY_ADDRESS], "t\n[image]"),
    "messages.tool.content.image.image.data": returns(BY_VALUE, "[image]"),
    "stream": streams,
    "documents.content": documents("more", "hello\n\nmore"),
    "documents.content.text.text": documents(TEXT, "hello\n\nt"),
    "documents.content.image.image.url.uri": documents([BY_ADDRESS], [HI, SHOWN_BY_ADDRESS], "image/png"),
    "documents.content.image.image.data": documents(BY_VALUE, [HI, SHOWN_BY_VALUE], "image/png"),
    "documents.content.uri": documents({"uri": "data:text/plain;base64,bW9yZQ=="}, "hello\n\nmore"),
    "documents.mime_type": refuses({"documents": [{"content": "x", "mime_type": "application/zip"}]}, "mime_type"),
}
ROWS = [
    *(("agent", path, row) for path, row in {**OF_EITHER, **OF_AGENTS}.items()),
    *(("turn", path, row) for path, row in {**OF_EITHER, **OF_TURNS}.items()),
]


def test_every_field_of_an_agent_and_of_a_turn_has_a_row() -> None:
    assert set(paths_of(AgentConfig)) == {*OF_EITHER, *OF_AGENTS}
    assert set(paths_of(CreateTurn)) == {*OF_EITHER, *OF_TURNS}
    assert set(TurnOverrides.model_fields) == {path.partition(".")[0] for path in OF_EITHER}


@pytest.mark.parametrize(("sent_with", "path", "row"), ROWS, ids=[f"{where}: {path}" for where, path, _ in ROWS])
def test_a_field_has_its_effect_or_is_refused(world: World, sent_with: str, path: str, row: Row) -> None:
    row(world, sent_with)


def test_a_file_that_a_tools_shield_stops_is_not_stored(world: World) -> None:
    shield = {"shield_id": "of-files", "provider_id": "pattern", "params": {"words": ["hidden"]}}
    assert world.post("/v1/shields", shield).status == 200
    tool = {**KINDS["photogen"], "remote_execution": {"url": f"{world.web.url}/drawing", "method": "GET"}}
    for shields_of_it, is_kept in ((["of-files"], False), ([], True)):
        _, turn = ran(world, {**tool, "output_shields": shields_of_it}, "tea")
        with closing(sqlite3.connect(world.serving.data_dir / "turnstone.db")) as store:
            bodies = store.execute("SELECT sk FROM items WHERE pk LIKE ?", (f"%{turn['session_id']}%",)).fetchall()
        assert bool(turn["output_attachments"]) == is_kept
        assert any("attach" in str(key) for (key,) in bodies) == is_kept, bodies


@pytest.mark.parametrize("sent_with", ["agent", "turn"])
@pytest.mark.parametrize("name", ["web_search", "brave_search"])
@pytest.mark.parametrize("offering", [{"toolgroups": ["builtin::websearch"]}, {"tools": [SEARCH]}])
def test_the_search_may_be_chosen_by_either_of_its_names(
    world: World, offering: Fields, name: str, sent_with: str
) -> None:
    config, turn = parted(sent_with, {"tool_config": {"tool_choice": name}})
    body = world.first_request({**offering, **config}, turn)
    assert body["tool_choice"] == {"type": "function", "function": {"name": "brave_search"}}
    assert tools_of(body) == ["brave_search"]


def test_a_name_selects_the_tool_that_the_model_sees_under_it_first(world: World) -> None:
    chosen: Fields = {"toolgroups": ["builtin::websearch"], "tool_config": {"tool_choice": "web_search"}}
    body = world.first_request({**chosen, "client_tools": [{"name": "web_search"}]}, {})
    assert body["tool_choice"] == {"type": "function", "function": {"name": "web_search"}}
    hidden = {**chosen, "client_tools": [{"name": "brave_search"}]}
    refuses(hidden, "tool_config", "tool_choice")(world, "agent")


def test_an_unknown_field_is_ignored(world: World) -> None:
    assert world.first_request({"unknown": 1}, {"unknown": 1}) == world.first_request({}, {})
