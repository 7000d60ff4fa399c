"""Environment variables of agents of Letta's API."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated
from uuid import uuid5

from pydantic import AfterValidator, Field

from turnstone.dialects.letta.ids import organization_id, shown
from turnstone.domain.letta.agents import NAMESPACE, LettaAgent
from turnstone.domain.letta.tools import MOST_VARIABLE_CHARACTERS, MOST_VARIABLES, VARIABLE
from turnstone.domain.values.frozen import Frozen


def refuse_null_signs(value: str) -> str:
    """Return the value. Raises ValueError for one that no environment can have."""
    if "\0" in value:
        raise ValueError("a variable can't have the character NUL")
    return value


VariableName = Annotated[str, Field(pattern=VARIABLE)]
VariableValue = Annotated[str, Field(max_length=MOST_VARIABLE_CHARACTERS), AfterValidator(refuse_null_signs)]
Variables = Annotated[dict[VariableName, VariableValue], Field(max_length=MOST_VARIABLES)]


class AgentVariable(Frozen):
    """An environment variable of an agent. Its value is masked."""

    created_by_id: str | None
    last_updated_by_id: str | None
    created_at: datetime
    updated_at: datetime
    id: str
    key: str
    value: str
    description: str | None
    organization_id: str
    agent_id: str


def variables_shown(agent: LettaAgent, tenant: str) -> tuple[AgentVariable, ...]:
    """Return the variables of the agent with masks in place of their values."""
    return tuple(_shown(agent, tenant))


def _shown(agent: LettaAgent, tenant: str) -> Iterable[AgentVariable]:
    for variable in agent.fields.environment:
        yield AgentVariable(
            created_by_id=None,
            last_updated_by_id=None,
            created_at=variable.created_at,
            updated_at=variable.updated_at,
            id=shown("agent-env", str(uuid5(NAMESPACE, f"{agent.agent_id}:{variable.key}"))),
            key=variable.key,
            value=str(variable.value),
            description=None,
            organization_id=organization_id(tenant),
            agent_id=shown("agent", agent.agent_id),
        )
