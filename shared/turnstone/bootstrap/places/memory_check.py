"""Check of the stores of memory banks in the operator's file, and of its default embedding model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from turnstone.adapters.embedding.files import MissingModel, absence_of, local_choice, missing_model, with_local_models
from turnstone.bootstrap.memory_providers import local_bank_providers, unmet_need
from turnstone.bootstrap.models import local_provider_deps
from turnstone.domain.errors import MemoryProviderError, StoreUnavailable
from turnstone.domain.models.local_embeddings import HASHED_WORDS
from turnstone.domain.registry.catalogue import Catalogue
from turnstone.domain.registry.memory_settings import PgvectorMemory, S3VectorsMemory
from turnstone.settings.local_settings import LocalSettings

LONGEST_S = 5.0  # for a connection and an answer


class CheckedStore(NamedTuple):
    """Result of one request to a store.

    Attributes:
        provider: its name in the operator's file.
        found: a description of the store that was reached; empty if none was.
        problem: why its banks can't be used; empty if they can.
        remedy: what to do then.
    """

    provider: str
    found: str
    problem: str = ""
    remedy: str = ""


def bank_stores(settings: LocalSettings, catalogue: Catalogue | None) -> Iterator[CheckedStore]:
    """Connect to each other store of banks once, without any change of it."""
    for name, entry in ({} if catalogue is None else catalogue.memory).items():
        if entry.type == "embedded":
            continue
        if need := unmet_need(name, entry):
            yield CheckedStore(name, "", *need)
            continue
        yield _reached(name, entry, settings, _alone(name, entry, catalogue))


def _alone(name: str, entry: PgvectorMemory | S3VectorsMemory, catalogue: Catalogue | None) -> Catalogue | None:
    """Return the catalogue with this store only, whose limit of time is that of a check."""
    limited = entry.model_copy(update={"timeout_seconds": min(LONGEST_S, entry.timeout_seconds)})
    return catalogue and catalogue.model_copy(update={"memory": {name: limited}})


def _reached(
    name: str, entry: PgvectorMemory | S3VectorsMemory, settings: LocalSettings, catalogue: Catalogue | None
) -> CheckedStore:
    providers = local_bank_providers(catalogue, local_provider_deps(settings).aws)
    try:
        return CheckedStore(name, providers.of(name).check())
    except StoreUnavailable as problem:  # of AWS's settings
        return CheckedStore(name, "", str(problem), f"set memory.{name}.region in the operator's file")
    except MemoryProviderError as problem:
        return CheckedStore(name, "", str(problem), _remedy(entry))
    finally:
        providers.close()


def _remedy(entry: PgvectorMemory | S3VectorsMemory) -> str:
    if entry.type == "pgvector":
        return f"check that the database runs, and the URL in {entry.url_env}"
    return "check the name of the vector bucket, its region, and the AWS credentials of this process"


def unusable_embeddings(catalogue: Catalogue | None) -> MissingModel | None:
    """Return why a model of [embeddings] is not usable, the default one first; None if all are."""
    return unusable_default(catalogue) or missing_model(local_choice(catalogue))


def unusable_default(catalogue: Catalogue | None) -> MissingModel | None:
    """Return why the default model of [embeddings] is not usable; None if it is.

    A name that the default provider may serve is left to the check of that provider's models.
    """
    choice = local_choice(catalogue)
    if catalogue is None or choice.default in (None, HASHED_WORDS):
        return None
    configured = with_local_models(catalogue.configured_models(), choice)
    named = f"the default {choice.default!r} of [embeddings]"
    if choice.default in configured.unlisted:
        missing = absence_of(choice.default)
        return missing._replace(problem=f"{named} is not usable: {missing.problem}")
    if choice.default in configured.routes or (configured.default is not None and not configured.is_offline):
        return None
    models = configured.embedding_models()
    if choice.default in models:
        return None
    remedy = f"choose one that it has: {', '.join(models) or 'none'}"
    return MissingModel(f"{named} is no model of this server", remedy)
