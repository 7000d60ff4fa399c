"""An agent with shields, and a tool of the client. Arguments: base URL."""

import sys
from itertools import pairwise

from llama_stack_client import Agent, LlamaStackClient
from llama_stack_client.lib.agents.client_tool import client_tool
from llama_stack_client.types.shared_params.user_message import UserMessage
from reporting import report, turn_report

answers = ["a door", "a bomb"]


@client_tool
def look() -> str:
    """Look around."""
    return answers.pop(0)


def main() -> None:
    client = LlamaStackClient(base_url=sys.argv[1])
    client.shields.register(shield_id="words", provider_id="pattern", params={"words": ["bomb"]})
    # sent out of habit: it takes no tool away
    tool_config = {"tool_choice": "auto", "tool_prompt_format": "json", "system_message_behavior": "append"}
    agent = Agent(
        client,
        model="tool:look",
        instructions="Be brief.",
        tools=[look],
        tool_config=tool_config,
        input_shields=["words"],
        output_shields=["words"],
    )
    turns = []
    for name in ("clean", "stopped"):
        messages = [UserMessage(role="user", content="Look around.")]
        turns.append(agent.create_turn(messages, session_id=agent.create_session(name), stream=False))
    report(turns=[turn_report(turn) for turn in turns])
    steps = [turn.steps for turn in turns]
    by_time = [sorted(ended, key=lambda step: step.started_at) for ended in reversed(steps)]
    report(is_in_order=by_time == list(reversed(steps)))
    report(is_apart=all(a.completed_at < b.started_at for ended in steps for a, b in pairwise(ended)))


main()
