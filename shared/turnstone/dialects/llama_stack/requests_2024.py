"""Requests of the Agents API of September 2024, which name what they are about in the body, in today's terms.

Source: the contract's file on that API, and the wire of `llama-stack-client` 0.0.40; unknown fields are ignored, nulls
mean the default.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from turnstone.dialects.llama_stack.lists import only
from turnstone.domain.agents import AgentConfig
from turnstone.domain.errors import Unsupported
from turnstone.domain.messages import InputMessage
from turnstone.domain.model import Frozen, Many, NullMeansDefault
from turnstone.domain.numbers import Flag
from turnstone.domain.sessions import SessionRef, TurnRef
from turnstone.domain.turns import NewTurn

TOOL_ROLE = "ipython"
STRATEGIES = ("greedy", "top_p", "top_k")


def strategy_of(sampling: Mapping[str, Any]) -> Any:
    """Return today's form of a strategy that is told by its name, its numbers beside it; any other as it is."""
    name = sampling.get("strategy")
    if name not in STRATEGIES:
        return name
    if name == "top_k":
        return {"type": name, "top_k": sampling.get("top_k")}
    if name == "greedy" or sampling.get("temperature") == 0:  # at which only the likeliest token is left
        return {"type": "greedy"}
    told = {"top_p": sampling["top_p"]} if sampling.get("top_p") is not None else {}
    return {"type": name, "temperature": sampling.get("temperature"), **told}


def todays_config(config: Any) -> Any:
    """Return the configuration with its sampling strategy in today's form."""
    sampling = config.get("sampling_params") if isinstance(config, dict) else None
    if not isinstance(sampling, dict) or not isinstance(sampling.get("strategy"), str):
        return config
    return {**config, "sampling_params": {**sampling, "strategy": strategy_of(sampling)}}


def todays_message(message: Any) -> Any:
    """Return the message with today's name of the role in which a tool answers."""
    is_of_tool = isinstance(message, dict) and message.get("role") == TOOL_ROLE
    return {**message, "role": "tool"} if is_of_tool else message


class CreateAgent2024(Frozen):
    agent_config: Annotated[AgentConfig, BeforeValidator(todays_config)]


class AgentNamed(NullMeansDefault):
    agent_id: str


class CreateSession2024(AgentNamed):
    session_name: str


class SessionNamed(AgentNamed):
    session_id: str

    def ref(self, tenant: str) -> SessionRef:
        return SessionRef(tenant=tenant, agent_id=self.agent_id, session_id=self.session_id)


class SessionWanted(SessionNamed):
    """A session to read, with all its turns or with some of them."""

    turn_ids: Many[str] | None = None


class TurnNamed(AgentNamed):
    """A turn; without its session, which clients of that time did not send, it is looked for in all of the agent's."""

    session_id: str | None = None
    turn_id: str

    def ref(self, tenant: str) -> TurnRef | None:
        """Return which turn it is, None without its session."""
        if self.session_id is None:
            return None
        return TurnRef(tenant=tenant, agent_id=self.agent_id, session_id=self.session_id, turn_id=self.turn_id)


class StepNamed(TurnNamed):
    step_id: str


class CreateTurn2024(SessionNamed):
    messages: Annotated[Many[Annotated[InputMessage, BeforeValidator(todays_message)]], Field(min_length=1)]
    attachments: Many[Any] = ()
    stream: Flag = False

    def to_new_turn(self) -> NewTurn:
        """Return what is asked of the turn. Raises Unsupported."""
        if self.attachments:
            said = "attachments: this server has no memory banks yet to keep them in; leave the list empty"
            raise Unsupported(said, ("attachments",))
        return NewTurn(messages=self.messages)


def query_of(*names: str, optional: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Return what the API's document tells of ids in a query."""
    told = {"description": "What is asked for.", "schema": {"type": "string"}}
    return {name: {**told, "required": name not in optional} for name in (*names, *optional)}


def named_in_query(query: Mapping[str, Sequence[str]], *names: str) -> dict[str, str]:
    """Return those of the names that the query has, with their values. Raises InvalidRequest for one told twice."""
    return {name: value for name in names if (value := only(query, name)) is not None}
