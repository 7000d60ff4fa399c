"""A conversation in which a turn pauses for a tool of ours, and the server is restarted before we answer.

Arguments: base URL, `streaming` or `whole`.
"""

import sys
from typing import Any

from llama_stack_client import LlamaStackClient
from llama_stack_client.types import ToolDefParam, ToolResponseParam
from llama_stack_client.types.shared_params.agent_config import AgentConfig
from llama_stack_client.types.shared_params.user_message import UserMessage
from llama_stack_client.types.tool_def_param import Parameter
from reporting import report, stream_report, turn_report, wait_for_word

WEATHER = ToolDefParam(
    name="get_weather",
    description="Tell the weather.",
    parameters=[Parameter(name="city", parameter_type="str", description="Where.", required=True)],
)
CONFIG = AgentConfig(model="scripted", instructions="Be brief.", client_tools=[WEATHER])


def main() -> None:
    base_url, mode = sys.argv[1:]
    # With strict validation the client itself raises when an answer is not of the type it declares.
    client = LlamaStackClient(base_url=base_url, _strict_response_validation=True)
    agent_id = client.agents.create(agent_config=CONFIG).agent_id
    session_id = client.agents.session.create(agent_id, session_name="weather").session_id
    where = {"agent_id": agent_id, "session_id": session_id}

    def start(text: str) -> tuple[list[str], dict[str, Any]]:
        messages = [UserMessage(role="user", content=text)]
        if mode == "streaming":
            return stream_report(
                client.agents.turn.create(session_id, agent_id=agent_id, messages=messages, stream=True)
            )
        return [], turn_report(
            client.agents.turn.create(session_id, agent_id=agent_id, messages=messages, stream=False)
        )

    def resume(turn_id: str, answer: ToolResponseParam) -> tuple[list[str], dict[str, Any]]:
        if mode == "streaming":
            return stream_report(client.agents.turn.resume(turn_id, **where, tool_responses=[answer], stream=True))
        return [], turn_report(client.agents.turn.resume(turn_id, **where, tool_responses=[answer], stream=False))

    first = start("hello")
    paused = start("How is the weather in Oslo?")
    report(first=first, paused=paused)
    wait_for_word()
    turn_id = paused[1]["turn_id"]
    call_id = paused[1]["calls"][0][2]
    waiting = client.agents.turn.retrieve(turn_id, **where)
    step = client.agents.steps.retrieve(waiting.steps[0].step_id, **where, turn_id=turn_id).step
    report(waiting=turn_report(waiting), waiting_step=[step.step_type, step.step_id])
    report(resumed=resume(turn_id, ToolResponseParam(call_id=call_id, tool_name="get_weather", content="rain, 7 °C")))
    report(retrieved=turn_report(client.agents.turn.retrieve(turn_id, **where)))
    report(third=start("Are you sure?"))
    session = client.agents.session.retrieve(session_id, agent_id=agent_id)
    report(session_name=session.session_name, turns=[turn_report(turn) for turn in session.turns])


main()
