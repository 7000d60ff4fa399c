"""Providers of memory banks: those of the operator's catalogue, each made for the first bank that names it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from turnstone.settings.config import InvalidFile, text_of_variable

if TYPE_CHECKING:
    from turnstone.adapters.aws.aws_clients import AwsClients
    from turnstone.adapters.vectors.configured import ConfiguredProviders, Make
    from turnstone.domain.registry.catalogue import Catalogue
    from turnstone.domain.registry.memory_settings import MemoryEntry, PgvectorMemory, S3VectorsMemory
    from turnstone.ports.memory_providers import BankProvider

PACKAGES = {"pgvector": ("psycopg", "pgvector"), "s3-vectors": ("boto3", "aws")}  # and the extra that installs it


class MemoryProviderDeps(NamedTuple):
    """Dependencies of providers, which differ between one machine and AWS.

    Attributes:
        url: returns the URL of a database, which is a secret; None if it is not set.
        aws: returns the factory of AWS clients.
    """

    url: Callable[[PgvectorMemory], str | None]
    aws: Callable[[], AwsClients]


def build_bank_providers(catalogue: Catalogue | None, deps: MemoryProviderDeps) -> ConfiguredProviders:
    """Return the providers of the catalogue, none for None."""
    from turnstone.adapters.vectors.configured import ConfiguredProviders

    if catalogue is None or not catalogue.memory:
        return ConfiguredProviders({}, {})
    from turnstone.domain.registry.memory_settings import default_providers

    made = {name: _maker(name, entry, deps) for name, entry in catalogue.memory.items()}
    return ConfiguredProviders(made, default_providers(catalogue.memory))


def local_bank_providers(catalogue: Catalogue | None, aws: Callable[[], AwsClients]) -> ConfiguredProviders:
    """Return the providers on one machine. Raises InvalidSettings for one that lacks its package or its variable."""
    for name, entry in ({} if catalogue is None else catalogue.memory).items():
        if need := unmet_need(name, entry):
            raise InvalidFile("; ".join(need))

    def url(entry: PgvectorMemory) -> str | None:
        return text_of_variable(entry.url_env or "")

    return build_bank_providers(catalogue, MemoryProviderDeps(url, aws))


def unmet_need(name: str, entry: MemoryEntry) -> tuple[str, str] | None:
    """Return what a provider lacks to start on this machine, and the remedy; None if it lacks nothing."""
    package, extra = PACKAGES.get(entry.type, ("", ""))
    if package and find_spec(package) is None:
        return f"memory.{name}: needs the package {package}", f"pip install -e '.[{extra}]'"
    if entry.type == "pgvector" and entry.url_env and text_of_variable(entry.url_env) is None:
        problem = f"memory.{name}.url_env: {entry.url_env} is not set"
        return problem, f"set {entry.url_env} to the URL of the database, postgresql://USER:PASSWORD@HOST/DATABASE"
    return None


def _maker(name: str, entry: MemoryEntry, deps: MemoryProviderDeps) -> Make | None:
    if entry.type == "embedded":
        return None
    if entry.type == "pgvector":
        return partial(_build_pgvector, name, entry, deps)
    return partial(_build_s3_vectors, name, entry, deps)


def _build_pgvector(name: str, entry: PgvectorMemory, deps: MemoryProviderDeps) -> BankProvider:
    from turnstone.domain.errors import MemoryProviderMissing

    try:
        from turnstone.adapters.vectors.pgvector import PgvectorBanks
        from turnstone.adapters.vectors.postgres_pool import PostgresPool
    except ImportError:  # also where the library of Postgres is missing
        raise MemoryProviderMissing(name, "the server lacks the package psycopg") from None
    url = deps.url(entry)
    if url is None:
        raise MemoryProviderMissing(name, "the URL of its database is not set")
    pool = PostgresPool(name, url, entry.connections, entry.timeout_seconds)
    return PgvectorBanks(name, pool, entry.schema_name, is_indexed=entry.index == "hnsw")


def _build_s3_vectors(name: str, entry: S3VectorsMemory, deps: MemoryProviderDeps) -> BankProvider:
    from turnstone.adapters.vectors.s3_vectors import S3VectorBanks, build_s3_vectors_client

    client = build_s3_vectors_client(deps.aws(), entry.region, entry.timeout_seconds)
    return S3VectorBanks(name, lambda: client, entry.bucket)
