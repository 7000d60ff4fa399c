"""Talks with an agent as clients of 0.0.53 to 0.0.63 do, which prefix every path with /alpha. Arguments: base URL.

Reports the stream as the client's own logger shows it, the arguments of a call of the client's function, the answer
afterwards, and the objects that were read and deleted.
"""

import asyncio
import inspect
import json
import sys
from collections.abc import Iterable
from typing import Any

import httpx
from llama_stack_client import LlamaStackClient, NotFoundError
from llama_stack_client.lib.agents.event_logger import EventLogger

LOCATION_TOOL = {
    "type": "function_call",
    "function_name": "look",
    "description": "Look at a place.",
    "parameters": {"at": {"param_type": "string", "description": "Where.", "required": True}},
}
CONFIG: Any = {
    "model": "m",
    "instructions": "Be brief.",
    "sampling_params": {"strategy": "top_p", "temperature": 0.5, "top_p": 0.9},
    "input_shields": [],
    "output_shields": [],
    "tools": [LOCATION_TOOL],
    "tool_choice": "auto",
    "max_infer_iters": 5,
    "enable_session_persistence": True,
}


def main() -> None:
    # its own one passes arguments that newer versions of httpx refuse
    http_client = httpx.Client(base_url=sys.argv[1])
    client: Any = LlamaStackClient(base_url=sys.argv[1], max_retries=0, http_client=http_client)
    report(health=client.inspect.health().status)
    agent_id = client.agents.create(agent_config=CONFIG).agent_id
    ids = {
        "agent_id": agent_id,
        "session_id": client.agents.session.create(agent_id=agent_id, session_name="s").session_id,
    }
    chunks = list(client.agents.turn.create(**ids, messages=[user("hi")], stream=True))
    report(shown="".join(shown(chunks)), events=[chunk.event.payload.event_type for chunk in chunks])

    *_, last = client.agents.turn.create(**ids, messages=[user("look")], stream=True)
    (call,) = last.event.payload.turn.output_message.tool_calls
    report(called=[call.tool_name, call.arguments])
    answer = {"role": "ipython", "call_id": call.call_id, "tool_name": "look", "content": "rain"}
    *_, last = client.agents.turn.create(**ids, messages=[answer], stream=True)
    turn = last.event.payload.turn
    report(answered=turn.output_message.content)

    read = client.agents.turn.retrieve(**ids, turn_id=turn.turn_id)
    step = client.agents.steps.retrieve(**ids, turn_id=turn.turn_id, step_id=read.steps[0].step_id)
    session = client.agents.session.retrieve(**ids)
    report(read=read.output_message.content, step=step.step.step_type, turns=len(session.turns))
    client.agents.session.delete(**ids)
    client.agents.delete(agent_id=agent_id)
    try:
        client.agents.session.retrieve(**ids)
    except NotFoundError as gone:
        report(gone=gone.status_code)


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def shown(chunks: list[Any]) -> Iterable[str]:
    """Return the lines of the client's own logger for a stream; its form differs between the versions."""

    async def arriving() -> Any:
        for chunk in chunks:
            yield chunk

    async def gathered() -> list[str]:
        return [event.content or "" async for event in EventLogger().log(arriving())]

    if inspect.isasyncgenfunction(EventLogger.log):
        return asyncio.run(gathered())
    return [event.content or "" for event in EventLogger().log(chunks)]


def report(**facts: object) -> None:
    print(json.dumps(facts))


main()
