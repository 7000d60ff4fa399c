"""Routes from a model's name to providers, and its prices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.usage.prices import Prices

if TYPE_CHECKING:
    from turnstone.domain.agents.agents import AgentConfig, ToolPromptFormat

DEFAULT_PROVIDER = "default"  # the provider configured by the environment
OFFLINE = "offline"  # a kind of provider, and the name of its model
ModelTools = Literal["native", "prompted"]
DEFAULT_PROMPT_FORMAT: ToolPromptFormat = "json"


class Target(NamedTuple):
    """A model under its name at a configured provider."""

    provider_id: str
    model: str


class ModelRoute(NamedTuple):
    """The route of a model that an agent names.

    Attributes:
        targets: the targets to try in this order until one begins to answer.
        context_tokens: the size of the context window, None if not configured.
        prices: None if not configured.
        embedding_dimension: the length of its vectors, None for a chat model.
        tools: whether the model supports native tools, or needs them described in its prompt.
    """

    model_id: str
    targets: tuple[Target, ...]
    context_tokens: int | None = None
    prices: Prices | None = None
    embedding_dimension: int | None = None
    tools: ModelTools = "native"

    def with_prompt_format(self, config: AgentConfig) -> AgentConfig:
        """Return the configuration with a `tool_prompt_format` exactly if the model has no native tools.

        Clients send one by habit, whatever the model.
        """
        sent = config.tool_config.tool_prompt_format
        used = sent or DEFAULT_PROMPT_FORMAT if self.tools == "prompted" else None
        if used == sent:
            return config
        tool_config = config.tool_config.model_copy(update={"tool_prompt_format": used})
        return config.model_copy(update={"tool_config": tool_config})


class ConfiguredModels(NamedTuple):
    """Models configured by the server's operator.

    Attributes:
        providers: the kind of each provider, by its name.
        default: the provider of a model without a route, under the same name; None if the registry is closed.
        routes: the configured models, by each of their names.
        embedding: the embedding model where a client names none; None to require a name.
        unlisted: names of routes to models of this server that lists leave out: their files are missing, or
            they are no longer the default.
    """

    providers: Mapping[str, str]
    default: str | None
    routes: Mapping[str, ModelRoute] = MappingProxyType({})
    embedding: str | None = None
    unlisted: Collection[str] = ()

    def embedding_models(self) -> tuple[str, ...]:
        """Return the names of the embedding models that are configured and here."""
        made = (name for name, route in self.routes.items() if route.embedding_dimension is not None)
        own = (OFFLINE,) if self.is_offline else ()
        return (*(name for name in made if name not in self.unlisted), *own)

    @property
    def is_offline(self) -> bool:
        """Whether a model without a route is the offline one, whatever its name."""
        return self.default is not None and self.providers.get(self.default) == OFFLINE


RouteOf = Callable[[str, str], ModelRoute]
"""Returns the route of a tenant's model. Raises InvalidRequest where no provider serves it."""


def resolved_route(route_of: RouteOf, tenant: str, model_id: str) -> ModelRoute:
    """Return the model's route; a model without a provider has one with its name only."""
    try:
        return route_of(tenant, model_id)
    except InvalidRequest:
        return ModelRoute(model_id, ())
