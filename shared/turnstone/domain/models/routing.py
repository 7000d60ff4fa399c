"""Which provider answers for a model, and what its answers cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.usage.prices import Prices

if TYPE_CHECKING:
    from turnstone.domain.agents.agents import AgentConfig, ToolPromptFormat

DEFAULT_PROVIDER = "default"  # the provider that the environment names
ModelTools = Literal["native", "prompted"]
DEFAULT_PROMPT_FORMAT: ToolPromptFormat = "json"


class Target(NamedTuple):
    """A model as one of the configured providers knows it."""

    provider_id: str
    model: str


class ModelRoute(NamedTuple):
    """What is known of a model that an agent names.

    Attributes:
        targets: who is asked, in this order until one begins to answer.
        context_tokens: how much it takes, None where that is not known.
        prices: None where nobody told them.
        embedding_dimension: how long its vectors are, None of a model that talks.
        tools: whether the model takes tools in its provider's own form, or has them described in its prompt.
    """

    model_id: str
    targets: tuple[Target, ...]
    context_tokens: int | None = None
    prices: Prices | None = None
    embedding_dimension: int | None = None
    tools: ModelTools = "native"

    def with_prompt_format(self, config: AgentConfig) -> AgentConfig:
        """Return the configuration with a `tool_prompt_format` exactly if the model has no tools of its own.

        Clients send one out of habit, whatever the model.
        """
        sent = config.tool_config.tool_prompt_format
        used = sent or DEFAULT_PROMPT_FORMAT if self.tools == "prompted" else None
        if used == sent:
            return config
        tool_config = config.tool_config.model_copy(update={"tool_prompt_format": used})
        return config.model_copy(update={"tool_config": tool_config})


class KnownModels(NamedTuple):
    """What the operator of a server says of models.

    Attributes:
        providers: the kind of each provider, by its name.
        default: who is asked for a model that nobody knows, by the name it is given; None if the registry is closed.
        routes: the models that the operator lists, by each of their names.
    """

    providers: Mapping[str, str]
    default: str | None
    routes: Mapping[str, ModelRoute] = MappingProxyType({})


RouteOf = Callable[[str, str], ModelRoute]
"""Returns who answers for a tenant's model. Raises InvalidRequest where nobody does."""


def known_of(route_of: RouteOf, tenant: str, model_id: str) -> ModelRoute:
    """Return the model's route; one that nobody answers for is known by its name only."""
    try:
        return route_of(tenant, model_id)
    except InvalidRequest:
        return ModelRoute(model_id, ())
