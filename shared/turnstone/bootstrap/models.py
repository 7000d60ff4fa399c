"""Which models answer: the providers of the operator's catalogue, each made when it is first asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, assert_never

from turnstone.adapters.offline import OfflineInference
from turnstone.adapters.routed import RoutedInference
from turnstone.config import InvalidSettings
from turnstone.domain.catalogue import BedrockProvider, Catalogue, OfflineProvider, OpenAIProvider, ProviderEntry

if TYPE_CHECKING:
    from turnstone.adapters.aws_clients import AwsClients
    from turnstone.ports import Inference


@dataclass(frozen=True, slots=True)
class Means:
    """What making providers takes, of the place they are made in.

    Attributes:
        timeout_s: how long a model may be silent, where its provider says nothing else.
        key: returns the key of a provider, None if it has none.
        aws: returns what makes clients of AWS.
    """

    timeout_s: float
    key: Callable[[str, OpenAIProvider], str | None]
    aws: Callable[[], AwsClients]


def build_inference(catalogue: Catalogue, means: Means) -> RoutedInference:
    """Return all providers of the catalogue as one."""
    made = {name: partial(_build_provider, name, entry, means) for name, entry in catalogue.providers.items()}
    return RoutedInference(made, catalogue.default if catalogue.registry == "open" else None)


def _build_provider(name: str, entry: ProviderEntry, means: Means) -> Inference:
    match entry:
        case OfflineProvider():
            return OfflineInference()
        case OpenAIProvider():
            return _build_openai(name, entry, means)
        case BedrockProvider():
            return _build_bedrock(entry, means)
        case _:
            assert_never(entry)


def _build_openai(name: str, entry: OpenAIProvider, means: Means) -> Inference:
    from turnstone.adapters.model_access import ModelAccess
    from turnstone.adapters.openai_compatible import OpenAICompatibleInference  # urllib3: only where a model is called

    timeout_s = entry.timeout_seconds or means.timeout_s
    url = entry.url
    if entry.auth == "sigv4":
        signer = means.aws().signer("bedrock", entry.region)
        url = url or f"https://bedrock-runtime.{signer.region}.amazonaws.com/openai/v1"
        access = ModelAccess(sign=signer)
    else:
        access = ModelAccess(means.key(name, entry), entry.caller_key or f"{name.replace('-', '_')}_api_key")
    return OpenAICompatibleInference(str(url), access, timeout_s)


def _build_bedrock(entry: BedrockProvider, means: Means) -> Inference:
    raise InvalidSettings("bedrock is merged later")
