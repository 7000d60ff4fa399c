"""Request bodies of the Llama Stack Agents API.

Source: the Agents contract of Llama Stack 0.2.x; unknown fields are ignored, nulls stand for the default.
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


class WantedTurns(NullMeansDefault):
    """The requested turns of a session, None for all. Source: the contract; a body of the GET may name them."""

    # the parser accepts more than objects
    model_config = ConfigDict(json_schema_extra={"type": ["object", "array"], "items": {"type": "string"}})

    turn_ids: Many[str] | None = None

    @model_validator(mode="before")
    @classmethod
    def take_a_bare_list(cls, given: Any) -> Any:
        return {"turn_ids": given} if isinstance(given, list) else given


def turn_ids_in_query(values: list[str]) -> tuple[str, ...]:
    """Return the ids of a repeated parameter, each of which may hold several, separated by commas.

    Source: the contract repeats the parameter; the official clients send commas.
    """
    return tuple(turn_id for value in values for turn_id in value.split(",") if turn_id)


def only(query: Mapping[str, Sequence[str]], name: str) -> str | None:
    """Return the single value of that name, None without one. Raises InvalidRequest for several."""
    values = query.get(name, ())
    if len(values) > 1:
        raise InvalidRequest(f"{name}: must be one value, not {len(values)}", ("query", name))
    return values[0] if values else None


def refuse_unknown_provider(provider_id: str, *registered: str) -> None:
    """Raise Unsupported if the text names no registered provider."""
    if provider_id not in registered:
        there = ", ".join(registered)
        raise Unsupported(
            f"provider_id: this server has no provider {provider_id!r}; it has: {there}", ("provider_id",)
        )


def given_fields(body: BaseModel, names: Mapping[str, str]) -> frozenset[str]:
    """Return the given fields of a body, by their names in the registry."""
    return frozenset(names[name] for name in body.model_fields_set if name in names)
