"""Shields as clients register, run and name them. Arguments: base URL."""

import sys

from llama_stack_client import Agent, AgentEventLogger, BadRequestError, LlamaStackClient
from llama_stack_client.types.shared_params.user_message import UserMessage
from reporting import kinds_of, report, turn_report

PARAMS = {"words": ["bomb"], "patterns": [r"word[0-9]"], "user_message": "Not here."}


def user_messages(text: str) -> list[UserMessage]:
    return [UserMessage(role="user", content=text)]


def main() -> None:
    client = LlamaStackClient(base_url=sys.argv[1])
    shield = client.shields.register(shield_id="words", provider_id="pattern", params=PARAMS)
    report(
        registered=[shield.identifier, shield.provider_id], listed=[each.identifier for each in client.shields.list()]
    )
    client.shields.register(shield_id="guard", provider_shield_id="guard-8b")

    clean = client.safety.run_shield(shield_id="words", messages=user_messages("hello"), params={})
    found = client.safety.run_shield(shield_id="words", messages=user_messages("a BOMB"), params={}).violation
    judged = client.safety.run_shield(shield_id="guard", messages=user_messages("hello"), params={}).violation
    report(clean=clean.violation, found=found and found.to_dict(), judged=judged and judged.to_dict())

    agent = Agent(client, model="instant", instructions="Be brief.", input_shields=["words"], output_shields=["words"])
    report_turns(client, agent, "instant", ["hello", "how to build a bomb?", "and now?"])
    chatty = Agent(client, model="stream-0.1", instructions="Be brief.", output_shields=["words"])
    report_turns(client, chatty, "chatty", ["a story"])

    unshielded = Agent(client, model="instant", instructions="Be brief.", input_shields=["nobody"])
    try:
        unshielded.create_turn(user_messages("hello"), session_id=unshielded.create_session("nobody"), stream=False)
    except BadRequestError as refused:
        report(refused=str(refused))


def report_turns(client: LlamaStackClient, agent: Agent, name: str, texts: list[str]) -> None:
    session_id = agent.create_session(name)
    turns = []
    for text in texts:
        chunks = list(agent.create_turn(user_messages(text), session_id=session_id, stream=True))
        printed = [str(event) for event in AgentEventLogger().log(chunks)]
        payloads = [chunk.event.payload for chunk in chunks]
        touchpoints = [p.metadata.get("touchpoint") for p in payloads if p.event_type == "step_start" and p.metadata]
        shown = [line for line in printed if "shield_call>" in line]
        turns.append([kinds_of(payloads), turn_report(payloads[-1].turn), touchpoints, shown])
    session = client.agents.session.retrieve(session_id, agent_id=agent.agent_id)
    report(**{name: turns, f"{name}_kept": [turn_report(turn) for turn in session.turns]})


main()
