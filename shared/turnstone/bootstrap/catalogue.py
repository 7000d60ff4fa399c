"""Parsing of the operator's file of providers and models."""

import tomllib
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from turnstone.bootstrap.models import CALLER_KEY
from turnstone.domain.models.routing import DEFAULT_PROVIDER
from turnstone.domain.registry.catalogue import Catalogue, OpenAIProvider
from turnstone.domain.registry.memory_settings import PgvectorMemory
from turnstone.domain.registry.tool_settings import WebSearchSettings, WolframSettings
from turnstone.settings.config import OFFLINE, InvalidFile

KEY_FIELDS = ("api_key_env", "api_key_secret")


def build_catalogue(text: str, model_url: str | None, key_field: str, otherwise: str | None = None) -> Catalogue:
    """Return the catalogue of the file, with the provider of the environment, if there is one, as `default`.

    Args:
        otherwise: replaces `model_url` if neither that nor the file names a provider.
        key_field: field with the name of a provider's key, `api_key_env` on one machine, `api_key_secret` on AWS.

    Raises:
        InvalidSettings: The file is invalid, or no provider serves the models that it does not list.
    """
    fields = _parsed(text)
    providers = fields.get("providers", {})
    if not providers:
        model_url = model_url or otherwise
    if model_url is not None and isinstance(providers, dict):
        if DEFAULT_PROVIDER in providers:
            raise InvalidFile(f"providers.{DEFAULT_PROVIDER} is what TURNSTONE_MODEL_URL names; unset that")
        fields = {**fields, "providers": {**providers, DEFAULT_PROVIDER: _named_by_environment(model_url)}}
    try:
        catalogue = Catalogue.model_validate(fields)
    except ValidationError as error:
        from turnstone.settings.setting_problems import problems_in_file  # only where a start fails

        raise InvalidFile(problems_in_file(Catalogue, error)) from None
    if catalogue.configured_models().default not in (None, *catalogue.providers):
        raise InvalidFile(
            "no provider is set for models that it does not list; set default_provider, "
            "TURNSTONE_MODEL_URL, or registry to closed"
        )
    for name, keyed in _keyed(catalogue):
        if any(getattr(keyed, field) for field in KEY_FIELDS if field != key_field):
            raise InvalidFile(f"{name}: its key is named by {key_field} here")
    url_field = key_field.replace("api_key", "url")
    for name, entry in catalogue.memory.items():
        if isinstance(entry, PgvectorMemory) and not getattr(entry, url_field):
            raise InvalidFile(f"memory.{name}: its URL is named by {url_field} here")
    return catalogue


def _keyed(catalogue: Catalogue) -> Iterator[tuple[str, OpenAIProvider | WebSearchSettings | WolframSettings]]:
    for name, provider in catalogue.providers.items():
        if isinstance(provider, OpenAIProvider):
            yield f"providers.{name}", provider
    yield "tools.websearch", catalogue.tools.websearch
    yield "tools.wolfram_alpha", catalogue.tools.wolfram_alpha


def _named_by_environment(model_url: str) -> dict[str, Any]:
    if model_url == OFFLINE:
        return {"type": "offline"}
    return {"type": "openai", "url": model_url, "caller_key": CALLER_KEY}


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidFile(f"is not valid TOML: {error}") from None
    except RecursionError:
        raise InvalidFile("is nested too deep") from None
