"""Insertion and queries for retrieval, on the Llama Stack wire.

Source: the types of `llama-stack-client` 0.2.12 to 0.3.5; of requests, unknown fields are ignored, nulls stand for the
default.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from turnstone.dialects.llama_stack.memory.documents import InsertedDocuments
from turnstone.dialects.llama_stack.memory.memory_banks import CHUNK_TOKENS, ChunkTokens, chunking_of
from turnstone.dialects.llama_stack.memory.vector_io import SearchedContent, question_in
from turnstone.domain.memory.documents import TextDocument
from turnstone.domain.tools.rag_settings import RagSettings
from turnstone.domain.values.content import Content
from turnstone.domain.values.frozen import Frozen, Many, NullMeansDefault

MOST_BANKS = 64


class InsertRagDocuments(NullMeansDefault):
    vector_db_id: str
    documents: InsertedDocuments
    chunk_size_in_tokens: ChunkTokens = CHUNK_TOKENS

    def to_texts(self) -> list[TextDocument]:
        """Return the documents, in chunks that overlap by a quarter. Raises Unsupported for an image."""
        chunking = chunking_of(self.chunk_size_in_tokens)
        documents = enumerate(self.documents)
        return [document.to_text(number, chunking, takes_addresses=True) for number, document in documents]


class QueryRag(NullMeansDefault):
    content: SearchedContent
    vector_db_ids: Annotated[Many[str], Field(max_length=MOST_BANKS)]
    query_config: RagSettings = RagSettings.model_construct()

    def text(self) -> str:
        """Return the text of the question. Raises Unsupported for an image, InvalidRequest without a text."""
        return question_in(self.content, ("content",))


class RagResult(Frozen):
    content: Content | None = None
    metadata: dict[str, Any]


def rag_result(content: Content, metadata: Mapping[str, Any] | None) -> RagResult:
    """Return the answer, without content if nothing was found."""
    found = dict(metadata or {})
    return RagResult(content=content if found.get("chunks") else None, metadata=found)
