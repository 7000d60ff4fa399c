"""Reads a session of which a turn's content is lost. Arguments: base URL, agent, session and the lost turn's id.

A client of 0.3 has the agents resources under `alpha`.
"""

import sys

from llama_stack_client import APIStatusError, LlamaStackClient
from reporting import report


def main() -> None:
    base_url, agent_id, session_id, lost_id = sys.argv[1:]
    client = LlamaStackClient(base_url=base_url, _strict_response_validation=True)
    agents = client.alpha.agents if hasattr(client, "alpha") else client.agents
    session = agents.session.retrieve(session_id, agent_id=agent_id)
    shown = [[turn.turn_id, turn.output_message.content, turn.completed_at is not None] for turn in session.turns]
    try:
        agents.turn.retrieve(lost_id, agent_id=agent_id, session_id=session_id)
        status = None
    except APIStatusError as error:
        status = error.status_code
    report(turns=shown, status=status)


main()
