"""Check of the models that the model servers of a server on one machine list."""

import logging
from collections.abc import Iterator
from typing import NamedTuple

from turnstone.adapters.embedding.files import with_local_models
from turnstone.adapters.models.listed_models import ModelServer
from turnstone.adapters.models.openai.model_access import ModelAccess
from turnstone.bootstrap.models import local_provider_deps
from turnstone.bootstrap.places.local_models import read_catalogue
from turnstone.domain.models.routing import DEFAULT_PROVIDER
from turnstone.domain.registry.catalogue import Catalogue, OpenAIProvider
from turnstone.settings.config import OFFLINE
from turnstone.settings.local_settings import LocalSettings

log = logging.getLogger(__name__)
SHOWN_MODELS = 10
NOT_LISTED = "model server %s does not list %s, which %s names"


class Checked(NamedTuple):
    """Result of one request for the models of a server.

    Attributes:
        provider: its name in the operator's file.
        url: its address, without secrets.
        problem: why it lists no models, and what to do; empty if it lists some.
        number: of models that it lists.
        missing: models that the operator's file names and the server does not list, as one text; empty if none.
    """

    provider: str
    url: str
    problem: str
    number: int
    missing: str


def check_models(settings: LocalSettings) -> None:
    """Log what each model server lists, or why it lists no models; keys are never logged. Raises InvalidSettings."""
    for checked in model_servers(settings):
        if checked.problem:
            log.warning("model server %s at %s: %s", checked.provider, checked.url, checked.problem)
            continue
        log.info("model server %s at %s lists %d models", checked.provider, checked.url, checked.number)
        if checked.missing:
            log.warning(NOT_LISTED, checked.provider, checked.missing, settings.models_file)


def model_servers(settings: LocalSettings) -> Iterator[Checked]:
    """Request the models of each model server once.

    Skips the offline model, and providers with signed requests. Raises InvalidSettings.
    """
    catalogue = read_catalogue(settings)
    for name, server in _servers(settings, catalogue):
        found = server.listed()
        models = found.models or frozenset()
        missing = [] if found.models is None else sorted(_named(name, catalogue) - models)
        listed = ", ".join(missing[:SHOWN_MODELS]) + (", …" if len(missing) > SHOWN_MODELS else "")
        yield Checked(name, server.shown, found.problem, len(models), listed)


def _servers(settings: LocalSettings, catalogue: Catalogue | None) -> Iterator[tuple[str, ModelServer]]:
    if catalogue is None:
        if settings.model_url != OFFLINE:
            access = ModelAccess(settings.model_api_key)
            yield DEFAULT_PROVIDER, ModelServer(settings.model_url, access, *access.names)
        return
    deps = local_provider_deps(settings)
    for name, entry in catalogue.providers.items():
        if isinstance(entry, OpenAIProvider) and entry.auth == "bearer":
            url, access = deps.openai_access(name, entry)
            yield name, ModelServer(url, access, access.names.url, entry.api_key_env or access.names.key)


def _named(provider: str, catalogue: Catalogue | None) -> set[str]:
    """Return the provider's own names of the file's models, and of its default embedding model."""
    if catalogue is None:
        return set()
    targets = (target for name, entry in catalogue.models.items() for target in entry.targets(name))
    named = {target.model for target in targets if target.provider_id == provider}
    choice = catalogue.local_embeddings()
    configured = with_local_models(catalogue.configured_models(), choice)
    if choice.default is not None and choice.default not in configured.routes and provider == configured.default:
        named.add(choice.default)
    return named
