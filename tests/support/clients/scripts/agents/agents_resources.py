"""Every method of a client's agents resources, by the client and by its asynchronous twin, streaming and whole.

Arguments: base URL, methods that are not served yet, parted by commas. A client of 0.3 has the resources under `alpha`.
"""

import asyncio
import inspect
import sys
from typing import Any

from llama_stack_client import APIStatusError, AsyncLlamaStackClient, LlamaStackClient
from told import kinds_of, tell, turn_told

NOT_FOUND = 404
CITY = {"name": "city", "parameter_type": "str", "description": "Where.", "required": True}
WEATHER = {"name": "get_weather", "description": "Tell the weather.", "parameters": [CITY]}
CONFIG = {"model": "offline", "instructions": "Be brief.", "name": "forecaster", "client_tools": [WEATHER]}
QUESTION = {"role": "user", "content": "please get_weather(city=Oslo)"}
ANSWER = {"tool_name": "get_weather", "content": "rain, 7 °C"}


async def got(answer: Any) -> Any:
    """Return what a method answers, of either client."""
    return await answer if inspect.isawaitable(answer) else answer


async def drained(stream: Any) -> tuple[list[str], dict[str, Any]]:
    """Return the kinds of a stream's events, and the turn that came with the last."""
    chunks = [chunk async for chunk in stream] if hasattr(stream, "__aiter__") else list(stream)
    payloads = [chunk.event.payload for chunk in chunks]
    return kinds_of(payloads), turn_told(payloads[-1].turn)


async def refused(ask: Any) -> int | None:
    """Return the status with which a method is refused, None if it is not."""
    try:
        await got(ask())
    except APIStatusError as error:
        return error.status_code
    return None


async def is_gone(ask: Any) -> bool:
    return await refused(ask) == NOT_FOUND


async def paused_and_resumed(agents: Any, where: dict[str, str], is_streaming: bool) -> dict[str, Any]:
    """Have a turn wait for us, look at it, answer, and look again."""
    told: dict[str, Any] = {}
    answer = await got(agents.turn.create(**where, messages=[QUESTION], stream=is_streaming))
    told["paused_kinds"], told["paused"] = await drained(answer) if is_streaming else (None, turn_told(answer))
    turn_id = told["paused"]["turn_id"]
    told["waiting"] = turn_told(await got(agents.turn.retrieve(turn_id, **where)))
    responses = [{**ANSWER, "call_id": call_id} for _, _, call_id in told["paused"]["calls"]]
    answer = await got(agents.turn.resume(turn_id, **where, tool_responses=responses, stream=is_streaming))
    told["resumed_kinds"], told["resumed"] = await drained(answer) if is_streaming else (None, turn_told(answer))
    told["retrieved"] = turn_told(await got(agents.turn.retrieve(turn_id, **where)))
    steps = [agents.steps.retrieve(step_id, **where, turn_id=turn_id) for step_id in told["resumed"]["step_ids"]]
    told["steps"] = [[step.step_type, step.step_id] for step in [(await got(step)).step for step in steps]]
    return told


async def all_methods(agents: Any, not_yet: list[str]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    agent_id = (await got(agents.create(agent_config=CONFIG))).agent_id
    session_id, other_id = [
        (await got(agents.session.create(agent_id, session_name=name))).session_id for name in ("first", "second")
    ]
    where = {"agent_id": agent_id, "session_id": session_id}
    told["streaming"] = await paused_and_resumed(agents, where, is_streaming=True)
    told["whole"] = await paused_and_resumed(agents, where, is_streaming=False)

    session = await got(agents.session.retrieve(**where))
    last = session.turns[-1].turn_id
    some = await got(agents.session.retrieve(**where, turn_ids=[last]))
    told["session"] = [session.session_id, session.session_name, [turn_told(turn) for turn in session.turns]]
    told["some"] = [turn_told(turn) for turn in some.turns]
    told["ids"] = [agent_id, session_id, other_id]

    if has_lists := hasattr(agents, "list"):
        agent = await got(agents.retrieve(agent_id))
        told["agent"] = [agent.agent_id, agent.agent_config.name, agent.agent_config.client_tools[0].name]
        told["agents"] = await listed(agents.list, "agent_id", {})
        told["sessions"] = await listed(agents.session.list, "session_id", {"agent_id": agent_id})
    told["not_yet"] = {}
    if "agents.session.delete" in not_yet:
        told["not_yet"]["agents.session.delete"] = await refused(lambda: agents.session.delete(**where))
    else:
        told["session_deleted"] = [
            await got(agents.session.delete(session_id, agent_id=agent_id)),
            await is_gone(lambda: agents.session.retrieve(**where)),
            await is_gone(lambda: agents.turn.retrieve(last, **where)),
            await listed(agents.session.list, "session_id", {"agent_id": agent_id}) if has_lists else [other_id],
        ]
    if "agents.delete" in not_yet:
        told["not_yet"]["agents.delete"] = await refused(lambda: agents.delete(agent_id))
    else:
        told["agent_deleted"] = [
            await got(agents.delete(agent_id)),
            await is_gone(lambda: agents.session.retrieve(other_id, agent_id=agent_id)),
            await is_gone(lambda: agents.session.create(agent_id, session_name="late")),
            agent_id in (await listed(agents.list, "agent_id", {}) if has_lists else []),
        ]
    return told


async def listed(method: Any, name: str, arguments: dict[str, str]) -> list[str]:
    """Return the ids of a list, read a part at a time."""
    ids: list[str] = []
    while True:
        part = await got(method(**arguments, start_index=len(ids), limit=1))
        ids += [entry[name] for entry in part.data]
        if not part.has_more:
            return ids


async def main() -> None:
    base_url, not_yet = sys.argv[1], sys.argv[2].split(",")
    # A strict client raises when an answer is not of the type it declares. One of 0.3 declares that a call's arguments
    # are a text, where those of 0.2, whose API this is, take an object with the text beside it.
    is_strict = not hasattr(LlamaStackClient, "alpha")
    for kind in (LlamaStackClient, AsyncLlamaStackClient):
        client = kind(base_url=base_url, _strict_response_validation=is_strict)
        agents = getattr(client, "alpha", client).agents
        tell(**{kind.__name__: await all_methods(agents, not_yet)})
        await got(client.close())


asyncio.run(main())
