"""Request bodies of the Llama Stack Agents API.

Source: the Agents contract of Llama Stack 0.2.x; unknown fields are ignored, nulls mean the default.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.domain.values.frozen import Frozen, Many, NullMeansDefault


class CreateAgent(Frozen):
    agent_config: AgentConfig


class CreateSession(NullMeansDefault):
    session_name: str
    vector_db_id: str | None = None

    def refuse_unsupported(self) -> None:
        if self.vector_db_id is not None:
            raise Unsupported("vector_db_id: this server has no vector databases yet; leave it out", ("vector_db_id",))


class WantedTurns(NullMeansDefault):
    """Which turns a reader of a session asks for, None for all. Source: the contract; a body of the GET may say it."""

    # what the parser takes beside an object
    model_config = ConfigDict(json_schema_extra={"type": ["object", "array"], "items": {"type": "string"}})

    turn_ids: Many[str] | None = None

    @model_validator(mode="before")
    @classmethod
    def take_a_bare_list(cls, given: Any) -> Any:
        return {"turn_ids": given} if isinstance(given, list) else given


def turn_ids_in_query(values: list[str]) -> tuple[str, ...]:
    """Return the ids of a repeated parameter, each of which may hold several, parted by commas.

    Source: the contract repeats the parameter; the official clients send commas.
    """
    return tuple(turn_id for value in values for turn_id in value.split(",") if turn_id)


def only(query: Mapping[str, Sequence[str]], name: str) -> str | None:
    """Return the one value of that name, None if there is none. Raises InvalidRequest for several."""
    values = query.get(name, ())
    if len(values) > 1:
        raise InvalidRequest(f"{name}: must be one value, not {len(values)}", ("query", name))
    return values[0] if values else None


def refuse_unknown_provider(provider_id: str, *known: str) -> None:
    """Raise Unsupported if none of the known providers is meant."""
    if provider_id not in known:
        there = ", ".join(known)
        raise Unsupported(
            f"provider_id: this server has no provider {provider_id!r}; it has: {there}", ("provider_id",)
        )


def given_fields(body: BaseModel, names: Mapping[str, str]) -> frozenset[str]:
    """Return the fields that a body gives, by what they are called where it is registered."""
    return frozenset(names[name] for name in body.model_fields_set if name in names)
