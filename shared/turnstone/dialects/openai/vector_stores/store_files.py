"""Files of vector stores, and batches of them, on OpenAI's wire.

Source: the types of `openai` 3.54.0, and of `llama-stack-client` 0.2.12 to 0.3.5. The content of a file has the fields
of both: `data` of a page, and `content` beside the file.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import to_json

from turnstone.dialects.json_objects import after_entries, before_entries
from turnstone.dialects.openai.pages import HAS_MORE, OF_LIST
from turnstone.dialects.openai.strict import StrictRequest
from turnstone.dialects.openai.vector_stores.chunking import (
    Attributes,
    ChunkingStrategy,
    UnknownChunking,
    UsedChunking,
    chunking_in,
    used_chunking,
)
from turnstone.dialects.openai.vector_stores.entries import end_ids
from turnstone.dialects.openai.vector_stores.stores import StoreFileCounts
from turnstone.domain.memory.documents import Document, DocumentChunk, DocumentPage, DocumentStatus, NewDocument
from turnstone.domain.memory.vector_stores import MOST_IN_BATCH, FileBatch, FileCounts, batch_status
from turnstone.domain.values.frozen import Frozen, Many


class AddStoreFile(StrictRequest):
    """A file to insert."""

    file_id: str
    attributes: Attributes = {}
    chunking_strategy: ChunkingStrategy | None = None

    def to_document(self) -> NewDocument:
        """Return the document to insert."""
        chunking = chunking_in(self.chunking_strategy)
        return NewDocument(self.file_id, self.attributes, chunking=chunking, file_id=self.file_id)


class AddFileBatch(StrictRequest):
    """Files to insert: ids with settings for all of them, or `files` with their own."""

    file_ids: Annotated[Many[str], Field(min_length=1, max_length=MOST_IN_BATCH)] | None = None
    files: Annotated[Many[AddStoreFile], Field(min_length=1, max_length=MOST_IN_BATCH)] | None = None
    attributes: Attributes | None = None
    chunking_strategy: ChunkingStrategy | None = None

    @model_validator(mode="after")
    def one_form(self) -> Self:
        if (self.file_ids is None) == (self.files is None):
            raise ValueError("file_ids or files: send one of them")
        if self.files is not None and (self.attributes is not None or self.chunking_strategy is not None):
            raise ValueError("attributes and chunking_strategy belong to file_ids; with files, each file has its own")
        return self

    def to_documents(self) -> list[NewDocument]:
        """Return the documents to insert."""
        if self.files is not None:
            return [file.to_document() for file in self.files]
        attributes, chunking = self.attributes or {}, chunking_in(self.chunking_strategy)
        return [NewDocument(file_id, attributes, chunking=chunking, file_id=file_id) for file_id in self.file_ids or ()]


class UpdateStoreFile(Frozen):
    """Attributes that replace those of a file; null for none."""

    model_config = ConfigDict(extra="forbid")

    attributes: Attributes | None


class StoreFileError(Frozen):
    code: str
    message: str


class StoreFile(Frozen):
    """A file of a vector store."""

    id: str
    object: Literal["vector_store.file"] = "vector_store.file"
    created_at: int
    vector_store_id: str
    status: DocumentStatus
    usage_bytes: int
    attributes: dict[str, Any]
    chunking_strategy: UsedChunking | UnknownChunking
    last_error: StoreFileError | None

    @classmethod
    def of(cls, store_id: str, document: Document) -> Self:
        error = document.last_error
        next_attributes = document.next_attributes
        return cls(
            id=document.document_id,
            created_at=int(document.created_at.timestamp()),
            vector_store_id=store_id,
            status=document.status,
            usage_bytes=document.size_bytes if document.chunks else 0,
            attributes=dict(document.attributes if next_attributes is None else next_attributes),
            chunking_strategy=used_chunking(document.chunking),
            last_error=None if error is None else StoreFileError(code=error.code, message=error.message),
        )


class StoreFileList(Frozen):
    """A part of the list of a vector store's files."""

    object: OF_LIST = "list"
    data: tuple[StoreFile, ...]
    first_id: str
    last_id: str
    has_more: HAS_MORE

    @classmethod
    def of(cls, store_id: str, page: DocumentPage) -> Self:
        data = tuple(StoreFile.of(store_id, document) for document in page.documents)
        return cls(data=data, has_more=page.has_more, **end_ids(data))


class StoreFileDeleted(Frozen):
    """The file is no longer in the vector store."""

    id: str
    object: Literal["vector_store.file.deleted"] = "vector_store.file.deleted"
    deleted: Literal[True] = True


class StoreText(Frozen):
    type: Literal["text"] = "text"
    text: str


class StoreFileContent(Frozen):
    """The text of a file, in the chunks that searches find."""

    object: Literal["vector_store.file_content.page"] = "vector_store.file_content.page"
    file_id: str
    filename: str
    attributes: dict[str, Any]
    data: tuple[StoreText, ...]
    content: tuple[StoreText, ...]
    has_more: Literal[False] = False
    next_page: None = None


class FileBatchObject(Frozen):
    """Files added by one request."""

    id: str
    object: Literal["vector_store.files_batch"] = "vector_store.files_batch"
    created_at: int
    vector_store_id: str
    status: DocumentStatus
    file_counts: StoreFileCounts

    @classmethod
    def of(cls, store_id: str, batch: FileBatch, counts: FileCounts) -> Self:
        return cls(
            id=batch.batch_id,
            created_at=int(batch.created_at.timestamp()),
            vector_store_id=store_id,
            status=batch_status(counts),
            file_counts=StoreFileCounts.of(counts),
        )


def content_wire(document: Document, chunks: Iterable[DocumentChunk]) -> Iterator[bytes]:
    """Yield the JSON of a `StoreFileContent`, a chunk at a time."""
    texts = tuple(chunks)
    head = {
        "object": "vector_store.file_content.page",
        "file_id": document.document_id,
        "filename": document.filename or document.document_id,
        "attributes": document.attributes,
    }
    yield before_entries(head, "data")
    yield from _texts(texts)
    yield b'],"content":['
    yield from _texts(texts)
    yield after_entries({"has_more": False, "next_page": None})


def _texts(chunks: Iterable[DocumentChunk]) -> Iterator[bytes]:
    comma = b""
    for chunk in chunks:
        yield comma + to_json({"type": "text", "text": chunk.text})
        comma = b","
