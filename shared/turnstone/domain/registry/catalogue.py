"""The operator's catalogue: models, shields, tools and stores of memory, with their providers and names.

Without a catalogue a server has one provider, and passes every model's name on to it.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.models.local_embeddings import LOCAL_EMBEDDINGS, LocalEmbeddingChoice
from turnstone.domain.models.routing import DEFAULT_PROVIDER, ConfiguredModels, ModelRoute, ModelTools, Target
from turnstone.domain.registry.memory_settings import MemoryEntry, MemoryName, check_memory
from turnstone.domain.registry.registry import Identifier, Model, Shield, Toolgroup
from turnstone.domain.registry.tool_settings import HttpUrl, Text, ToolgroupEntry, ToolSettings
from turnstone.domain.usage.prices import Prices
from turnstone.domain.values.frozen import Frozen, JsonObject, Strict

ProviderName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
TokenCount = Annotated[int, Field(ge=1, le=100_000_000)]


class OpenAIProvider(Strict):
    """A server with the OpenAI chat completions API.

    Attributes:
        url: its address up to, and without, `/chat/completions`; Bedrock's own where requests are signed.
        auth: by a key, or by requests signed for AWS.
        api_key_env: the variable that holds the key, on one machine.
        api_key_secret: the secret that holds it, on AWS.
        caller_key: the field of a caller's own key in the provider data, which replaces ours for its request.
        region: of AWS, where requests are signed; None for this process's region.
        grammar: the kind of server, if it supports grammars as response formats.
    """

    type: Literal["openai"]
    url: HttpUrl | None = None
    auth: Literal["bearer", "sigv4"] = "bearer"
    api_key_env: Text | None = None
    api_key_secret: Text | None = None
    caller_key: Text | None = None
    region: Text | None = None
    grammar: Literal["vllm", "llama.cpp"] | None = None
    timeout_seconds: Seconds | None = None

    @model_validator(mode="after")
    def agree(self) -> Self:
        if self.auth == "bearer" and self.url is None:
            raise ValueError("url: must be set, unless auth is sigv4")
        if self.auth == "bearer" and self.region is not None:
            raise ValueError("region: has no effect unless auth is sigv4; leave it out")
        if self.auth == "sigv4" and (self.api_key_env or self.api_key_secret or self.caller_key):
            raise ValueError("auth: requests that are signed take no key")
        if self.api_key_env and self.api_key_secret:
            raise ValueError("api_key_env: set it or api_key_secret, not both")
        return self


class Guardrail(Strict):
    identifier: Text
    version: Text = "DRAFT"


class BedrockProvider(Strict):
    """Models of Amazon Bedrock, through Converse.

    Attributes:
        region: None for this process's region.
        caches: mark the stable prefix of prompts as cacheable, for models with a cache.
        streams: request streamed answers, which not every model supports.
    """

    type: Literal["bedrock"]
    region: Text | None = None
    guardrail: Guardrail | None = None
    caches: bool = False
    streams: bool = True
    timeout_seconds: Seconds | None = None


class OfflineProvider(Strict):
    """The offline model, which needs no network."""

    type: Literal["offline"]


ProviderEntry = Annotated[OpenAIProvider | BedrockProvider | OfflineProvider, Field(discriminator="type")]


class Fallback(Strict):
    """A further target, tried if the ones before do not begin to answer; `model` is by default the same name."""

    provider: ProviderName
    model: Text | None = None


class ModelEntry(Strict):
    """A model that agents can name.

    Attributes:
        model: its name at the provider, by default the same.
        aliases: other names for it.
        context_tokens: the size of its context window.
        prices: in US dollars per million tokens.
        embedding_dimension: the length of its vectors, for an embedding model.
        tools: `prompted` for a model without native tools, which its prompt then describes.
    """

    provider: ProviderName
    model: Text | None = None
    aliases: tuple[Identifier, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    context_tokens: TokenCount | None = None
    prices: Prices | None = None
    embedding_dimension: TokenCount | None = None
    tools: ModelTools = "native"

    def targets(self, name: str) -> Iterator[Target]:
        own = self.model or name
        yield Target(self.provider, own)
        for fallback in self.fallbacks:
            yield Target(fallback.provider, fallback.model or own)


def _tools_named(value: object) -> object:
    """Return the text, or the default for any other type: metadata may use the name for something else."""
    return value if isinstance(value, str) else "native"


class ModelDetails(Frozen):
    """The effective part of a registered model's metadata; all other keys are stored without effect."""

    context_tokens: TokenCount | None = None
    prices: Prices | None = None
    fallbacks: tuple[Fallback, ...] = ()
    embedding_dimension: TokenCount | None = None
    tools: Annotated[ModelTools, BeforeValidator(_tools_named)] = "native"


class ShieldEntry(Strict):
    """A shield that agents of every tenant can name.

    Attributes:
        shield: its model or guardrail at the provider, by default the same name.
    """

    provider: Text
    shield: Text | None = None
    params: JsonObject | None = None


