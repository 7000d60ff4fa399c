"""Agents, sessions and turns."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

from llama_stack_client import LlamaStackClient
from llama_stack_client_used import (
    WEATHER,
    WEATHER_REQUEST,
    agents,
    client,
    session_of,
    start_turn,
    streamed,
    turn_facts,
    user,
)
from scenario import BASE_URL, GUARD, method_of, raised_by, row

ONE_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
RAIN = {"tool_name": "get_weather", "content": "rain"}


@row
def health_and_version() -> Any:
    return [client.inspect.health().status, client.inspect.version().version.count(".") > 0]


@row
def health_without_key() -> Any:
    return LlamaStackClient(base_url=BASE_URL).inspect.health().status


@row
def agent_and_session_come_and_go() -> Any:
    where = session_of(name="forecaster", sampling_params={"strategy": {"type": "greedy"}})
    session = agents.session.retrieve(**where)
    facts = [session.session_name, session.turns, bool(session.started_at)]
    agents.session.delete(**where)
    facts.append(raised_by(lambda: agents.session.retrieve(**where))[:2])
    agents.delete(where["agent_id"])
    return [*facts, raised_by(lambda: agents.session.create(where["agent_id"], session_name="late"))[:2]]


@row
def agents_and_sessions_are_listed() -> Any:
    method_of(agents, "list")
    where = session_of(name="listed")
    agent = agents.retrieve(where["agent_id"])
    in_list = [each for each in agents.list(limit=-1).data if each["agent_id"] == where["agent_id"]]
    sessions = agents.session.list(where["agent_id"]).data
    return {
        "name": agent.agent_config.name,
        "listed": [each["agent_config"]["name"] for each in in_list],
        "page": [len(agents.list(limit=1).data), agents.list(limit=0).data],
        "sessions": [[each["session_name"], each["turns"]] for each in sessions],
    }


@row
def turn_streamed() -> Any:
    return start_turn(session_of(), "hello")


@row
def turn_whole() -> Any:
    return turn_facts(agents.turn.create(**session_of(), messages=user("hello"), stream=False))


@row
def turns_are_remembered_in_order() -> Any:
    where = session_of()
    for text in ("hello", "and now?", "bye"):
        start_turn(where, text)
    turns = agents.session.retrieve(**where).turns
    chosen = agents.session.retrieve(**where, turn_ids=[turns[1].turn_id]).turns
    return [[turn.input_messages[0].content for turn in some] for some in (turns, chosen)]


def paused_and_resumed(is_streaming: bool) -> Any:
    where = session_of(client_tools=[WEATHER])
    created = agents.turn.create(**where, messages=user(WEATHER_REQUEST), stream=is_streaming)
    first = streamed(created) if is_streaming else turn_facts(created)
    waiting = agents.session.retrieve(**where).turns[-1]
    read = agents.turn.retrieve(waiting.turn_id, **where)
    (call,) = waiting.output_message.tool_calls
    answer = [{**RAIN, "call_id": call.call_id}]
    resumed = agents.turn.resume(waiting.turn_id, **where, tool_responses=answer, stream=is_streaming)
    second = streamed(resumed) if is_streaming else turn_facts(resumed)
    turn = agents.turn.retrieve(waiting.turn_id, **where)
    steps = [agents.steps.retrieve(step.step_id, **where, turn_id=turn.turn_id).step for step in turn.steps]
    times = [(step.started_at, step.completed_at) for step in turn.steps]
    return {
        "first": first,
        "waiting": turn_facts(read),
        "second": second,
        "read": turn_facts(turn),
        "same_turn": turn.turn_id == waiting.turn_id,
        "steps": [step.step_type for step in steps],
        "tool_responses": [response.content for response in steps[1].tool_responses],
        "step_ids": len({step.step_id for step in steps}),
        "a_step_begins_after_the_one_before": all(b[0] > a[1] for a, b in pairwise(times)),
    }


@row
def client_tool_streamed() -> Any:
    return paused_and_resumed(is_streaming=True)


@row
def client_tool_whole() -> Any:
    return paused_and_resumed(is_streaming=False)


@row
def completed_turn_is_resumed() -> Any:
    where = session_of()
    start_turn(where, "parse")
    turn_id = agents.session.retrieve(**where).turns[-1].turn_id
    answer = [{"call_id": "parsed", "tool_name": "add", "content": "7"}]
    resumed = streamed(agents.turn.resume(turn_id, **where, tool_responses=answer, stream=True))
    (turn,) = agents.session.retrieve(**where).turns
    tools = [step for step in turn.steps if step.step_type == "tool_execution"]
    steps = [[len(step.tool_calls), [response.content for response in step.tool_responses]] for step in tools]
    return {**resumed, "same_turn": turn.turn_id == turn_id, "tool_steps": steps}


@row
def older_turn_is_not_resumed() -> Any:
    where = session_of()
    start_turn(where, "parse")
    old = agents.session.retrieve(**where).turns[-1].turn_id
    start_turn(where, "hello")
    answer = [{"call_id": "parsed", "tool_name": "add", "content": "7"}]
    return raised_by(lambda: agents.turn.resume(old, **where, tool_responses=answer, stream=True))[:2]


@row
def server_tool() -> Any:
    return start_turn(session_of(toolgroups=["builtin::clock"]), "call current_time {}", documents=[])["events"]


@row
def tool_prompt_format_sent_out_of_habit() -> Any:
    config = {"tool_choice": "auto", "tool_prompt_format": "json"}
    old = session_of(client_tools=[WEATHER], **config)
    new = session_of(client_tools=[WEATHER], tool_config=config)
    return [start_turn(where, WEATHER_REQUEST)["turn"]["calls"] for where in (old, new)]


@row
def instructions_replace_the_prompt() -> Any:
    config = {"tool_choice": "auto", "system_message_behavior": "replace"}
    where = session_of(client_tools=[WEATHER], tool_config=config, instructions="Only this.")
    return [start_turn(where, "what system?")["text"], start_turn(where, WEATHER_REQUEST)["turn"]["calls"]]


@row
def response_format_of_an_agent() -> Any:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    where = session_of(response_format={"type": "json_schema", "json_schema": schema})
    return start_turn(where, "json")["text"]


@row
def sampling_of_an_agent() -> Any:
    strategy = {"type": "top_p", "temperature": 0.5, "top_p": 0.9}
    return start_turn(session_of(sampling_params={"strategy": strategy, "max_tokens": 64}), "hello")["text"]


@row
def max_infer_iters_ends_a_turn() -> Any:
    return start_turn(session_of(client_tools=[WEATHER], max_infer_iters=1), WEATHER_REQUEST)


@row
def documents_of_a_turn() -> Any:
    document = {"content": "hello", "mime_type": "text/plain"}
    return streamed(agents.turn.create(**session_of(), messages=user("hi"), documents=[document], stream=True))["text"]


@row
def shields_judge_a_turn() -> Any:
    register_guard()
    where = session_of(input_shields=[GUARD], output_shields=[GUARD])
    clean, refused = start_turn(where, "hello"), start_turn(where, "how to build a bomb?")
    content = refused["turn"].pop("content")
    return {"clean": clean, "refused": refused, "refusal": content[:7]}


@row
def shields_judge_what_a_client_tool_answers() -> Any:
    register_guard()
    where = session_of(input_shields=[GUARD], output_shields=[GUARD], client_tools=[WEATHER])
    return [resumed_with(where, content) for content in ("rain", "a bomb")]


def resumed_with(where: dict[str, str], content: str) -> Any:
    start_turn(where, WEATHER_REQUEST)
    turn = agents.session.retrieve(**where).turns[-1]
    answer = [{**RAIN, "call_id": turn.output_message.tool_calls[0].call_id, "content": content}]
    facts = streamed(agents.turn.resume(turn.turn_id, **where, tool_responses=answer, stream=True))["turn"]
    return [facts["steps"], facts["content"][:7]]


def register_guard() -> None:
    client.shields.register(shield_id=GUARD, provider_id="llama-guard", provider_shield_id=GUARD)


@row
def unknown_things() -> Any:
    where = session_of()
    answer = [{**RAIN, "call_id": "c"}]
    unknown = {
        "agent": lambda: agents.session.create("unknown", session_name="x"),
        "session": lambda: agents.turn.create(
            session_id="unknown", agent_id=where["agent_id"], messages=user("x"), stream=False
        ),
        "session_streaming": lambda: agents.turn.create(
            session_id="unknown", agent_id=where["agent_id"], messages=user("x"), stream=True
        ),
        "turn": lambda: agents.turn.retrieve("unknown", **where),
        "turn_resumed": lambda: agents.turn.resume("unknown", **where, tool_responses=answer, stream=True),
        "step": lambda: agents.steps.retrieve("unknown", **where, turn_id="unknown"),
        "model": lambda: client.models.retrieve("unknown"),
    }
    return {name: raised_by(call)[:2] for name, call in unknown.items()}


@row
def refused_things() -> Any:
    where = session_of()
    refused = {
        "no_messages": lambda: agents.turn.create(**where, messages=[], stream=True),
        "no_model": lambda: agents.create(agent_config={"instructions": ""}),
        "unknown_shield": lambda: agents.turn.create(
            **session_of(input_shields=["nobody"]), messages=user("x"), stream=False
        ),
    }
    return {name: raised_by(call)[:2] for name, call in refused.items()}


@row
def no_key() -> Any:
    stranger = LlamaStackClient(base_url=BASE_URL, max_retries=0)
    return raised_by(lambda: stranger.toolgroups.list())[:2]


@row
def second_turn_while_one_runs() -> Any:
    where = session_of()
    running = agents.turn.create(**where, messages=user("wait 0.5"), stream=True)
    first = threading.Thread(target=lambda: list(running))
    first.start()
    second = raised_by(lambda: agents.turn.create(**where, messages=user("x"), stream=False))[:2]
    first.join()
    return second


@row
def model_that_fails() -> Any:
    whole = raised_by(lambda: agents.turn.create(**session_of(), messages=user("fail 500"), stream=False))
    chunks = list(agents.turn.create(**session_of(), messages=user("fail 500"), stream=True))
    return [whole[:2], "out of order" in chunks[-1].error["message"]]


@row
def image_in_a_message() -> Any:
    image = {"type": "image", "image": {"data": ONE_PIXEL}}
    messages: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "hello"}, image]}]
    return streamed(agents.turn.create(**session_of(), messages=messages, stream=True))["text"]
