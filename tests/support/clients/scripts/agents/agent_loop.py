"""The client's own Agent class runs its loop: it calls our tool and resumes the turn by itself.

Arguments: base URL, model, message. Each part runs streaming, then not.
"""

import io
import sys
from contextlib import redirect_stdout

from llama_stack_client import Agent, AgentEventLogger, LlamaStackClient
from llama_stack_client.lib.agents.client_tool import client_tool
from llama_stack_client.types.shared_params.user_message import UserMessage
from reporting import report, stream_report, turn_report

ran: list[tuple[int, int]] = []


@client_tool
def add(a: int = 1, b: int = 2) -> int:
    """Add two numbers.

    :param a: one number
    :param b: another number
    """
    ran.append((a, b))
    return a + b


def main() -> None:
    base_url, model, text = sys.argv[1:]
    client = LlamaStackClient(base_url=base_url)
    agent = Agent(client, model=model, instructions="Be brief.", tools=[add])
    messages = [UserMessage(role="user", content=text)]

    session_id = agent.create_session("streaming")
    chunks = list(agent.create_turn(messages, session_id=session_id, stream=True))
    printed = io.StringIO()
    with redirect_stdout(printed):
        for event in AgentEventLogger().log(chunks):
            event.print()
    kinds, turn = stream_report(chunks)
    report(kinds=kinds, printed=printed.getvalue(), streamed=turn)

    session_id = agent.create_session("whole")
    turn = agent.create_turn(messages, session_id=session_id, stream=False)
    again = agent.create_turn([UserMessage(role="user", content="thanks")], session_id=session_id, stream=False)
    session = client.agents.session.retrieve(session_id, agent_id=agent.agent_id)
    report(
        whole=turn_report(turn), again=turn_report(again), turn_ids=[each.turn_id for each in session.turns], ran=ran
    )


main()
