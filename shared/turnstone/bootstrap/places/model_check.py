"""A start's one look at the model servers of a server on one machine: the log says what each of them answers."""

import logging
from collections.abc import Iterator

from turnstone.adapters.models.listed_models import ModelServer
from turnstone.adapters.models.openai.model_access import ModelAccess
from turnstone.bootstrap.models import local_means
from turnstone.bootstrap.places.local_models import read_catalogue
from turnstone.domain.models.routing import DEFAULT_PROVIDER
from turnstone.domain.registry.catalogue import Catalogue, OpenAIProvider
from turnstone.settings.config import OFFLINE
from turnstone.settings.local_settings import LocalSettings

log = logging.getLogger(__name__)
SHOWN_MODELS = 10


def check_models(settings: LocalSettings) -> None:
    """Ask each model server once which models it lists, and log that, or why it lists none; a key is never logged.

    Providers that are asked with signed requests, and the offline model, are left out. Raises InvalidSettings.
    """
    catalogue = read_catalogue(settings)
    for name, server in _servers(settings, catalogue):
        found = server.listed()
        if found.models is None:
            log.warning("model server %s at %s: %s", name, server.shown, found.problem)
            continue
        log.info("model server %s at %s lists %d models", name, server.shown, len(found.models))
        missing = sorted(_named(name, catalogue) - found.models)
        if missing:
            listed = ", ".join(missing[:SHOWN_MODELS]) + (", …" if len(missing) > SHOWN_MODELS else "")
            log.warning("model server %s does not list %s, which %s names", name, listed, settings.models_file)


def _servers(settings: LocalSettings, catalogue: Catalogue | None) -> Iterator[tuple[str, ModelServer]]:
    if catalogue is None:
        if settings.model_url != OFFLINE:
            access = ModelAccess(settings.model_api_key)
            yield DEFAULT_PROVIDER, ModelServer(settings.model_url, access, *access.names)
        return
    means = local_means(settings)
    for name, entry in catalogue.providers.items():
        if isinstance(entry, OpenAIProvider) and entry.auth == "bearer":
            url, access = means.openai_access(name, entry)
            yield name, ModelServer(url, access, access.names.url, entry.api_key_env or access.names.key)


def _named(provider: str, catalogue: Catalogue | None) -> set[str]:
    """Return the names, at the provider, of the models that the file has of it."""
    if catalogue is None:
        return set()
    targets = (target for name, entry in catalogue.models.items() for target in entry.targets(name))
    return {target.model for target in targets if target.provider_id == provider}
