"""Answers of the Llama Stack API that are not domain values themselves.

Source: the types of `llama-stack-client` 0.2.12.
"""

from typing import Any, Literal

from pydantic_core import to_json

from turnstone.domain.model import Frozen
from turnstone.domain.sessions import Session
from turnstone.domain.tools import ToolDef, ToolParameter
from turnstone.domain.turns import Step, Turn


class AgentCreated(Frozen):
    agent_id: str


class SessionCreated(Frozen):
    session_id: str


class SessionWithTurns(Frozen):
    """A session as read; its turns are written into it one by one, see `session_frame`."""

    session_id: str
    session_name: str
    turns: tuple[Turn, ...]
    started_at: str


class StepReply(Frozen):
    step: Step


class Model(Frozen):
    identifier: str
    provider_resource_id: str
    provider_id: str = "default"
    type: Literal["model"] = "model"
    model_type: Literal["llm"] = "llm"
    metadata: dict[str, Any] = {}


class ModelList(Frozen):
    data: tuple[Model, ...]


class Tool(Frozen):
    identifier: str
    description: str
    parameters: tuple[ToolParameter, ...]
    toolgroup_id: str
    provider_id: str = "builtin"
    provider_resource_id: str | None = None
    type: Literal["tool"] = "tool"
    metadata: dict[str, Any] | None = None


class ToolList(Frozen):
    data: tuple[Tool, ...]


def tool_reply(tool: ToolDef, toolgroup_id: str) -> Tool:
    return Tool(
        identifier=tool.name,
        description=tool.description or "",
        parameters=tool.parameters or (),
        toolgroup_id=toolgroup_id,
        metadata=tool.metadata,
    )


class Health(Frozen):
    status: Literal["OK"] = "OK"


class Version(Frozen):
    version: str


def session_frame(session: Session) -> tuple[bytes, bytes]:
    """Return what comes before and after the turns in a session's JSON."""
    head = {"session_id": session.session_id, "session_name": session.session_name}
    tail = {"started_at": session.started_at}
    return to_json(head)[:-1] + b',"turns":[', b"]," + to_json(tail)[1:]
