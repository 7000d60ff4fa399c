"""Requests of the Agents API of September 2024, which carry resource ids in the body.

Source: the contract's file on that API, and the wire of `llama-stack-client` 0.0.40; unknown fields are ignored, nulls
stand for the default.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from turnstone.dialects.llama_stack.requests import only
from turnstone.domain.refs import SessionRef
from turnstone.domain.values.frozen import Many, NullMeansDefault


class AgentNamed(NullMeansDefault):
    agent_id: str


class CreateSession2024(AgentNamed):
    session_name: str


class SessionNamed(AgentNamed):
    session_id: str

    def ref(self, tenant: str) -> SessionRef:
        return SessionRef(tenant=tenant, agent_id=self.agent_id, session_id=self.session_id)


class SessionWanted(SessionNamed):
    """A request for a session, with all its turns or with some of them."""

    turn_ids: Many[str] | None = None


def query_of(*names: str, optional: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Return the OpenAPI parameters for ids in a query."""
    parameter = {"description": "The id of the object to read.", "schema": {"type": "string"}}
    return {name: {**parameter, "required": name not in optional} for name in (*names, *optional)}


def named_in_query(query: Mapping[str, Sequence[str]], *names: str) -> dict[str, str]:
    """Return the query's values of those names. Raises InvalidRequest for a repeated one."""
    return {name: value for name in names if (value := only(query, name)) is not None}
