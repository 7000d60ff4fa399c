"""Operator's settings of memory: the stores of banks, and which kinds of banks each of them gets."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from turnstone.domain.memory.banks import EMBEDDED_PROVIDER, BankKind
from turnstone.domain.registry.tool_settings import Text
from turnstone.domain.values.frozen import Strict

Kinds = tuple[BankKind, ...]
VectorKinds = tuple[Literal["vector"], ...]
TimeLimit = Annotated[float, Field(ge=0.1, le=300)]


class EmbeddedMemory(Strict):
    """The store of this server, under another name.

    Attributes:
        kinds: of the banks that are stored here unless they name another provider.
    """

    type: Literal["embedded"]
    kinds: Kinds = ()


class PgvectorMemory(Strict):
    """A database of Postgres with the extension `vector`.

    Attributes:
        kinds: as of every provider; banks of vectors only.
        url_env: the variable with its URL, `postgresql://USER:PASSWORD@HOST/DATABASE`, on one machine.
        url_secret: the secret that holds the URL, on AWS.
        schema_name: of the tables, made at the first use.
        index: `hnsw` for approximate searches, which do not read each vector of a bank.
        connections: the most that a process opens.
        timeout_seconds: the limit for a statement, and for the wait for a connection.
    """

    type: Literal["pgvector"]
    kinds: VectorKinds = ()
    url_env: Text | None = None
    url_secret: Text | None = None
    schema_name: Annotated[
        str,
        Field(alias="schema", pattern=r"^[a-z_][a-z0-9_]{0,62}$", description="a name of small letters, digits and _"),
    ] = "turnstone"
    index: Literal["exact", "hnsw"] = "exact"
    connections: Annotated[int, Field(ge=1, le=1_000)] = 8
    timeout_seconds: TimeLimit = 10

    @model_validator(mode="after")
    def agree(self) -> Self:
        if self.url_env and self.url_secret:
            raise ValueError("url_env: set it or url_secret, not both")
        if not (self.url_env or self.url_secret):
            raise ValueError("url_env: name the variable that holds the URL of the database, or its url_secret on AWS")
        return self


class S3VectorsMemory(Strict):
    """A bucket of Amazon S3 Vectors, with an index for each bank.

    Attributes:
        kinds: as of every provider; banks of vectors only.
        region: None for this process's region.
        timeout_seconds: the limit for an answer.
    """

    type: Literal["s3-vectors"]
    kinds: VectorKinds = ()
    bucket: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", description="the name of a bucket")]
    region: Text | None = None
    timeout_seconds: TimeLimit = 10


MemoryEntry = Annotated[EmbeddedMemory | PgvectorMemory | S3VectorsMemory, Field(discriminator="type")]
MemoryName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]


def check_memory(entries: Mapping[str, MemoryEntry]) -> None:
    """Raise ValueError, which names the entry, if one has the server's own name or two claim the same kind."""
    claimed: dict[BankKind, str] = {}
    for name, entry in entries.items():
        if name == EMBEDDED_PROVIDER:
            raise ValueError(f"memory.{name}: is the name of this server's own store; choose another one")
        for kind in dict.fromkeys(entry.kinds):
            if kind in claimed:
                raise ValueError(f"memory.{name}.kinds: {kind!r} banks go to {claimed[kind]!r} already")
            claimed[kind] = name


def default_providers(entries: Mapping[str, MemoryEntry]) -> dict[BankKind, str]:
    """Return the provider of the banks of each claimed kind that name none."""
    return {kind: name for name, entry in entries.items() for kind in entry.kinds}
