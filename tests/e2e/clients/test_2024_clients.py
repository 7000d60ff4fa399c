"""Requests of a client of September 2024, byte for byte, are answered in the form that it reads.

Source: the requests that `llama-stack-client` 0.0.40 makes, and the fields of the answers that it reads. The clients of
0.0.53 to 0.0.63 themselves send the same requests under another prefix.

Covers: functions/llama_stack_2024, dialects/llama_stack_2024
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.models.openai_answers import Answer, built_in_answer, call_answer, text_answer
from tests.fakes.models.openai_server import ModelServer
from tests.support.cases import rest_at_night
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

Json = dict[str, Any]
FUNCTION = {
    "type": "function_call",
    "function_name": "look",
    "description": "Look at a place.",
    "parameters": {"at": {"param_type": "string", "description": "Where.", "required": True}},
}
CONFIG = {
    "model": "m",
    "instructions": "Be brief.",
    "sampling_params": {"strategy": "top_p", "temperature": 0.5, "top_p": 0.9},
    "input_shields": [],
    "output_shields": [],
    "tool_choice": "auto",
    "max_infer_iters": 5,
    "enable_session_persistence": True,
}
VERSIONS = ("0.0.53", "0.0.57", "0.0.63")
SESSIONS = 101  # more than one page of the search for a turn


@pytest.fixture
def offline(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server with the built-in model of vectors."""
    with ServerProcess(tmp_path) as running:
        yield running


