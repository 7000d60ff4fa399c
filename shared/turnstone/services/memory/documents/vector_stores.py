"""Vector stores: banks of vectors whose documents are files, each with the id of its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.files.stored_files import StoredFile
from turnstone.domain.memory.banks import Bank, BankRef, NewBank
from turnstone.domain.memory.documents import (
    Document,
    DocumentChunk,
    DocumentPage,
    DocumentQuery,
    NewDocument,
)
from turnstone.domain.memory.insertions import CHUNK_NAME
from turnstone.domain.memory.questions import BankQuestion, Hit
from turnstone.domain.memory.vector_stores import (
    STORE_PREFIX,
    PagedEntries,
    StoreHit,
    StorePage,
    StoreState,
    file_of,
    paged,
    position_named,
    position_of,
)
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.turns.attempts import Attempt
from turnstone.services.memory.banks import Banks
from turnstone.services.memory.documents.document_records import DocumentRecords
from turnstone.services.memory.documents.documents import Documents
from turnstone.store.memory.banks import StoredBank

if TYPE_CHECKING:  # a list of stores neither searches nor inserts
    from turnstone.services.memory.documents.ingesting import Ingesting
    from turnstone.services.memory.searching import Searching


@dataclass(frozen=True, slots=True)
class VectorStoreDeps:
    """Dependencies of vector stores.

    Attributes:
        files: returns files that the caller may see, in order, or raises NotFound.
        default_model: returns the embedding model of a tenant's stores that name none, None without one.
    """

    banks: Banks
    documents: Documents
    records: DocumentRecords
    ingesting: Callable[[], Ingesting]
    searching: Callable[[], Searching]
    files: Callable[[Caller, Sequence[str]], Sequence[StoredFile]]
    default_model: Callable[[str], str | None]


class VectorStores:
    def __init__(self, deps: VectorStoreDeps) -> None:
        self._deps = deps

    def create(
        self,
        caller: Caller,
        new: NewBank,
        file_ids: Sequence[str],
        provider_data: ProviderData,
        attempt: Attempt,
        *,
        is_waiting: bool = False,
    ) -> StoreState:
        """Create a store, and have the files inserted; return it, or that of an earlier attempt.

        Args:
            is_waiting: as for `Ingesting.add_files`.

        Raises:
            NotFound: no such file; nothing is created.
            InvalidRequest: no embedding model is named, and there is no default.
            IdempotencyMismatch: the request's key was used for another body.
            ModelError: the request for a vector of the model, to measure it, failed.
        """
        self._deps.files(caller, file_ids)
        model = new.model or self._deps.default_model(caller.tenant)
        if model is None:
            problem = "the server has no default embedding model; name one"
            raise InvalidRequest(f"embedding_model: {problem}", ("embedding_model",))
        name = STORE_PREFIX + self._deps.records.ids.order_key(self._deps.records.clock.now(), None)
        stored = self._deps.banks.create(caller, new._replace(bank_id=name, model=model), provider_data, attempt)
        if file_ids:
            news = [NewDocument(file_id, file_id=file_id) for file_id in file_ids]
            self.add_files(caller, stored.bank.bank_id, news, attempt, is_waiting=is_waiting)
        return self._state(caller, stored)

    def get(self, caller: Caller, store_id: str) -> StoreState:
        """Return the store. Raises NotFound."""
        return self._state(caller, self._deps.banks.visible(caller, store_id, "vector"))

    def list(self, caller: Caller, query: PagedEntries) -> StorePage:
        """Return the part of the list. Raises InvalidRequest for a position that no store has or had."""
        stores = self._deps.banks.every(caller, "vector")
        entries = sorted(((position_of(stored.bank), stored) for stored in stores), key=lambda entry: entry[0])
        own = {stored.bank.bank_id: position for position, stored in entries}
        after, before = _position("after", query.after, own), _position("before", query.before, own)
        page, has_more = paged(entries, query, after, before)
        return StorePage(self._states(caller, page), has_more)

    def update(self, caller: Caller, store_id: str, change: Callable[[Bank], Bank]) -> StoreState:
        """Replace name, metadata and expiry; return the store. Raises NotFound, Forbidden."""
        return self._state(caller, self._deps.banks.update(caller, store_id, "vector", change))

    def delete(self, caller: Caller, store_id: str) -> None:
        """Delete the store with its content, but no file. Raises NotFound, Forbidden."""
        self._deps.banks.delete(caller, store_id, "vector")

    def search(
        self, caller: Caller, store_id: str, questions: Sequence[BankQuestion], provider_data: ProviderData
    ) -> tuple[StoreHit, ...]:
        """Return the chunks that answer one of the questions best, each once, the best first.

        Raises:
            NotFound: no such store.
            ModelError: a question could not be embedded.
        """
        stored = self._deps.banks.visible(caller, store_id, "vector")
        best: dict[tuple[str, str], Hit] = {}
        for question in questions:
            for hit in self._deps.searching().search_banks(caller, [stored], question, provider_data):
                name = (hit.chunk.document_id, hit.chunk.chunk_id)
                if name not in best or best[name].score < hit.score:
                    best[name] = hit
        hits = sorted(best.values(), key=lambda hit: (-hit.score, hit.chunk.chunk_id))[: questions[0].max_chunks]
        names = {hit.chunk.document_id for hit in hits if not hit.chunk.document_id.startswith(CHUNK_NAME)}
        found = self._deps.records.found(BankRef(caller.tenant, stored.content_id, store_id), sorted(names))
        filenames = {name: each.document.filename for name, each in found.items()}
        return tuple(
            StoreHit(hit, file_id, filenames.get(file_id) or file_id) for hit in hits for file_id in [file_of(hit)]
        )

    def add_files(
        self, caller: Caller, store_id: str, news: Sequence[NewDocument], attempt: Attempt, *, is_waiting: bool = False
    ) -> tuple[Document, ...]:
        """Have files inserted, each durable when this returns. A file without chunking gets that of the store.

        Args:
            is_waiting: as for `Ingesting.add_files`.

        Raises:
            NotFound: no such store or file; none is inserted.
            IdempotencyMismatch: the request's key was used for another body.
        """
        chunking = self._deps.banks.get(caller, store_id, "vector").chunking
        complete = [new if new.chunking else new._replace(chunking=chunking) for new in news]
        return self._deps.ingesting().add_files(caller, store_id, complete, _of_files(attempt), is_waiting=is_waiting)

    def file(self, caller: Caller, store_id: str, file_id: str) -> Document:
        """Return a file of the store. Raises NotFound."""
        return self._deps.documents.get(caller, store_id, file_id, "vector")

    def files(self, caller: Caller, store_id: str, query: DocumentQuery) -> DocumentPage:
        """Return the part of the store's files. Raises NotFound, InvalidRequest for a position that none has or had."""
        return self._deps.documents.list(caller, store_id, query, "vector")

    def set_attributes(self, caller: Caller, store_id: str, file_id: str, attributes: Mapping[str, Any]) -> Document:
        """Replace the attributes, in the filters of every search when this returns. Raises NotFound."""
        return self._deps.documents.set_attributes(caller, store_id, file_id, attributes, "vector")

    def remove_file(self, caller: Caller, store_id: str, file_id: str) -> None:
        """Remove a file from the store, but not the file itself. Raises NotFound."""
        self._deps.documents.drop(caller, store_id, file_id, "vector")

    def content(self, caller: Caller, store_id: str, file_id: str) -> tuple[Document, tuple[DocumentChunk, ...]]:
        """Return a file with its chunks, none before it is completed. Raises NotFound, ContentLost."""
        document = self.file(caller, store_id, file_id)
        return document, self._deps.documents.chunks(caller, store_id, file_id, "vector")

    def _state(self, caller: Caller, stored: StoredBank) -> StoreState:
        (state,) = self._states(caller, [stored])
        return state

    def _states(self, caller: Caller, stored: Sequence[StoredBank]) -> tuple[StoreState, ...]:
        refs = [BankRef(caller.tenant, each.content_id, each.bank.bank_id) for each in stored]
        counts = self._deps.records.store.counts(refs)
        return tuple(
            StoreState(each.bank, of_bank, each.used_at, each.ends_at)
            for each, of_bank in zip(stored, counts, strict=True)
        )


def _position(name: str, store_id: str | None, own: Mapping[str, tuple[int, str]]) -> tuple[int, str] | None:
    """Return the position of a store in the list, also of one that is gone. Raises InvalidRequest."""
    if store_id is None:
        return None
    position = own.get(store_id) or position_named(store_id)
    if position is None:
        raise InvalidRequest(f"{name}: there is no vector store {store_id!r}", ("query", name))
    return position


def _of_files(attempt: Attempt) -> Attempt:
    """Return the identity of the insertions of a request that stores something else, too, under its key."""
    return attempt if attempt.key is None else attempt.model_copy(update={"key": f"{attempt.key}-files"})
