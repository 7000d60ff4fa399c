"""Request bodies of the Llama Stack Agents API.

Source: the Agents contract of Llama Stack 0.2.x; unknown fields are ignored, nulls mean the default.
"""

from typing import Any

from pydantic import Field

from turnstone.domain.agents import AgentConfig, TurnOverrides
from turnstone.domain.errors import Unsupported
from turnstone.domain.messages import InputMessage
from turnstone.domain.model import Frozen, NullMeansDefault
from turnstone.domain.tools import ToolResponse
from turnstone.domain.turns import NewTurn


class CreateAgent(Frozen):
    agent_config: AgentConfig


class CreateSession(NullMeansDefault):
    session_name: str
    vector_db_id: str | None = None

    def refuse_unsupported(self) -> None:
        if self.vector_db_id is not None:
            raise Unsupported("vector_db_id: this server has no vector databases yet; leave it out", ("vector_db_id",))


class CreateTurn(TurnOverrides):
    messages: tuple[InputMessage, ...] = Field(min_length=1)
    stream: bool = False
    documents: tuple[Any, ...] = ()

    def to_new_turn(self) -> NewTurn:
        """Return what is asked of the turn. Raises Unsupported."""
        if self.documents:
            raise Unsupported("documents: this server takes no documents yet; leave the list empty", ("documents",))
        given = {name: getattr(self, name) for name in TurnOverrides.model_fields}
        return NewTurn(messages=self.messages, overrides=TurnOverrides.model_construct(**given))


class ResumeTurn(NullMeansDefault):
    tool_responses: tuple[ToolResponse, ...] = Field(min_length=1)
    stream: bool = False


class WantedTurns(NullMeansDefault):
    turn_ids: tuple[str, ...] | None = None


def wanted_turn_ids(in_query: list[str] | None, body: bytes) -> tuple[str, ...] | None:
    """Return the turns a reader of a session asks for, None for all.

    Source: the contract and the official clients; the parameter is repeated in the query, or holds several ids parted
    by commas, or is a list in the body of the GET.
    """
    if in_query is not None:
        return tuple(turn_id for value in in_query for turn_id in value.split(",") if turn_id)
    if not body.strip():
        return None
    if body.lstrip().startswith(b"["):
        body = b'{"turn_ids":' + body + b"}"
    return WantedTurns.model_validate_json(body).turn_ids