class Client2024:
    """Sends and reads exactly as that client did."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=30)

    def __enter__(self) -> Client2024:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def post(self, path: str, body: Json, **query: str) -> Any:
        answer = self._http.post(path, json=body, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def get(self, path: str, **query: str) -> Any:
        answer = self._http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, path: str, body: Json) -> httpx.Response:
        return self._http.post(path, json=body)

    def stream(self, body: Json) -> list[Json]:
        """Return the payloads of a streamed turn."""
        with self._http.stream("POST", "/agents/turn/create", json={**body, "stream": True}) as answer:
            assert answer.status_code == 200
            lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
        return [json.loads(line.removeprefix("data: "))["event"]["payload"] for line in lines]

    def session(self, *tools: Json) -> Json:
        """Return the ids of a new session of a new agent."""
        agent = self.post("/agents/create", {"agent_config": {**CONFIG, "tools": list(tools)}})
        return {**agent, **self.post("/agents/session/create", {**agent, "session_name": "s"})}


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    def answer(body: Json) -> Answer:
        last = body["messages"][-1]
        if last["role"] == "tool":
            return text_answer("I saw ", last["content"])
        if last["content"] == "look":
            return call_answer(("look", '{"at": "Oslo"}'))
        return text_answer("hel", "lo") if body["model"] == "m" else built_in_answer(body)

    with ModelServer(answer) as model:
        yield model


@pytest.fixture(scope="module")
def server(model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server"), model_url=model.url) as running:
        yield running


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client2024]:
    with Client2024(server.url) as client:
        yield client


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def test_text_is_streamed_in_the_fields_of_2024_and_of_today(client: Client2024, model: ModelServer) -> None:
    events = client.stream({**client.session(), "messages": [user("hi")], "attachments": []})
    assert [payload["event_type"] for payload in events] == [
        "turn_start",
        "step_start",
        "step_progress",
        "step_progress",
        "step_complete",
        "turn_complete",
    ]
    progress = [payload for payload in events if payload["event_type"] == "step_progress"]
    assert [payload["model_response_text_delta"] for payload in progress] == ["hel", "lo"]
    assert [payload["delta"]["text"] for payload in progress] == ["hel", "lo"]
    assert events[-1]["turn"]["output_message"]["content"] == "hello"
    sent = model.requests[-1]
    assert (sent["temperature"], sent["top_p"]) == (0.5, 0.9)


def test_a_function_call_ends_the_turn_and_its_answer_continues_it(client: Client2024) -> None:
    session = client.session(FUNCTION)
    events = client.stream({**session, "messages": [user("look")]})
    assert events[-1]["event_type"] == "turn_complete"
    (call,) = events[-1]["turn"]["output_message"]["tool_calls"]
    (delta,) = [payload["tool_call_delta"] for payload in events if payload["event_type"] == "step_progress"]
    assert (delta["parse_status"], delta["content"]["arguments"]) == ("success", {"at": "Oslo"})
    answer = {"role": "ipython", "call_id": call["call_id"], "tool_name": "look", "content": "rain"}
    then = client.stream({**session, "messages": [answer]})
    assert then[-1]["turn"]["output_message"]["content"] == "I saw rain"
    assert then[-1]["turn"]["turn_id"] == events[-1]["turn"]["turn_id"]


def test_a_server_tool_is_streamed_with_its_answer(client: Client2024, model: ModelServer) -> None:
    agent = {"model": "tool:current_time", "instructions": "", "toolgroups": ["builtin::clock"]}
    made = client.post("/agents/create", {"agent_config": agent})
    session = {**made, **client.post("/agents/session/create", {**made, "session_name": "s"})}
    events = client.stream({**session, "messages": [user("what time is it?")]})
    deltas = [payload["tool_response_text_delta"] for payload in events if payload["event_type"] == "step_progress"]
    (step,) = [p["step_details"] for p in events if p.get("step_type") == "tool_execution" and "step_details" in p]
    assert [text for text in deltas if text is not None] == [step["tool_responses"][0]["content"]]


def test_objects_are_read_and_deleted_by_ids_in_bodies_and_queries(client: Client2024) -> None:
    session = client.session()
    turn = client.post("/agents/turn/create", {**session, "messages": [user("hi")], "stream": False})
    agent = {"agent_id": session["agent_id"]}
    named = {**agent, "turn_id": turn["turn_id"]}
    assert client.get("/agents/turn/get", **named) == turn
    assert client.get("/agents/turn/get", **session, turn_id=turn["turn_id"]) == turn
    assert client.post("/agents/turn/get", {**session, **named}) == turn
    (step,) = turn["steps"]
    assert client.get("/agents/step/get", **named, step_id=step["step_id"]) == {"step": step}
    assert client.post("/agents/step/get", {**session, **named, "step_id": step["step_id"]}) == {"step": step}
    whole = client.post("/agents/session/get", {}, **session)
    assert (whole["session_id"], whole["session_name"], whole["turns"]) == (session["session_id"], "s", [turn])
    assert client.post("/agents/session/get", {**session, "turn_ids": [turn["turn_id"]]}) == whole
    assert client.post("/agents/session/get", {"turn_ids": []}, **session)["turns"] == []
    assert client.post("/agents/session/delete", session) is None
    assert client.refused("/agents/session/get", session).status_code == 404
    assert client.post("/agents/delete", agent) is None
    assert client.refused("/agents/delete", agent).status_code == 404


def test_a_turn_is_found_in_any_session_of_its_agent_and_in_no_other_agents(client: Client2024) -> None:
    session = client.session()
    agent = {"agent_id": session["agent_id"]}
    for number in range(SESSIONS):
        last = {**agent, **client.post("/agents/session/create", {**agent, "session_name": str(number)})}
    turn = client.post("/agents/turn/create", {**last, "messages": [user("hi")]})
    assert client.get("/agents/turn/get", **agent, turn_id=turn["turn_id"]) == turn
    other = {"agent_id": client.session()["agent_id"], "turn_id": turn["turn_id"]}
    assert client.refused("/agents/turn/get", other).status_code == 404


def test_attachments_and_banks_are_read_in_one_step_before_the_first_inference(
    client: Client2024, model: ModelServer
) -> None:
    """In the order of that contract, with one step id, in a stream and in the turn that is read later."""
    client.post("/v1/memory-banks", {"memory_bank_id": "shore", "params": {"memory_bank_type": "keyword"}})
    knots = {"document_id": "knots", "content": "Knots probe the mud.", "mime_type": "text/plain"}
    client.post("/v1/memory-banks/shore/documents", {"documents": [knots]})
    memory = {"type": "memory", "memory_bank_configs": [{"type": "keyword", "bank_id": "shore"}]}
    session = client.session(memory)
    attached = [{"content": "Terns dive for fish near the mud.", "mime_type": "text/plain"}]
    events = client.stream({**session, "messages": [user("Who likes mud?")], "attachments": attached})
    order = [(each["event_type"], each.get("step_type")) for each in events]
    assert order[:4] == [
        ("turn_start", None),
        ("step_start", "memory_retrieval"),
        ("step_complete", "memory_retrieval"),
        ("step_start", "inference"),
    ]
    assert order[-1] == ("turn_complete", None)
    assert [each[1] for each in order].count("memory_retrieval") == 2
    step = events[2]["step_details"]
    assert events[1]["step_id"] == events[2]["step_id"] == step["step_id"]
    read = client.post("/agents/session/get", {}, **session)
    of_session = read["memory_bank"]["identifier"]
    assert step["memory_bank_ids"] == ["shore", of_session]
    assert step["vector_db_ids"] == f"shore,{of_session}"
    for text in ("Knots probe the mud.", "Terns dive for fish near the mud."):
        assert text in step["inserted_context"]
        assert text in model.requests[-1]["messages"][-1]["content"]
    assert events[-1]["turn"]["steps"][0] == step
    turn = {"agent_id": session["agent_id"], "turn_id": events[-1]["turn"]["turn_id"]}
    assert client.get("/agents/turn/get", **turn) == events[-1]["turn"]


def test_an_unsupported_feature_is_refused_by_its_name(client: Client2024) -> None:
    memory = {"type": "memory", "memory_bank_configs": [{"type": "a", "bank_id": "b"}]}
    refused = client.refused("/agents/create", {"agent_config": {**CONFIG, "tools": [memory]}})
    assert refused.status_code == 400
    assert "memory_bank_configs" in refused.text
    attached = {**client.session(), "messages": [user("hi")], "attachments": [{"content": "x", "mime_type": "a/b"}]}
    refused = client.refused("/agents/turn/create", attached)
    assert (refused.status_code, "attachments" in refused.text) == (400, True)


def test_an_agent_of_2024_is_an_agent_of_today(client: Client2024) -> None:
    session = client.session(FUNCTION)
    agent = client.get(f"/v1/agents/{session['agent_id']}")["agent_config"]
    assert agent["sampling_params"]["strategy"] == {"type": "top_p", "temperature": 0.5, "top_p": 0.9}
    assert agent["tools"][0]["function_name"] == "look"
    turn = client.post(
        f"/v1/agents/{session['agent_id']}/session/{session['session_id']}/turn", {"messages": [user("hi")]}
    )
    assert client.get("/agents/turn/get", agent_id=session["agent_id"], turn_id=turn["turn_id"]) == turn


@pytest.mark.parametrize("version", rest_at_night(VERSIONS, always=("0.0.63",)))
def test_a_client_of_alpha_talks_with_an_agent_and_answers_its_function(version: str, server: ServerProcess) -> None:
    seen = run_script(version, "alpha_turn", server.url)
    assert seen["events"] == [
        "turn_start",
        "step_start",
        "step_progress",
        "step_progress",
        "step_complete",
        "turn_complete",
    ]
    assert seen["shown"] == "hello"
    assert (seen["called"], seen["answered"], seen["read"]) == (["look", {"at": "Oslo"}], "I saw rain", "I saw rain")
    assert (seen["health"], seen["step"], seen["turns"], seen["gone"]) == ("OK", "inference", 2, 404)


@pytest.mark.parametrize("version", rest_at_night(VERSIONS, always=("0.0.63",)))
def test_a_client_of_alpha_fills_and_queries_banks_of_all_kinds(version: str, offline: ServerProcess) -> None:
    seen = run_script(version, "alpha_memory", offline.url, "offline")
    assert seen["kinds"] == {
        "vector": ["vector", "VectorMemoryBank", "vector"],
        "keyword": ["keyword", "KeywordMemoryBank", "keyword"],
        "keyvalue": ["keyvalue", "KeyValueMemoryBank", "keyvalue"],
        "graph": ["graph", "GraphMemoryBank", "graph"],
    }
    assert seen["found"] == {
        "vector": [["Terns dive for fish.", "colour", True]],
        "keyword": [["Knots probe mud.", "colour", True]],
        "keyvalue": [["grey", "colour", True]],
        "graph": [["Tern eats shrimp.", "colour", True]],
    }
    assert (seen["listed"], seen["gone"]) == (["graph", "keyvalue", "keyword", "vector"], 404)
