"""Exceptions of the client. Arguments: base URL. The models slow-1 and broken are those of the model server."""

import sys
from collections.abc import Callable
from typing import Any

from llama_stack_client import Agent, APIStatusError, LlamaStackClient
from llama_stack_client.types.shared_params.agent_config import AgentConfig
from llama_stack_client.types.shared_params.user_message import UserMessage
from reporting import report, stream_report, turn_report


def raised_by(call: Callable[[], Any]) -> dict[str, Any]:
    try:
        call()
    except APIStatusError as error:
        return {
            "error": type(error).__name__,
            "status": error.status_code,
            "message": error.message,
            "retry": error.response.headers.get("x-should-retry"),
        }
    return {"error": None}


def user_messages(text: str) -> list[UserMessage]:
    return [UserMessage(role="user", content=text)]


def open_session(client: LlamaStackClient, model: str) -> dict[str, str]:
    agent_id = client.agents.create(agent_config=AgentConfig(model=model, instructions="Be brief.")).agent_id
    session_id = client.agents.session.create(agent_id, session_name="errors").session_id
    return {"agent_id": agent_id, "session_id": session_id}


def report_unknown_ids(client: LlamaStackClient) -> None:
    existing = open_session(client, "instant")
    unknown_session = {**existing, "session_id": "unknown"}
    turns = client.agents.turn
    report(
        unknown_agent=raised_by(lambda: client.agents.session.create("unknown", session_name="x")),
        unknown_session=raised_by(lambda: turns.create(**unknown_session, messages=user_messages("x"), stream=False)),
        unknown_session_streaming=raised_by(
            lambda: turns.create(**unknown_session, messages=user_messages("x"), stream=True)
        ),
        unknown_turn=raised_by(lambda: turns.retrieve("unknown", **existing)),
        unknown_turn_resumed=raised_by(
            lambda: turns.resume(
                "unknown", **existing, tool_responses=[{"call_id": "c", "tool_name": "t", "content": "x"}], stream=True
            )
        ),
    )


def report_refusals(client: LlamaStackClient) -> None:
    config = AgentConfig(model="instant", instructions="Be brief.", input_shields=["llama_guard"])
    guarded = client.agents.create(agent_config=config).agent_id
    session = client.agents.session.create(guarded, session_name="guarded").session_id
    existing = open_session(client, "instant")
    report(
        shield=raised_by(
            lambda: client.agents.turn.create(session, agent_id=guarded, messages=user_messages("x"), stream=False)
        ),
        no_messages=raised_by(lambda: client.agents.turn.create(**existing, messages=[], stream=True)),
    )


def report_busy_session(client: LlamaStackClient, patient: LlamaStackClient) -> None:
    busy = open_session(client, "slow-1")
    running = client.agents.turn.create(**busy, messages=user_messages("first"), stream=True)
    report(
        second_turn=raised_by(
            lambda: client.agents.turn.create(**busy, messages=user_messages("second"), stream=False)
        ),
        second_turn_streaming=raised_by(
            lambda: client.agents.turn.create(**busy, messages=user_messages("other"), stream=True)
        ),
        second_turn_with_retries=turn_report(
            patient.agents.turn.create(**busy, messages=user_messages("third"), stream=False)
        ),
        first_turn=stream_report(running)[1],
    )
    session = client.agents.session.retrieve(**busy)
    report(turns_of_busy_session=[turn.input_messages[0].content for turn in session.turns])


def report_broken_model(client: LlamaStackClient) -> None:
    broken = open_session(client, "broken")
    report(
        broken_model=raised_by(lambda: client.agents.turn.create(**broken, messages=user_messages("x"), stream=False))
    )
    agent = Agent(client, model="broken", instructions="Be brief.")
    session_id = agent.create_session("errors")
    *_, last = agent.create_turn(user_messages("x"), session_id=session_id, stream=True)
    report(broken_model_streaming=last.error["message"])
    try:
        agent.create_turn(user_messages("x"), session_id=session_id, stream=False)
    except RuntimeError as error:
        report(broken_model_in_agent=str(error))


def main() -> None:
    client = LlamaStackClient(base_url=sys.argv[1], max_retries=0)
    patient = LlamaStackClient(base_url=sys.argv[1])
    report_unknown_ids(client)
    report_refusals(client)
    report_busy_session(client, patient)
    report_broken_model(client)


main()
