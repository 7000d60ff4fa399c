"""Answers of the Llama Stack API that are not domain values themselves.

Source: the types of `llama-stack-client` 0.2.12.
"""

from typing import Literal

from turnstone.domain.values.frozen import Frozen


class AgentCreated(Frozen):
    agent_id: str


class SessionCreated(Frozen):
    session_id: str


class Health(Frozen):
    status: Literal["OK"] = "OK"


class Version(Frozen):
    version: str
