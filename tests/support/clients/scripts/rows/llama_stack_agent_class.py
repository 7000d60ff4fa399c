"""The client's own Agent classes, which run the loop of a client's tools by themselves."""

from __future__ import annotations

import asyncio
import io
from contextlib import redirect_stdout
from typing import Any

from llama_stack_client import AsyncLlamaStackClient
from llama_stack_client_used import agents, client, streamed, turn_facts, user
from scenario import BASE_URL, KEY, MODEL, Lacking, row

ADDS = 'call add {"a": 3, "b": 4}'


def add(a: int, b: int) -> int:
    """Add two numbers.

    :param a: one number
    :param b: another number
    """
    return round(a + b)


def agent_class(name: str = "Agent", module: str = "agent") -> Any:
    """Return a class of the client's own. Since 0.3 these speak the Responses API."""
    if hasattr(client, "alpha"):
        raise Lacking(f"{name} over the agents API")
    library = __import__(f"llama_stack_client.lib.agents.{module}", fromlist=[name])
    return getattr(library, name)


@row
def agent_class_runs_its_tool() -> Any:
    agent = agent_class()(client, model=MODEL, instructions="Be brief.", tools=[add])
    chunks = list(agent.create_turn(user(ADDS), session_id=agent.create_session("streaming"), stream=True))
    logger = agent_class("EventLogger", "event_logger")()
    printed = io.StringIO()
    with redirect_stdout(printed):
        for event in logger.log(chunks):
            event.print()
    whole = agent.create_turn(user(ADDS), session_id=agent.create_session("whole"), stream=False)
    return {
        **streamed(chunks),
        "printed": [word for word in ("tool_execution> Tool:add", "inference> It is 7.") if word in printed.getvalue()],
        "whole": turn_facts(whole),
    }


@row
def agent_class_of_deprecated_arguments() -> Any:
    decorate = agent_class("client_tool", "client_tool")
    tool = decorate(add)
    config = {
        "model": MODEL,
        "instructions": "Be brief.",
        "toolgroups": [],
        "client_tools": [tool.get_tool_definition()],
        "tool_choice": "auto",
        "tool_prompt_format": "json",
        "input_shields": [],
        "output_shields": [],
        "enable_session_persistence": False,
    }
    agent = agent_class()(client, config, client_tools=(tool,))
    turn = agent.create_turn(user(ADDS), session_id=agent.create_session("deprecated"), stream=False)
    return turn_facts(turn)


@row
def asynchronous_agent_class_runs_its_tool() -> Any:
    kind = agent_class("AsyncAgent")

    async def act() -> Any:
        async with AsyncLlamaStackClient(base_url=BASE_URL, api_key=KEY, max_retries=0) as asynchronous:
            agent = kind(asynchronous, model=MODEL, instructions="Be brief.", tools=[add])
            session_id = await agent.create_session("asynchronous")
            chunks = [each async for each in await agent.create_turn(user(ADDS), session_id=session_id, stream=True)]
            return streamed(chunks)

    return asyncio.run(act())


@row
def agent_class_with_a_server_tool() -> Any:
    agent = agent_class()(client, model=MODEL, instructions="Be brief.", tools=["builtin::clock", add])
    session_id = agent.create_session("clock")
    first = agent.create_turn(user("call current_time {}"), session_id=session_id, stream=False)
    return [agent.builtin_tools, turn_facts(first)["steps"]]


@row
def react_agent() -> Any:
    return react(json_response_format=False)


@row
def react_agent_in_json() -> Any:
    return react(json_response_format=True)


@row
def react_agent_with_a_server_tool() -> Any:
    kind = agent_class("ReActAgent", "react.agent")
    agent = kind(client, model=MODEL, tools=["builtin::clock", add])
    turn = agent.create_turn(user("react clock"), session_id=agent.create_session("react"), stream=False)
    return turn_facts(turn)["steps"]


def react(json_response_format: bool) -> Any:
    kind = agent_class("ReActAgent", "react.agent")
    agent = kind(client, model=MODEL, tools=[add], json_response_format=json_response_format)
    session_id = agent.create_session("react")
    chunks = list(agent.create_turn(user("react"), session_id=session_id, stream=True))
    turns = agents.session.retrieve(session_id, agent_id=agent.agent_id).turns
    return {**streamed(chunks), "kept": [turn_facts(turn)["steps"] for turn in turns]}


@row
def tool_parser_of_our_own() -> Any:
    kind, parser = agent_class(), agent_class("ToolParser", "tool_parser")
    from llama_stack_client.types.shared.tool_call import ToolCall

    class Parser(parser):  # type: ignore[misc]
        def get_tool_calls(self, output_message: Any) -> list[Any]:
            word, _, rest = output_message.content.partition(" ")
            if word != "CALL":
                return []
            _, a, b = rest.split()
            return [ToolCall(call_id="parsed", tool_name="add", arguments={"a": int(a), "b": int(b)})]

    agent = kind(client, model=MODEL, instructions="Be brief.", tools=[add], tool_parser=Parser())
    session_id = agent.create_session("parser")
    chunks = list(agent.create_turn(user("parse"), session_id=session_id, stream=True))
    second = agent.create_turn(user("parse"), session_id=session_id, stream=False)
    return {**streamed(chunks), "second": turn_facts(second)}


@row
def agent_class_over_responses() -> Any:
    if not hasattr(client, "alpha"):
        raise Lacking("Agent over the Responses API")
    from llama_stack_client import Agent, AgentEventLogger

    agent = Agent(client, model=MODEL, instructions="Be brief.", tools=[add])
    session_id = agent.create_session("responses")
    chunks = list(agent.create_turn(message(ADDS), session_id=session_id, stream=True))
    printed = "".join(map(str, AgentEventLogger().log(iter(chunks))))
    whole = agent.create_turn(message("hello"), session_id=session_id, stream=False)
    items: Any = client.get(
        f"/v1/conversations/{session_id}/items", cast_to=object, options={"params": {"order": "asc"}}
    )
    return {
        "events": types_of(chunks),
        "final": [chunks[-1].event.final_text, len(chunks[-1].event.response_ids)],
        "printed": "It is 7." in printed,
        "whole": whole.output_text,
        "kept": [item["type"] for item in items["data"]],
    }


def message(text: str) -> list[Any]:
    return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]


def types_of(chunks: Any) -> list[str]:
    """Return the kinds of the events of Agent over responses, repeated ones once."""
    kinds: list[str] = []
    for event in (chunk.event for chunk in chunks):
        kind = " ".join((event.event_type, getattr(event, "step_type", ""))).strip()
        if hasattr(event, "delta"):
            kind = f"{kind} {event.delta.delta_type}"
        if kinds[-1:] != [kind]:
            kinds.append(kind)
    return kinds
