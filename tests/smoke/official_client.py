"""The official client, unmodified, against a stack: `python -m tests.smoke.official_client URL` prints its answer.

It needs nothing but an HTTP client that signs its requests.
"""

import sys

import httpx
from llama_stack_client import Agent, LlamaStackClient
from llama_stack_client.lib.agents.client_tool import client_tool

from tests.smoke.deployment import Signed


@client_tool
def get_weather(city: str) -> str:
    """Weather of a city

    :param city: The city
    """
    return f"4 degrees and rain in {city}"


def main(url: str) -> None:
    with LlamaStackClient(base_url=url, http_client=httpx.Client(auth=Signed())) as client:
        agent = Agent(client, model="offline", instructions="You are a helpful assistant.", tools=[get_weather])
        session_id = agent.create_session("first")
        messages = [{"role": "user", "content": "please get_weather(city=Oslo)"}]
        turn = agent.create_turn(messages, session_id=session_id, stream=False)
        print(turn.output_message.content)


if __name__ == "__main__":
    main(sys.argv[1])
