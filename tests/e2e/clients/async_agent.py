"""The asynchronous client and its AsyncAgent class. Arguments: base URL, model, what to say."""

import asyncio
import sys

from llama_stack_client import AsyncLlamaStackClient
from llama_stack_client.lib.agents.agent import AsyncAgent
from llama_stack_client.lib.agents.client_tool import client_tool
from llama_stack_client.types.shared_params.user_message import UserMessage
from told import stream_told, tell, turn_told


@client_tool
def add(a: int = 1, b: int = 2) -> int:
    """Add two numbers.

    :param a: one number
    :param b: another number
    """
    return round(a + b)  # AsyncAgent gives whole numbers as floats


async def main() -> None:
    base_url, model, text = sys.argv[1:]
    messages = [UserMessage(role="user", content=text)]
    async with AsyncLlamaStackClient(base_url=base_url) as client:
        agent = AsyncAgent(client, model=model, instructions="Be brief.", tools=[add])
        session_id = await agent.create_session("asynchronous")
        chunks = [chunk async for chunk in await agent.create_turn(messages, session_id=session_id, stream=True)]
        kinds, turn = stream_told(chunks)
        tell(kinds=kinds, streamed=turn)
        tell(whole=turn_told(await agent.create_turn(messages, session_id=session_id, stream=False)))
        session = await client.agents.session.retrieve(session_id, agent_id=agent.agent_id)
        tell(turn_ids=[turn.turn_id for turn in session.turns])


asyncio.run(main())
