"""Documents for retrieval, on the Llama Stack wire.

Source: the types of `llama-stack-client` 0.2.12 to 0.3.5; of requests, unknown fields are ignored, nulls stand for the
default.
"""

from turnstone.dialects.llama_stack.memory.documents import MemoryDocument
from turnstone.dialects.llama_stack.memory.memory_banks import CHUNK_TOKENS, ChunkTokens, chunking_of
from turnstone.domain.memory.documents import TextDocument
from turnstone.domain.values.frozen import Many, NullMeansDefault


class InsertRagDocuments(NullMeansDefault):
    vector_db_id: str
    documents: Many[MemoryDocument]
    chunk_size_in_tokens: ChunkTokens = CHUNK_TOKENS

    def to_texts(self) -> list[TextDocument]:
        """Return the documents, in chunks that overlap by a quarter. Raises Unsupported for an image."""
        chunking = chunking_of(self.chunk_size_in_tokens)
        return [document.to_text(number, chunking) for number, document in enumerate(self.documents)]
