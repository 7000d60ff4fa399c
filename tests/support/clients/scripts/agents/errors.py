"""What the client raises. Arguments: base URL. The models slow-1 and broken are those of the model server."""

import sys
from collections.abc import Callable
from typing import Any

from llama_stack_client import Agent, APIStatusError, LlamaStackClient
from llama_stack_client.types.shared_params.agent_config import AgentConfig
from llama_stack_client.types.shared_params.user_message import UserMessage
from told import stream_told, tell, turn_told


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


def said(text: str) -> list[UserMessage]:
    return [UserMessage(role="user", content=text)]


def open_session(client: LlamaStackClient, model: str) -> dict[str, str]:
    agent_id = client.agents.create(agent_config=AgentConfig(model=model, instructions="Be brief.")).agent_id
    session_id = client.agents.session.create(agent_id, session_name="errors").session_id
    return {"agent_id": agent_id, "session_id": session_id}


def tell_of_unknown_things(client: LlamaStackClient) -> None:
    known = open_session(client, "instant")
    unknown_session = {**known, "session_id": "unknown"}
    turns = client.agents.turn
    tell(
        unknown_agent=raised_by(lambda: client.agents.session.create("unknown", session_name="x")),
        unknown_session=raised_by(lambda: turns.create(**unknown_session, messages=said("x"), stream=False)),
        unknown_session_streaming=raised_by(lambda: turns.create(**unknown_session, messages=said("x"), stream=True)),
        unknown_turn=raised_by(lambda: turns.retrieve("unknown", **known)),
        unknown_turn_resumed=raised_by(
            lambda: turns.resume(
                "unknown", **known, tool_responses=[{"call_id": "c", "tool_name": "t", "content": "x"}], stream=True
            )
        ),
    )


def tell_of_refusals(client: LlamaStackClient) -> None:
    config = AgentConfig(model="instant", instructions="Be brief.", input_shields=["llama_guard"])
    guarded = client.agents.create(agent_config=config).agent_id
    session = client.agents.session.create(guarded, session_name="guarded").session_id
    known = open_session(client, "instant")
    tell(
        shield=raised_by(
            lambda: client.agents.turn.create(session, agent_id=guarded, messages=said("x"), stream=False)
        ),
        no_messages=raised_by(lambda: client.agents.turn.create(**known, messages=[], stream=True)),
    )


def tell_of_a_running_turn(client: LlamaStackClient, patient: LlamaStackClient) -> None:
    busy = open_session(client, "slow-1")
    running = client.agents.turn.create(**busy, messages=said("first"), stream=True)
    tell(
        second_turn=raised_by(lambda: client.agents.turn.create(**busy, messages=said("second"), stream=False)),
        second_turn_streaming=raised_by(lambda: client.agents.turn.create(**busy, messages=said("other"), stream=True)),
        second_turn_with_retries=turn_told(patient.agents.turn.create(**busy, messages=said("third"), stream=False)),
        first_turn=stream_told(running)[1],
    )
    session = client.agents.session.retrieve(**busy)
    tell(turns_of_busy_session=[turn.input_messages[0].content for turn in session.turns])


def tell_of_a_broken_model(client: LlamaStackClient) -> None:
    broken = open_session(client, "broken")
    tell(broken_model=raised_by(lambda: client.agents.turn.create(**broken, messages=said("x"), stream=False)))
    agent = Agent(client, model="broken", instructions="Be brief.")
    session_id = agent.create_session("errors")
    *_, last = agent.create_turn(said("x"), session_id=session_id, stream=True)
    tell(broken_model_streaming=last.error["message"])
    try:
        agent.create_turn(said("x"), session_id=session_id, stream=False)
    except RuntimeError as error:
        tell(broken_model_in_agent=str(error))


def main() -> None:
    client = LlamaStackClient(base_url=sys.argv[1], max_retries=0)
    patient = LlamaStackClient(base_url=sys.argv[1])
    tell_of_unknown_things(client)
    tell_of_refusals(client)
    tell_of_a_running_turn(client, patient)
    tell_of_a_broken_model(client)


main()
