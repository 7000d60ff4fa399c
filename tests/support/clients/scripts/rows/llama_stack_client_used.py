"""The client of the rows, and the objects that they make with it."""

from __future__ import annotations

from typing import Any

from llama_stack_client import LlamaStackClient
from reporting import kinds_of
from scenario import BASE_URL, KEY, MODEL

client = LlamaStackClient(base_url=BASE_URL, api_key=KEY, max_retries=0)
agents = getattr(client, "alpha", client).agents
CITY = {"name": "city", "parameter_type": "str", "description": "Where.", "required": True}
WEATHER = {"name": "get_weather", "description": "The weather of a city.", "parameters": [CITY]}
if hasattr(client, "alpha"):  # since 0.3 a tool is described by a schema
    SCHEMA = {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "Where."}},
        "required": ["city"],
    }
    WEATHER = {"name": "get_weather", "description": "The weather of a city.", "input_schema": SCHEMA}
WEATHER_REQUEST = 'call get_weather {"city": "Oslo"}'


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def session_of(**config: Any) -> dict[str, str]:
    """Return the ids of a new session of a new agent."""
    agent_id = agents.create(agent_config={"model": MODEL, "instructions": "Be brief.", **config}).agent_id
    return {"agent_id": agent_id, "session_id": agents.session.create(agent_id, session_name="table").session_id}


def turn_facts(turn: Any) -> dict[str, Any]:
    """Return the facts of the client's turn, without ids and times."""
    answer = turn.output_message
    return {
        "steps": [step.step_type for step in turn.steps],
        "content": answer.content,
        "stop_reason": answer.stop_reason,
        "calls": [[call.tool_name, call.arguments] for call in answer.tool_calls or ()],
        "is_over": turn.completed_at is not None,
    }


def streamed(chunks: Any) -> dict[str, Any]:
    """Return the kinds of a stream's events, its text and the turn of its last event."""
    payloads = [chunk.event.payload for chunk in chunks]
    deltas = [payload.delta for payload in payloads if payload.event_type == "step_progress"]
    text = "".join(delta.text for delta in deltas if delta.type == "text")
    return {"events": kinds_of(payloads), "text": text, "turn": turn_facts(payloads[-1].turn)}


def start_turn(where: dict[str, str], text: str, **given: Any) -> dict[str, Any]:
    """Return the facts of a streamed turn."""
    return streamed(agents.turn.create(**where, messages=user(text), stream=True, **given))
