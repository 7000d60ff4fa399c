"""One long turn through a client as it comes, with its own timeouts and retries.

Arguments: base URL, model, `streaming` or `whole`.
"""

import sys
import time

from llama_stack_client import LlamaStackClient
from llama_stack_client.types.shared_params.agent_config import AgentConfig
from llama_stack_client.types.shared_params.user_message import UserMessage
from reporting import report, stream_report, turn_report


def main() -> None:
    base_url, model, mode = sys.argv[1:]
    client = LlamaStackClient(base_url=base_url)
    agent_id = client.agents.create(agent_config=AgentConfig(model=model, instructions="Be brief.")).agent_id
    session_id = client.agents.session.create(agent_id, session_name="long").session_id
    report(session=f"/v1/agents/{agent_id}/session/{session_id}")
    messages = [UserMessage(role="user", content="take your time")]
    began = time.monotonic()
    if mode == "streaming":
        _, turn = stream_report(
            client.agents.turn.create(session_id, agent_id=agent_id, messages=messages, stream=True)
        )
    else:
        turn = turn_report(client.agents.turn.create(session_id, agent_id=agent_id, messages=messages, stream=False))
    took_s = time.monotonic() - began
    session = client.agents.session.retrieve(session_id, agent_id=agent_id)
    report(turn=turn, took_s=took_s, timeout_s=client.timeout.read, max_retries=client.max_retries)
    report(turns=[turn_report(each) for each in session.turns])


main()
