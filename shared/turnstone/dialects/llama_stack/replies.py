"""Answers of the Llama Stack API that are not domain values themselves.

Source: the types of `llama-stack-client` 0.2.12.
"""

from typing import Literal

from pydantic import ConfigDict, RootModel

from turnstone.domain.model import Frozen


class AgentCreated(Frozen):
    agent_id: str


class SessionCreated(Frozen):
    session_id: str


class Health(Frozen):
    status: Literal["OK"] = "OK"


class Version(Frozen):
    version: str


class Nothing(RootModel[None]):
    """Done, and there is nothing to tell of it."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    root: None = None
