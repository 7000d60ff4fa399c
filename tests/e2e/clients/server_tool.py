"""A tool that runs on the server. Arguments: base URL.

The agent is created without the Agent class, which asks for the list of the toolgroup's tools.
"""

import sys

from llama_stack_client import LlamaStackClient
from llama_stack_client.types.shared_params.agent_config import AgentConfig
from llama_stack_client.types.shared_params.user_message import UserMessage
from told import stream_told, tell


def main() -> None:
    client = LlamaStackClient(base_url=sys.argv[1], _strict_response_validation=True)
    config = AgentConfig(model="tool:current_time", instructions="Be brief.", toolgroups=["builtin::clock"])
    agent_id = client.agents.create(agent_config=config).agent_id
    session_id = client.agents.session.create(agent_id, session_name="clock").session_id
    messages = [UserMessage(role="user", content="What time is it?")]
    kinds, turn = stream_told(client.agents.turn.create(session_id, agent_id=agent_id, messages=messages, stream=True))
    step_id = turn["step_ids"][1]
    where = {"agent_id": agent_id, "session_id": session_id, "turn_id": turn["turn_id"]}
    step = client.agents.steps.retrieve(step_id, **where).step
    tell(kinds=kinds, turn=turn, tools=[call.tool_name for call in step.tool_calls])
    tell(time=step.tool_responses[0].content)


main()
