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
from told import stream_told, tell, turn_told, wait_for_word

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

    def ask(text: str) -> tuple[list[str], dict[str, Any]]:
        messages = [UserMessage(role="user", content=text)]
        if mode == "streaming":
            return stream_told(client.agents.turn.create(session_id, agent_id=agent_id, messages=messages, stream=True))
        return [], turn_told(client.agents.turn.create(session_id, agent_id=agent_id, messages=messages, stream=False))

    def resume(turn_id: str, answer: ToolResponseParam) -> tuple[list[str], dict[str, Any]]:
        if mode == "streaming":
            return stream_told(client.agents.turn.resume(turn_id, **where, tool_responses=[answer], stream=True))
        return [], turn_told(client.agents.turn.resume(turn_id, **where, tool_responses=[answer], stream=False))

    first = ask("hello")
    paused = ask("How is the weather in Oslo?")
    tell(first=first, paused=paused)
    wait_for_word()
    turn_id = paused[1]["turn_id"]
    call_id = paused[1]["calls"][0][2]
    waiting = client.agents.turn.retrieve(turn_id, **where)
    step = client.agents.steps.retrieve(waiting.steps[0].step_id, **where, turn_id=turn_id).step
    tell(waiting=turn_told(waiting), waiting_step=[step.step_type, step.step_id])
    tell(resumed=resume(turn_id, ToolResponseParam(call_id=call_id, tool_name="get_weather", content="rain, 7 °C")))
    tell(retrieved=turn_told(client.agents.turn.retrieve(turn_id, **where)))
    tell(third=ask("Are you sure?"))
    session = client.agents.session.retrieve(session_id, agent_id=agent_id)
    tell(session_name=session.session_name, turns=[turn_told(turn) for turn in session.turns])


main()
