"""The models of a server on one machine, by its file and its variables."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from turnstone.bootstrap.catalogue import build_catalogue
from turnstone.bootstrap.embeddings import build_embeddings, build_only_embeddings
from turnstone.bootstrap.models import build_inference, build_only_inference, local_provider_deps
from turnstone.bootstrap.places.memory_check import unusable_embeddings
from turnstone.domain.models.routing import DEFAULT_PROVIDER
from turnstone.settings.config import OFFLINE, InvalidFile
from turnstone.settings.local_settings import LocalSettings

if TYPE_CHECKING:
    from turnstone.adapters.models.routed import RoutedInference
    from turnstone.adapters.models.routed_embeddings import RoutedEmbeddings
    from turnstone.domain.registry.catalogue import Catalogue

log = logging.getLogger(__name__)
KEY_FIELD = "api_key_env"


class LocalModels(NamedTuple):
    """The providers, all made, and the operator's file, None if there is none."""

    inference: RoutedInference
    catalogue: Catalogue | None
    embeddings: RoutedEmbeddings


class ModelToTry(NamedTuple):
    """A model for a first request, and the source of the models.

    Attributes:
        model: name of a model that answers, None if the settings name none.
        providers: names of the providers in the operator's file.
        is_of_file: whether the file names models or providers.
    """

    model: str | None
    providers: tuple[str, ...] = ()
    is_of_file: bool = False


def local_models(settings: LocalSettings) -> LocalModels:
    """Return the models of this server. Raises InvalidSettings."""
    catalogue = read_catalogue(settings)
    timeout_s = settings.model_timeout_seconds
    if catalogue is None:
        arguments = (settings.model_url, lambda: settings.model_api_key, timeout_s)
        return LocalModels(build_only_inference(*arguments), None, build_only_embeddings(*arguments))
    deps = local_provider_deps(settings)
    inference = build_inference(catalogue, deps)
    for name in catalogue.providers:
        try:
            inference.provider(name)
        except ValueError as wrong:
            raise InvalidFile(f"providers.{name}: {wrong}") from wrong
    return LocalModels(inference, catalogue, build_embeddings(catalogue, deps).load())


def read_catalogue(settings: LocalSettings) -> Catalogue | None:
    """Return the catalogue of the operator's file, None if there is none. Raises InvalidSettings.

    A file with providers replaces the default: the offline model is added only if it is configured. A file without
    providers, such as one with tools only, leaves the models unchanged.
    """
    file = settings.models_file
    if file is None:
        return None
    try:
        text = file.read_text()
    except (OSError, ValueError) as problem:
        raise InvalidFile(f"{str(file)!r} can't be read: {problem}") from None
    model_url = settings.model_url if "model_url" in settings.model_fields_set else None
    return build_catalogue(text, model_url, KEY_FIELD, settings.model_url)


def warn_of_missing_model(settings: LocalSettings) -> None:
    """Log why an embedding model can't be used, if one can't, as `doctor` does. Raises InvalidSettings."""
    if missing := unusable_embeddings(read_catalogue(settings)):
        log.warning("%s", missing)


def model_to_try(settings: LocalSettings) -> ModelToTry:
    """Return the model for a first request to this server. Raises InvalidSettings."""
    catalogue = read_catalogue(settings)
    if catalogue is None:
        return ModelToTry(OFFLINE if settings.model_url == OFFLINE else None)
    default = catalogue.providers.get(catalogue.configured_models().default or "")
    offline = OFFLINE if default is not None and default.type == "offline" else None
    is_of_variables = "model_url" in settings.model_fields_set or offline is not None
    providers = tuple(name for name in catalogue.providers if name != DEFAULT_PROVIDER or not is_of_variables)
    talking = [name for name, entry in catalogue.models.items() if entry.embedding_dimension is None]
    model = talking[0] if talking else offline
    return ModelToTry(model, providers, is_of_file=bool(catalogue.models or providers))
