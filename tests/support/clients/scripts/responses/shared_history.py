"""A session whose turns the Agents API and responses take in turns: this script takes those of the Agents API.

Arguments: base URL; then `begin`, or `turn` or `read` with the ids of agent and session.
"""

import sys

from llama_stack_client import LlamaStackClient
from reporting import report, turn_report

SIGHT = {"name": "look", "description": "Describe the place.", "parameters": []}


def main(base_url: str, act: str, *ids: str) -> None:
    client = LlamaStackClient(base_url=base_url)
    if act == "begin":
        config = {"model": "scripted", "instructions": "Be brief.", "client_tools": [SIGHT]}
        agent_id = client.agents.create(agent_config=config).agent_id
        session_id = client.agents.session.create(agent_id, session_name="shared").session_id
        report(ids=[agent_id, session_id])
        ids = (agent_id, session_id)
    agent_id, session_id = ids
    if act == "read":
        turns = client.agents.session.retrieve(session_id, agent_id=agent_id).turns
        report(turns=[[turn.input_messages[0].role, turn.output_message.content] for turn in turns])
        return
    messages = [{"role": "user", "content": "look" if act == "begin" else "by a turn"}]
    turn = client.agents.turn.create(session_id, agent_id=agent_id, messages=messages, stream=False)
    report(turn=turn_report(turn)["calls"] or turn.output_message.content)


main(*sys.argv[1:])
