"""The files of this machine's own embedding models: fetched, and checked."""

from __future__ import annotations

from pathlib import Path

from turnstone.adapters.embedding.fetching import FilesNotFetched, fetch, wrong_files
from turnstone.adapters.embedding.files import folder_of, local_choice, missing_model, missing_package
from turnstone.bootstrap.places.local_models import read_catalogue
from turnstone.domain.models.local_embeddings import LocalEmbeddingChoice
from turnstone.settings.config import InvalidSettings, load_settings
from turnstone.settings.local_settings import LocalSettings


def chosen_models() -> LocalEmbeddingChoice:
    """Return the choice of embedding models of the server that would start here. Raises InvalidSettings."""
    return local_choice(read_catalogue(load_settings(LocalSettings)))


def fetch_files(model: str, choice: LocalEmbeddingChoice) -> list[Path]:
    """Fetch the missing or damaged files of the model and return their paths. Raises InvalidSettings."""
    try:
        return fetch(model, Path(folder_of(choice)))
    except FilesNotFetched as failed:
        raise InvalidSettings(str(failed)) from failed


def damaged_files(choice: LocalEmbeddingChoice) -> str:
    """Return the names of the chosen model's files that are not the fetched ones; empty if all are, or none is here."""
    if choice.local == "off" or missing_model(choice):
        return ""
    return ", ".join(wrong_files(choice.local, Path(folder_of(choice))))


def lacks_package(model: str) -> str | None:
    """Return a package that the model needs and this Python lacks, None if it lacks none."""
    return missing_package(model)
