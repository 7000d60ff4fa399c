"""Shields as clients register, run and name them. Arguments: base URL."""

import sys

from llama_stack_client import Agent, AgentEventLogger, BadRequestError, LlamaStackClient
from llama_stack_client.types.shared_params.user_message import UserMessage
from told import kinds_of, tell, turn_told

PARAMS = {"words": ["bomb"], "patterns": [r"word[0-9]"], "user_message": "Not here."}


def said(text: str) -> list[UserMessage]:
    return [UserMessage(role="user", content=text)]


def main() -> None:
    client = LlamaStackClient(base_url=sys.argv[1])
    shield = client.shields.register(shield_id="words", provider_id="pattern", params=PARAMS)
    tell(registered=[shield.identifier, shield.provider_id], listed=[each.identifier for each in client.shields.list()])
    client.shields.register(shield_id="guard", provider_shield_id="guard-8b")

    clean = client.safety.run_shield(shield_id="words", messages=said("hello"), params={})
    found = client.safety.run_shield(shield_id="words", messages=said("a BOMB"), params={}).violation
    judged = client.safety.run_shield(shield_id="guard", messages=said("hello"), params={}).violation
    tell(clean=clean.violation, found=found and found.to_dict(), judged=judged and judged.to_dict())

    agent = Agent(client, model="instant", instructions="Be brief.", input_shields=["words"], output_shields=["words"])
    tell_of_turns(client, agent, "instant", ["hello", "how to build a bomb?", "and now?"])
    chatty = Agent(client, model="stream-0.1", instructions="Be brief.", output_shields=["words"])
    tell_of_turns(client, chatty, "chatty", ["a story"])

    nobody = Agent(client, model="instant", instructions="Be brief.", input_shields=["nobody"])
    try:
        nobody.create_turn(said("hello"), session_id=nobody.create_session("nobody"), stream=False)
    except BadRequestError as refused:
        tell(refused=str(refused))


def tell_of_turns(client: LlamaStackClient, agent: Agent, name: str, texts: list[str]) -> None:
    session_id = agent.create_session(name)
    turns = []
    for text in texts:
        chunks = list(agent.create_turn(said(text), session_id=session_id, stream=True))
        printed = [str(event) for event in AgentEventLogger().log(chunks)]
        payloads = [chunk.event.payload for chunk in chunks]
        touchpoints = [p.metadata.get("touchpoint") for p in payloads if p.event_type == "step_start" and p.metadata]
        shown = [line for line in printed if "shield_call>" in line]
        turns.append([kinds_of(payloads), turn_told(payloads[-1].turn), touchpoints, shown])
    session = client.agents.session.retrieve(session_id, agent_id=agent.agent_id)
    tell(**{name: turns, f"{name}_kept": [turn_told(turn) for turn in session.turns]})


main()
