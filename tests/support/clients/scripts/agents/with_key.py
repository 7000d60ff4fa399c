"""A client with a key, until that is taken back. Arguments: base URL, key, another tenant's key."""

import sys
import time

from llama_stack_client import Agent, AuthenticationError, LlamaStackClient, NotFoundError
from reporting import report, turn_report, wait_for_word

PATIENCE_S = 20.0


def main(base_url: str, key: str, others_key: str) -> None:
    client = LlamaStackClient(base_url=base_url, api_key=key)
    agent = Agent(client, model="offline", instructions="Be brief.")
    session_id = agent.create_session("first")
    messages = [{"role": "user", "content": "hello"}]
    kinds = [chunk.event.payload.event_type for chunk in agent.create_turn(messages, session_id, stream=True)]
    report(kinds=kinds, whole=turn_report(agent.create_turn(messages, session_id, stream=False)))

    stranger = LlamaStackClient(base_url=base_url, api_key=others_key)
    try:
        stranger.agents.session.retrieve(session_id, agent_id=agent.agent_id)
    except NotFoundError as error:
        report(to_a_stranger=error.status_code)
    try:
        LlamaStackClient(base_url=base_url).agents.create(agent_config={"model": "offline", "instructions": ""})
    except AuthenticationError as error:
        retries = error.request.headers.get("x-stainless-retry-count")
        report(without=[error.status_code, error.response.headers["www-authenticate"], retries])
    wait_for_word()

    began = time.monotonic()
    while time.monotonic() < began + PATIENCE_S:
        try:
            client.agents.session.retrieve(session_id, agent_id=agent.agent_id)
        except AuthenticationError as error:
            report(revoked=error.status_code, after_s=time.monotonic() - began)
            break
        time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
