"""Requests of the Agents API of September 2024, which name what they are about in the body.

Source: the contract's file on that API, and the wire of `llama-stack-client` 0.0.40; unknown fields are ignored, nulls
mean the default.
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
    """A session to read, with all its turns or with some of them."""

    turn_ids: Many[str] | None = None


def query_of(*names: str, optional: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Return what the API's document tells of ids in a query."""
    told = {"description": "The id to look up.", "schema": {"type": "string"}}
    return {name: {**told, "required": name not in optional} for name in (*names, *optional)}


def named_in_query(query: Mapping[str, Sequence[str]], *names: str) -> dict[str, str]:
    """Return those of the names that the query has, with their values. Raises InvalidRequest for one told twice."""
    return {name: value for name in names if (value := only(query, name)) is not None}
