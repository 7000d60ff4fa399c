"""Every method of a client's agents resources, by the client and by its asynchronous twin, streaming and whole.

Arguments: base URL, methods that are not served yet, parted by commas. A client of 0.3 has the resources under `alpha`.
"""

import asyncio
import inspect
import sys
from typing import Any

from llama_stack_client import APIStatusError, AsyncLlamaStackClient, LlamaStackClient
from reporting import kinds_of, report, turn_report

NOT_FOUND = 404
CITY = {"name": "city", "parameter_type": "str", "description": "Where.", "required": True}
WEATHER = {"name": "get_weather", "description": "Tell the weather.", "parameters": [CITY]}
CONFIG = {"model": "offline", "instructions": "Be brief.", "name": "forecaster", "client_tools": [WEATHER]}
QUESTION = {"role": "user", "content": "please get_weather(city=Oslo)"}
ANSWER = {"tool_name": "get_weather", "content": "rain, 7 °C"}


async def got(answer: Any) -> Any:
    """Return the answer of a method of either client."""
    return await answer if inspect.isawaitable(answer) else answer


async def drained(stream: Any) -> tuple[list[str], dict[str, Any]]:
    """Return the kinds of a stream's events, and the turn that came with the last."""
    chunks = [chunk async for chunk in stream] if hasattr(stream, "__aiter__") else list(stream)
    payloads = [chunk.event.payload for chunk in chunks]
    return kinds_of(payloads), turn_report(payloads[-1].turn)


async def refused(send: Any) -> int | None:
    """Return the status with which a method is refused, None if it is not."""
    try:
        await got(send())
    except APIStatusError as error:
        return error.status_code
    return None


async def is_gone(send: Any) -> bool:
    return await refused(send) == NOT_FOUND


async def paused_and_resumed(agents: Any, where: dict[str, str], is_streaming: bool) -> dict[str, Any]:
    """Pause a turn, read it, answer, and read it again."""
    facts: dict[str, Any] = {}
    answer = await got(agents.turn.create(**where, messages=[QUESTION], stream=is_streaming))
    facts["paused_kinds"], facts["paused"] = await drained(answer) if is_streaming else (None, turn_report(answer))
    turn_id = facts["paused"]["turn_id"]
    facts["waiting"] = turn_report(await got(agents.turn.retrieve(turn_id, **where)))
    responses = [{**ANSWER, "call_id": call_id} for _, _, call_id in facts["paused"]["calls"]]
    answer = await got(agents.turn.resume(turn_id, **where, tool_responses=responses, stream=is_streaming))
    facts["resumed_kinds"], facts["resumed"] = await drained(answer) if is_streaming else (None, turn_report(answer))
    facts["retrieved"] = turn_report(await got(agents.turn.retrieve(turn_id, **where)))
    steps = [agents.steps.retrieve(step_id, **where, turn_id=turn_id) for step_id in facts["resumed"]["step_ids"]]
    facts["steps"] = [[step.step_type, step.step_id] for step in [(await got(step)).step for step in steps]]
    return facts


async def all_methods(agents: Any, not_yet: list[str]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    agent_id = (await got(agents.create(agent_config=CONFIG))).agent_id
    session_id, other_id = [
        (await got(agents.session.create(agent_id, session_name=name))).session_id for name in ("first", "second")
    ]
    where = {"agent_id": agent_id, "session_id": session_id}
    facts["streaming"] = await paused_and_resumed(agents, where, is_streaming=True)
    facts["whole"] = await paused_and_resumed(agents, where, is_streaming=False)

    session = await got(agents.session.retrieve(**where))
    last = session.turns[-1].turn_id
    some = await got(agents.session.retrieve(**where, turn_ids=[last]))
    facts["session"] = [session.session_id, session.session_name, [turn_report(turn) for turn in session.turns]]
    facts["some"] = [turn_report(turn) for turn in some.turns]
    facts["ids"] = [agent_id, session_id, other_id]

    if has_lists := hasattr(agents, "list"):
        agent = await got(agents.retrieve(agent_id))
        facts["agent"] = [agent.agent_id, agent.agent_config.name, agent.agent_config.client_tools[0].name]
        facts["agents"] = await listed(agents.list, "agent_id", {})
        facts["sessions"] = await listed(agents.session.list, "session_id", {"agent_id": agent_id})
    facts["not_yet"] = {}
    if "agents.session.delete" in not_yet:
        facts["not_yet"]["agents.session.delete"] = await refused(lambda: agents.session.delete(**where))
    else:
        facts["session_deleted"] = [
            await got(agents.session.delete(session_id, agent_id=agent_id)),
            await is_gone(lambda: agents.session.retrieve(**where)),
            await is_gone(lambda: agents.turn.retrieve(last, **where)),
            await listed(agents.session.list, "session_id", {"agent_id": agent_id}) if has_lists else [other_id],
        ]
    if "agents.delete" in not_yet:
        facts["not_yet"]["agents.delete"] = await refused(lambda: agents.delete(agent_id))
    else:
        facts["agent_deleted"] = [
            await got(agents.delete(agent_id)),
            await is_gone(lambda: agents.session.retrieve(other_id, agent_id=agent_id)),
            await is_gone(lambda: agents.session.create(agent_id, session_name="late")),
            agent_id in (await listed(agents.list, "agent_id", {}) if has_lists else []),
        ]
    return facts


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
        report(**{kind.__name__: await all_methods(agents, not_yet)})
        await got(client.close())


asyncio.run(main())
