"""Reads some turns of a session by their ids. Arguments: base URL."""

import sys

from llama_stack_client import LlamaStackClient
from llama_stack_client.types.shared_params.agent_config import AgentConfig
from llama_stack_client.types.shared_params.user_message import UserMessage
from told import tell


def main() -> None:
    client = LlamaStackClient(base_url=sys.argv[1], _strict_response_validation=True)
    agent_id = client.agents.create(agent_config=AgentConfig(model="offline", instructions="Be brief.")).agent_id
    session_id = client.agents.session.create(agent_id, session_name="three turns").session_id
    made = []
    for number in range(3):
        messages = [UserMessage(role="user", content=str(number))]
        turn = client.agents.turn.create(session_id, agent_id=agent_id, messages=messages, stream=False)
        made.append(turn.turn_id)
    for name, wanted in (("one", made[1:2]), ("two", made[1:])):
        session = client.agents.session.retrieve(session_id, agent_id=agent_id, turn_ids=wanted)
        tell(**{f"{name}_wanted": wanted, f"{name}_got": [turn.turn_id for turn in session.turns]})


main()
