"""Documents of memory banks on the Llama Stack wire.

Source: the types of `llama-stack-client` 0.0.63, 0.1.0 and 0.2.12, where a document has an id, a content, a type and
metadata; lists and single documents are routes of our own. Of requests, unknown fields are ignored.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from turnstone.dialects.llama_stack.memory.identifiers import DocumentId
from turnstone.dialects.llama_stack.requests import only
from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.domain.memory.banks import Chunking
from turnstone.domain.memory.documents import (
    PLAIN_TEXT,
    Document,
    DocumentPage,
    DocumentQuery,
    DocumentStatus,
    NewDocument,
    TextDocument,
)
from turnstone.domain.memory.insertions import CHUNK_NAME
from turnstone.domain.memory.questions import Hit
from turnstone.domain.memory.texts.extraction import address_in, address_of, is_binary
from turnstone.domain.values.content import Content, ImageItem, Url, items_of, text_of
from turnstone.domain.values.frozen import Frozen, JsonObject, Many, NullMeansDefault

MOST_INSERTED = 1_000  # each is a write of its own; so many of the slowest kind take a few seconds (measured)
MOST_LISTED = 100
LISTED = 20
STATUSES: tuple[str, ...] = get_args(DocumentStatus)
ORDERS = ("asc", "desc")
QUERY: dict[str, dict[str, Any]] = {
    "limit": {
        "description": f"How many documents at most, up to {MOST_LISTED}.",
        "schema": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": MOST_LISTED}, {"const": ""}]},
    },
    "after": {"description": "The id of the document to continue after.", "schema": {"type": "string"}},
    "order": {
        "description": "`asc` for the order of first insertion, `desc` for the newest first.",
        "schema": {"enum": [*ORDERS, ""]},
    },
    "status": {"description": "Only documents of this status.", "schema": {"enum": [*STATUSES, ""]}},
}


class MemoryDocument(NullMeansDefault):
    document_id: DocumentId
    content: Content | Url
    mime_type: Annotated[str, Field(max_length=255)] = ""
    metadata: JsonObject = {}

    def to_text(self, number: int, chunking: Chunking | None = None, *, takes_addresses: bool = False) -> TextDocument:
        """Return the document. Raises Unsupported for an image.

        Args:
            takes_addresses: whether a text that is an address and nothing else stands for the document there.
        """
        address = None
        if isinstance(self.content, Url):
            address = self.content.uri
        elif takes_addresses and isinstance(self.content, str):
            address = address_in(self.content)
        mime_type = self.mime_type or (PLAIN_TEXT if address is None else "")
        new = NewDocument(self.document_id, self.metadata, mime_type, chunking=chunking)
        if address is not None or isinstance(self.content, Url):
            return TextDocument(new, "", address)
        if any(isinstance(item, ImageItem) for item in items_of(self.content)):
            location = ("documents", number, "content")
            raise Unsupported(f"documents.{number}.content: memory banks hold texts only; leave images out", location)
        text = text_of(self.content)
        if is_binary(mime_type):
            return TextDocument(new, "", address_of(text, mime_type))
        return TextDocument(new, text)


InsertedDocuments = Annotated[Many[MemoryDocument], Field(max_length=MOST_INSERTED)]


class InsertDocuments(NullMeansDefault):
    documents: InsertedDocuments
    ttl_seconds: int | None = None

    def to_texts(self) -> list[TextDocument]:
        """Return the documents. Raises Unsupported for a time to live, or an image."""
        if self.ttl_seconds is not None:
            problem = "documents have no time to live on this server; leave it out"
            raise Unsupported(f"ttl_seconds: {problem}", ("ttl_seconds",))
        return [document.to_text(number) for number, document in enumerate(self.documents)]


class DocumentError(Frozen):
    code: str
    message: str


class DocumentProgress(Frozen):
    chunks: int | None = None
    embedded: int


class BankDocument(Frozen):
    document_id: str
    status: DocumentStatus
    mime_type: str
    metadata: dict[str, Any]
    chunks: int
    size_bytes: int
    created_at: datetime
    last_error: DocumentError | None = None
    file_id: str | None = None
    progress: DocumentProgress | None = None


class BankDocumentList(Frozen):
    data: tuple[BankDocument, ...]
    has_more: bool
    object: Literal["list"] = "list"


def document_of(document: Document) -> BankDocument:
    """Return a document for its bank's readers."""
    error, progress = document.last_error, document.progress
    return BankDocument(
        document_id=document.document_id,
        status=document.status,
        mime_type=document.mime_type,
        metadata=dict(document.attributes),
        chunks=document.chunks,
        size_bytes=document.size_bytes,
        created_at=document.created_at,
        last_error=None if error is None else DocumentError(code=error.code, message=error.message),
        file_id=document.file_id,
        progress=None if progress is None else DocumentProgress(chunks=progress.chunks, embedded=progress.embedded),
    )


def document_list(page: DocumentPage) -> BankDocumentList:
    """Return a part of a bank's documents."""
    return BankDocumentList(data=tuple(map(document_of, page.documents)), has_more=page.has_more)


def documents_in_query(query: Mapping[str, Sequence[str]]) -> DocumentQuery:
    """Return the requested part of a bank's documents. Raises InvalidRequest."""
    limit, order, status = (only(query, name) for name in ("limit", "order", "status"))
    count = (limit or "").removesuffix(".0")
    if limit and not (count.isascii() and count.isdecimal() and len(count) <= 9 and 1 <= int(count) <= MOST_LISTED):
        raise InvalidRequest(f"limit: must be a whole number from 1 to {MOST_LISTED}", ("query", "limit"))
    for name, value, accepted in (("order", order, ORDERS), ("status", status, STATUSES)):
        if value and value not in accepted:
            raise InvalidRequest(f"{name}: must be one of {', '.join(accepted)}", ("query", name))
    return DocumentQuery(
        int(count) if limit else LISTED,
        only(query, "after") or None,
        order == "desc",
        status or None,  # type: ignore[arg-type] # one of them
    )


def metadata_of(hit: Hit) -> dict[str, Any]:
    """Return the metadata of a found chunk: its own, and its document's id and metadata if it was inserted with one."""
    if hit.chunk.document_id.startswith(CHUNK_NAME):
        return dict(hit.chunk.metadata)
    return {"document_id": hit.chunk.document_id, **hit.chunk.metadata, **hit.attributes}


def document_named_by(hit: Hit) -> str:
    """Return the id of the document of a found chunk, empty without one."""
    if not hit.chunk.document_id.startswith(CHUNK_NAME):
        return hit.chunk.document_id
    named = hit.chunk.metadata.get("document_id")
    return named if isinstance(named, str) else ""
