"""Turns that ended without an answer, read in their session and alone. Arguments: base URL, what to have fail."""

import sys
from typing import Any

from llama_stack_client import APIStatusError, LlamaStackClient
from reporting import report, turn_report

CLIENT_TOOL = {"name": "look", "description": "Look.", "parameters": []}


def main() -> None:
    client = LlamaStackClient(base_url=sys.argv[1], max_retries=0)
    messages: Any = [{"role": "user", "content": "a private question"}]
    config: Any = {"model": "broken", "instructions": "Be brief.", "client_tools": [CLIENT_TOOL]}
    agent_id = client.agents.create(agent_config=config).agent_id
    session_id = client.agents.session.create(agent_id, session_name="unanswered").session_id
    where = {"agent_id": agent_id, "session_id": session_id}
    try:
        client.agents.turn.create(**where, messages=messages, stream=False)
    except APIStatusError as refused:
        report(refused=[refused.status_code, refused.response.headers.get("x-turn-status")])
    (turn,) = client.agents.session.retrieve(**where).turns
    raw = client.agents.turn.with_raw_response.retrieve(turn.turn_id, **where)
    read = raw.parse()
    report(
        status=raw.headers.get("x-turn-status"), in_session=turn.to_dict(mode="json"), read=read.to_dict(mode="json")
    )
    report(told=[turn_report(turn), turn_report(read)])


main()
