"""Content of memory banks: documents as chunks, values and edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from pydantic_core import to_json

from turnstone.domain.memory.banks import Chunking
from turnstone.domain.values.frozen import Frozen

PLAIN_TEXT = "text/plain"


class DocumentChunk(NamedTuple):
    """A part of a document, found as a whole.

    Attributes:
        position: the index among the chunks of the document, from 0.
        tokens: the number of tokens of the text.
        metadata: of the chunk alone; its document's attributes are not repeated in it.
        vector: of the bank's dimension; None in a bank without vectors.
    """

    document_id: str
    position: int
    text: str
    tokens: int
    metadata: Mapping[str, Any]
    vector: Sequence[float] | None = None

    @property
    def chunk_id(self) -> str:
        """The id: a hash of document, position and text, so the same content has the same id everywhere."""
        named = f"{self.document_id}\x00{self.position}\x00{self.text}"
        return sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]


DocumentStatus = Literal["in_progress", "completed", "failed", "cancelled"]


class DocumentProblem(Frozen):
    """The reason for which a document was not ingested: a code for programs, a message for people."""

    code: str
    message: str


class IngestProgress(Frozen):
    """The progress of an insertion by a job.

    Attributes:
        tries: runs of the job since it last got on.
        chunks: the number of chunks that will be found; None until the text is read.
        embedded: of those, the chunks whose vectors are stored.
    """

    tries: int = 0
    chunks: int | None = None
    embedded: int = 0


class Document(Frozen):
    """A document of a bank. Searches find all chunks of its newest completed insertion, and no others.

    Attributes:
        status: of the newest insertion.
        attributes: values for filters, changeable later.
        chunks: the number of those found.
        size_bytes: of the document as it was sent.
        created_at: the time of its first insertion.
        last_error: of the newest insertion, if that failed, or of its last try while it is in progress.
        chunking: chosen for this document; None for its bank's.
        file_id: the uploaded file that it was made of, if any.
        filename: the name of that file.
        insertion_id: of the newest insertion.
        digest: a hash of the chunks found, empty without any.
        found_id: the insertion that the chunks found are of, empty without any.
        next_attributes: those that replace `attributes` with the chunks, when the insertion is completed; None for the
            same.
        source_version: the version of the object that the file is a copy of, empty for none.
        progress: of an insertion by a job; None before it runs, and after its end.
        ended_at: the end of the newest insertion, of a document of a source; None before, and in other banks.
    """

    document_id: str
    status: DocumentStatus
    attributes: Mapping[str, Any] = {}
    mime_type: str = PLAIN_TEXT
    chunks: int = 0
    size_bytes: int = 0
    created_at: datetime
    last_error: DocumentProblem | None = None
    chunking: Chunking | None = None
    file_id: str | None = None
    insertion_id: str
    digest: str = ""
    found_id: str = ""
    next_attributes: Mapping[str, Any] | None = None
    source_version: str = ""
    filename: str | None = None
    progress: IngestProgress | None = None
    ended_at: datetime | None = None


class NewDocument(NamedTuple):
    """A document to insert; its fields are those of `Document`."""

    document_id: str
    attributes: Mapping[str, Any] = MappingProxyType({})
    mime_type: str = PLAIN_TEXT
    size_bytes: int = 0
    chunking: Chunking | None = None
    file_id: str | None = None
    source_version: str = ""
    filename: str | None = None


class TextDocument(NamedTuple):
    """A document to insert with its text.

    Attributes:
        address: a URL where the text is, which then replaces `text`; None for none.
        has_headings: whether lines of the text that begin with `#` are headings, whatever the type of the document.
    """

    new: NewDocument
    text: str
    address: str | None = None
    has_headings: bool = False


class GivenDocument(NamedTuple):
    """A document of a request, with its index there, and a hash of its text."""

    number: int
    given: TextDocument
    digest: str

    @property
    def location(self) -> tuple[str | int, ...]:
        """The field of the request that holds the text."""
        return ("documents", self.number, "content")


class SourceBody(NamedTuple):
    """The content at an address. The charset has a name that Python accepts; None without one."""

    body: bytes
    mime_type: str
    charset: str | None = None


class DocumentPage(NamedTuple):
    """Some documents in the requested order, and whether more follow, or precede a part before a document."""

    documents: tuple[Document, ...]
    has_more: bool


class DocumentQuery(NamedTuple):
    """The requested part of a bank's documents, in the order of their first insertion.

    Attributes:
        after: the document to continue after, removed a day ago at most.
        before: the document to end before. Without `after`, the part has the documents directly before it.
        status: only documents of that one.
    """

    limit: int
    after: str | None = None
    is_newest_first: bool = False
    status: DocumentStatus | None = None
    before: str | None = None


def digest_of(chunks: Sequence[DocumentChunk]) -> str:
    """Return a hash of the chunks' texts, positions and metadata."""
    content = [(chunk.chunk_id, dict(chunk.metadata)) for chunk in chunks]
    return sha256(to_json(content)).hexdigest() if content else ""


class Edge(NamedTuple):
    """A statement in a graph bank; `text` replaces the sentence composed of the three names."""

    subject: str
    relation: str
    object: str
    text: str | None = None
