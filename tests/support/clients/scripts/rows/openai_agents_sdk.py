"""The rows of the table for OpenAI's Agents SDK over chat completions. Arguments: see `scenario.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel
from scenario import BASE_URL, KEY, MODEL, PREFIXES, row, run

set_tracing_disabled(True)


class Place(BaseModel):
    """A place."""

    city: str


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def with_model(act: Callable[[Any], Awaitable[Any]]) -> Callable[[], Any]:
    """Make a row of calls of a model of the SDK."""

    @row
    @wraps(act)
    def ran() -> Any:
        async def acted() -> Any:
            async with AsyncOpenAI(base_url=BASE_URL + PREFIXES[0], api_key=KEY, max_retries=0) as client:
                return await act(OpenAIChatCompletionsModel(model=MODEL, openai_client=client))

        return asyncio.run(acted())

    return ran


@with_model
async def agent_runs(model: Any) -> Any:
    return (await Runner.run(Agent(name="brief", instructions="Be brief.", model=model), "hello")).final_output


@with_model
async def agent_runs_its_tool(model: Any) -> Any:
    agent = Agent(name="brief", instructions="Be brief.", model=model, tools=[add])
    ended = await Runner.run(agent, 'call add {"a": 3, "b": 4}')
    return [ended.final_output, [item.type for item in ended.new_items]]


@with_model
async def agent_runs_its_tool_streamed(model: Any) -> Any:
    agent = Agent(name="brief", instructions="Be brief.", model=model, tools=[add])
    running = Runner.run_streamed(agent, 'call add {"a": 3, "b": 4}')
    items = [event.item.type async for event in running.stream_events() if event.type == "run_item_stream_event"]
    return [running.final_output, items]


@with_model
async def agent_with_an_output_type(model: Any) -> Any:
    agent = Agent(name="place", instructions="Be brief.", model=model, output_type=Place)
    return (await Runner.run(agent, "json")).final_output.city


@with_model
async def agent_with_settings(model: Any) -> Any:
    settings = ModelSettings(
        temperature=0.5, top_p=0.9, max_tokens=64, parallel_tool_calls=False, tool_choice="auto", metadata={"team": "a"}
    )
    agent = Agent(name="brief", instructions="Be brief.", model=model, tools=[add], model_settings=settings)
    return (await Runner.run(agent, "hello")).final_output


@with_model
async def agent_hands_off(model: Any) -> Any:
    other = Agent(name="other", instructions="Be other.", model=model)
    agent = Agent(name="first", instructions="Be first.", model=model, handoffs=[other])
    return (await Runner.run(agent, "call transfer_to_other {}")).last_agent.name


@with_model
async def agent_with_a_session(model: Any) -> Any:
    session = SQLiteSession("table")
    agent = Agent(name="brief", instructions="Be brief.", model=model)
    texts = [(await Runner.run(agent, text, session=session)).final_output for text in ("hello", "and now?")]
    return [texts, len(await session.get_items())]


run()
