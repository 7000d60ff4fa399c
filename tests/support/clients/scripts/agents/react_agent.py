"""The client's ReActAgent, and an Agent with a parser of its own: calls are read out of the text of completed turns.

Arguments: base URL, streaming or whole.
"""

import sys
from itertools import pairwise
from typing import Any

from llama_stack_client import Agent, APIStatusError, LlamaStackClient
from llama_stack_client.lib.agents.client_tool import client_tool
from llama_stack_client.lib.agents.react.agent import ReActAgent
from llama_stack_client.lib.agents.tool_parser import ToolParser
from llama_stack_client.types.agents.turn import CompletionMessage
from llama_stack_client.types.shared.tool_call import ToolCall
from llama_stack_client.types.shared_params.user_message import UserMessage
from reporting import kinds_of, report, turn_report

ran: list[str] = []


@client_tool
def get_weather(city: str) -> str:
    """Tell the weather.

    :param city: where
    """
    ran.append(city)
    return f"rain in {city}"


class CityParser(ToolParser):
    """Reads `look: CITY`, and gives every call the same id, which a parser may."""

    def get_tool_calls(self, output_message: CompletionMessage) -> list[ToolCall]:
        text = str(output_message.content)
        if not text.startswith("look: "):
            return []
        arguments = {"city": text.removeprefix("look: ")}
        return [ToolCall(call_id="look", tool_name="get_weather", arguments=arguments, arguments_json=None)]


def user_messages(text: str) -> list[UserMessage]:
    return [UserMessage(role="user", content=text)]


def turn_report_of(agent: Any, session_id: str, text: str, *, is_streaming: bool) -> Any:
    """Return the kinds of the events, where there is a stream, and the turn."""
    answer = agent.create_turn(user_messages(text), session_id=session_id, stream=is_streaming)
    if not is_streaming:
        return [None, turn_report(answer)]
    payloads = [chunk.event.payload for chunk in answer]
    return [kinds_of(payloads), turn_report(payloads[-1].turn)]


def main() -> None:
    base_url, mode = sys.argv[1:]
    is_streaming = mode == "streaming"
    client = LlamaStackClient(base_url=base_url, max_retries=0)

    react = ReActAgent(client, model="react", tools=[get_weather], json_response_format=True)
    session_id = react.create_session("react")
    report(react=turn_report_of(react, session_id, "How is the weather in Oslo?", is_streaming=is_streaming))
    report(thanked=turn_report_of(react, session_id, "Thanks.", is_streaming=is_streaming))
    session = client.agents.session.retrieve(session_id, agent_id=react.agent_id)
    report(kept=[turn_report(turn) for turn in session.turns])
    first = session.turns[0]
    report(tool_steps=[step.to_dict(mode="json") for step in first.steps if step.step_type == "tool_execution"])
    times = [at for step in first.steps for at in (step.started_at, step.completed_at)]
    report(is_in_order=all(before < after for before, after in pairwise(times)))
    responses = [{"call_id": "1", "tool_name": "get_weather", "content": "again"}]
    try:
        client.agents.turn.resume(
            first.turn_id, agent_id=react.agent_id, session_id=session_id, tool_responses=responses, stream=False
        )
    except APIStatusError as refused:
        report(refused=[refused.status_code, str(refused)])

    parsing = Agent(client, model="parsing", instructions="Be brief.", tools=[get_weather], tool_parser=CityParser())
    session_id = parsing.create_session("parsing")
    report(parsed=turn_report_of(parsing, session_id, "Compare the weather.", is_streaming=is_streaming), ran=ran)


main()
