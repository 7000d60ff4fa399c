"""Providers of memory banks: stores of other systems, for chunks with their vectors.

A provider keeps insertions: all chunks of a document as they were inserted at one time, under an id that is never used
again. The services decide which insertion of a document counts, hide the others, and remove them; so a provider needs
neither transactions nor conditions, and every write may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from turnstone.domain.memory.banks import Bank, BankKind, BankRef
    from turnstone.domain.memory.documents import DocumentChunk
    from turnstone.domain.memory.filters import Filter


class InsertionRef(NamedTuple):
    """An insertion: its id, and the number of its chunks, whose positions are those below it."""

    insertion_id: str
    chunks: int


class Insertion(NamedTuple):
    """The chunks of a document, each with its vector, in the order of their positions from 0.

    Attributes:
        insertion_id: a UUID.
        attributes: of the document.
    """

    insertion_id: str
    document_id: str
    chunks: Sequence[DocumentChunk]
    attributes: Mapping[str, Any]

    @property
    def ref(self) -> InsertionRef:
        return InsertionRef(self.insertion_id, len(self.chunks))


class ProviderQuestion(NamedTuple):
    """A question by vector.

    Attributes:
        limit: the number of best hits; a provider may return fewer, but not fewer than it can find.
        filters: over the metadata of a chunk with the attributes of its document, which win; None for all.
    """

    vector: Sequence[float]
    limit: int
    filters: Filter | None = None


class ProviderHit(NamedTuple):
    """A found chunk, without its vector, of any insertion.

    Attributes:
        cosine: of the vectors of chunk and question.
    """

    insertion_id: str
    chunk: DocumentChunk
    attributes: Mapping[str, Any]
    cosine: float


class BankProvider(Protocol):
    """A store of banks, called by several threads.

    Each method that calls the store raises MemoryProviderFailed or MemoryProviderTimedOut, which name the provider.
    """

    @property
    def most_hits(self) -> int:
        """The largest number of hits of a question."""

    def refuse_bank(self, bank: Bank) -> None:
        """Raise Unsupported, which names the field, for a bank that this provider can't store."""

    def refuse_filters(self, filters: Filter) -> None:
        """Raise Unsupported, which names the operator, for filters that this provider lacks."""

    def refuse_insertion(self, insertion: Insertion) -> None:
        """Raise InvalidRequest, which names the limit, for content that this provider can't store."""

    def create(self, ref: BankRef, dimension: int) -> None:
        """Make an empty bank, unless it exists."""

    def put(self, ref: BankRef, insertions: Sequence[Insertion]) -> None:
        """Store the insertions, one at least with a chunk, in a bank made at need.

        Searches may find some chunks before this returns, and all of them afterwards.
        """

    def drop(self, ref: BankRef, insertions: Sequence[InsertionRef]) -> None:
        """Remove the insertions; those that are not there are no error."""

    def search(self, ref: BankRef, question: ProviderQuestion) -> list[ProviderHit]:
        """Return the best hits, the best first, equal ones in the order of the ids of their chunks; none for no bank.

        Raises:
            Unsupported: the provider lacks an operator of the filters.
        """

    def chunks(self, ref: BankRef, insertion: InsertionRef) -> tuple[DocumentChunk, ...]:
        """Return the chunks of an insertion with their vectors, in their order; fewer where some are missing."""

    def remove(self, ref: BankRef) -> None:
        """Remove the bank with all of its content; one that is not there is no error."""

    def check(self) -> str:
        """Return a description of the store that was reached, for an operator."""

    def close(self) -> None:
        """Close connections."""


class BankProviders(Protocol):
    """The providers of the operator's file, each made at its first use."""

    def chosen(self, kind: BankKind, named: str | None) -> str:
        """Return the provider of a new bank: the named one, or for None the one that gets banks of this kind.

        Raises Unsupported, which lists the providers, for an unknown name.
        """

    def is_own(self, provider_id: str) -> bool:
        """Return whether this is the server's own store, under any name."""

    def of(self, provider_id: str) -> BankProvider:
        """Return another store. Raises MemoryProviderMissing."""

    def close(self) -> None:
        """Close the connections of all providers."""