class EmbeddingSettings(Strict):
    """The choice of this server's own embedding models; its fields are described in `LocalEmbeddingChoice`."""

    local: Literal["static", "minilm", "off"] = "static"
    default: Identifier | None = None
    folder: Text | None = None


class Catalogue(Strict):
    """The whole file.

    Attributes:
        registry: with an open one agents may name any model, which goes to the default provider.
        default_provider: None for the provider of the environment, if any.
        embeddings: the embedding models of the server itself.
    """

    registry: Literal["open", "closed"] = "open"
    default_provider: ProviderName | None = None
    providers: dict[ProviderName, ProviderEntry] = {}
    models: dict[Identifier, ModelEntry] = {}
    shields: dict[Identifier, ShieldEntry] = {}
    tools: ToolSettings = ToolSettings.model_construct()
    toolgroups: dict[Identifier, ToolgroupEntry] = {}
    embeddings: EmbeddingSettings = EmbeddingSettings.model_construct()
    memory: dict[MemoryName, MemoryEntry] = {}

    @model_validator(mode="after")
    def agree(self) -> Self:
        if self.default_provider is not None:
            self._find(self.default_provider, "default_provider")
        if self.tools.photogen is not None:
            self._find(self.tools.photogen.provider, "tools.photogen")
        if LOCAL_EMBEDDINGS in self.providers:
            raise ValueError(f"providers.{LOCAL_EMBEDDINGS}: is the name of this server's own; choose another one")
        check_memory(self.memory)
        seen = set(self.models)
        for name, entry in self.models.items():
            for target in entry.targets(name):
                self._find(target.provider_id, f"models.{name}")
            for alias in entry.aliases:
                if alias in seen:
                    raise ValueError(f"models.{name}: {alias!r} is the name of another model, or there twice")
                seen.add(alias)
        return self

    def _find(self, provider_id: str, where: str) -> None:
        if provider_id not in (*self.providers, DEFAULT_PROVIDER):
            names = ", ".join(sorted(self.providers)) or "none"
            raise ValueError(f"{where}: there is no provider {provider_id!r}; the file has: {names}")

    def configured_shields(self) -> dict[str, Shield]:
        """Return the shields by name, as registered ones."""
        return {
            name: Shield(
                identifier=name,
                provider_id=entry.provider,
                provider_resource_id=entry.shield or name,
                params=entry.params,
            )
            for name, entry in self.shields.items()
        }

    def configured_toolgroups(self) -> dict[str, Toolgroup]:
        """Return the toolgroups by name, as registered ones."""
        return {name: entry.toolgroup(name) for name, entry in self.toolgroups.items()}

    def local_embeddings(self) -> LocalEmbeddingChoice:
        """Return the choice of this server's own embedding models."""
        return LocalEmbeddingChoice(self.embeddings.local, self.embeddings.default, self.embeddings.folder)

    def configured_models(self) -> ConfiguredModels:
        """Return the models' configuration for turns."""
        routes = {
            model_id: _route(model_id, entry, tuple(entry.targets(name)))
            for name, entry in self.models.items()
            for model_id in (name, *entry.aliases)
        }
        default = (self.default_provider or DEFAULT_PROVIDER) if self.registry == "open" else None
        return ConfiguredModels({name: entry.type for name, entry in self.providers.items()}, default, routes)


def _route(model_id: str, spec: ModelEntry | ModelDetails, targets: tuple[Target, ...]) -> ModelRoute:
    return ModelRoute(model_id, targets, spec.context_tokens, spec.prices, spec.embedding_dimension, spec.tools)


def listed_model(route: ModelRoute) -> Model:
    """Return a configured model, as clients see it."""
    own, *others = route.targets
    fallbacks = [{"provider": target.provider_id, "model": target.model} for target in others]
    prices = route.prices.model_dump() if route.prices else None
    metadata = {
        "context_tokens": route.context_tokens,
        "prices": prices,
        "fallbacks": fallbacks,
        "embedding_dimension": route.embedding_dimension,
        "tools": "prompted" if route.tools == "prompted" else None,
    }
    return Model(
        identifier=route.model_id,
        provider_resource_id=own.model,
        provider_id=own.provider_id,
        model_type="embedding" if route.embedding_dimension else "llm",
        metadata={name: value for name, value in metadata.items() if value},
    )


def details_of(model: Model) -> ModelDetails:
    """Return the effective part of a registered model's metadata. Raises InvalidRequest, naming the invalid key."""
    try:
        return ModelDetails.model_validate(model.metadata)
    except ValidationError as error:
        problem = error.errors(include_input=False)[0]
        location = ("metadata", *problem["loc"])
        raise InvalidRequest(f"{'.'.join(map(str, location))}: {problem['msg']}", location) from None


def registered_route(entry: Any) -> ModelRoute:
    """Return the route of a registered model from its JSON."""
    model = Model.model_validate(entry)
    details = details_of(model)
    own = Target(model.provider_id, model.provider_resource_id)
    others = (Target(fallback.provider, fallback.model or own.model) for fallback in details.fallbacks)
    return _route(model.identifier, details, (own, *others))
