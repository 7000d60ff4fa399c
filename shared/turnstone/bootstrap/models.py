"""Building of models: the providers of the operator's catalogue, each made at its first call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, assert_never

from turnstone.domain.models.routing import DEFAULT_PROVIDER
from turnstone.settings.config import OFFLINE, InvalidFile, text_of_variable

if TYPE_CHECKING:
    from turnstone.adapters.aws.aws_clients import AwsClients
    from turnstone.adapters.models.openai.model_access import ModelAccess
    from turnstone.adapters.models.openai.openai_wire import GrammarServer
    from turnstone.adapters.models.routed import RoutedInference
    from turnstone.domain.registry.catalogue import BedrockProvider, Catalogue, OpenAIProvider, ProviderEntry
    from turnstone.ports.models import Inference
    from turnstone.settings.local_settings import LocalSettings

CALLER_KEY = "openai_api_key"


class ProviderDeps(NamedTuple):
    """Dependencies of providers, which differ between one machine and AWS.

    Attributes:
        timeout_s: longest silence of a model, in seconds, unless its provider sets one.
        key: returns the key of a provider, None if it has none.
        aws: returns the factory of AWS clients.
        key_field: field of the file with the name of a provider's key.
        has_variables: whether variables, not the file, configure the provider `default`.
    """

    timeout_s: float
    key: Callable[[str, OpenAIProvider], str | None]
    aws: Callable[[], AwsClients]
    key_field: str = "api_key_env"
    has_variables: bool = False

    def openai_access(self, name: str, entry: OpenAIProvider) -> tuple[str, ModelAccess]:
        """Return the URL of a provider, and the credentials for it."""
        from turnstone.adapters.models.openai.model_access import OF_VARIABLES, ModelAccess, SettingNames

        names = SettingNames(f"providers.{name}.url", f"providers.{name}.{self.key_field}")
        if name == DEFAULT_PROVIDER and self.has_variables:
            names = OF_VARIABLES
        if entry.auth == "bearer":
            caller_key = entry.caller_key or f"{name.replace('-', '_')}_api_key"
            return str(entry.url), ModelAccess(self.key(name, entry), caller_key, names=names)
        signer = self.aws().signer("bedrock", entry.region)
        url = entry.url or f"https://bedrock-runtime.{signer.region}.amazonaws.com/openai/v1"
        return url, ModelAccess(sign=signer, names=names._replace(key="the AWS credentials of this server"))


def build_inference(catalogue: Catalogue, deps: ProviderDeps) -> RoutedInference:
    """Return one adapter that routes to all providers of the catalogue."""
    from turnstone.adapters.models.routed import RoutedInference  # only where models answer

    made = {name: partial(_build_provider, name, entry, deps) for name, entry in catalogue.providers.items()}
    return RoutedInference(made, catalogue.configured_models().default)


def build_only_inference(model_url: str, key: Callable[[], str | None], timeout_s: float) -> RoutedInference:
    """Return an adapter with one provider: the model server at that URL, or the offline model."""
    from turnstone.adapters.models.routed import RoutedInference  # as above

    def make() -> Inference:
        from turnstone.adapters.models.openai.model_access import ModelAccess

        return _build_at(model_url, ModelAccess(key(), CALLER_KEY), timeout_s)

    return RoutedInference({DEFAULT_PROVIDER: _offline if model_url == OFFLINE else make}, DEFAULT_PROVIDER).load()


def _offline() -> Inference:
    from turnstone.adapters.models.offline.offline import OfflineInference

    return OfflineInference()


def _build_provider(name: str, entry: ProviderEntry, deps: ProviderDeps) -> Inference:
    match entry.type:
        case "offline":
            return _offline()
        case "openai":
            return _build_openai(name, entry, deps)
        case "bedrock":
            return _build_bedrock(entry, deps)
        case _:
            assert_never(entry)


def _build_openai(name: str, entry: OpenAIProvider, deps: ProviderDeps) -> Inference:
    url, access = deps.openai_access(name, entry)
    return _build_at(url, access, entry.timeout_seconds or deps.timeout_s, entry.grammar)


def _build_at(url: str, access: ModelAccess, timeout_s: float, grammar: GrammarServer | None = None) -> Inference:
    from turnstone.adapters.models.openai.openai_compatible import (
        OpenAICompatibleInference,  # urllib3: only where a model is called
    )
    from turnstone.adapters.models.prompted.prompted_tools import PromptedTools

    return PromptedTools(OpenAICompatibleInference(url, access, timeout_s, grammar))


def _build_bedrock(entry: BedrockProvider, deps: ProviderDeps) -> Inference:
    clients = deps.aws()
    from turnstone.adapters.models.bedrock.bedrock import (
        BedrockInference,  # botocore's parsers: only where Bedrock is called
    )
    from turnstone.adapters.models.bedrock.bedrock_client import build_bedrock_client
    from turnstone.adapters.models.bedrock.bedrock_wire import BedrockOptions
    from turnstone.adapters.models.prompted.prompted_tools import PromptedTools

    options = BedrockOptions(is_streaming=entry.streams, has_cache_points=entry.caches)
    if entry.guardrail is not None:
        guardrail = entry.guardrail
        options = replace(options, guardrail_id=guardrail.identifier, guardrail_version=guardrail.version)
    client = build_bedrock_client(clients, entry.region, entry.timeout_seconds or deps.timeout_s)
    return PromptedTools(BedrockInference(client, options))


def local_provider_deps(settings: LocalSettings) -> ProviderDeps:
    """Return the dependencies of the file's providers on one machine."""
    is_set = "model_url" in settings.model_fields_set
    return ProviderDeps(settings.model_timeout_seconds, partial(_key, settings), _aws_clients, has_variables=is_set)


def _key(settings: LocalSettings, name: str, provider: OpenAIProvider) -> str | None:
    if name == DEFAULT_PROVIDER and "model_url" in settings.model_fields_set:
        return settings.model_api_key
    if provider.api_key_env is None:
        return None
    key = text_of_variable(provider.api_key_env)
    if key is None:
        raise InvalidFile(f"providers.{name}.api_key_env: {provider.api_key_env} is not set")
    return key


def _aws_clients() -> AwsClients:
    try:
        from turnstone.adapters.aws.aws_clients import AwsClients
    except ModuleNotFoundError as missing:
        raise InvalidFile(f"a provider on AWS needs the package {missing.name}, pip install -e '.[aws]'") from missing
    return AwsClients()
