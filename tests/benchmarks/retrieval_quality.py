"""Quality and processor time of searches with the embedding models of the server that are on this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.figures import Figure
from tests.support.needs import EMBEDDINGS
from tests.support.retrieval.collections import LANGUAGES, faq, manual
from tests.support.retrieval.plain_bm25 import plain_bm25
from tests.support.retrieval.quality import candidates, even, ndcg, odd
from turnstone.adapters.embedding.files import present_models
from turnstone.adapters.embedding.static import StaticEmbeddings
from turnstone.domain.memory.banks import Chunking
from turnstone.domain.memory.chunking import chunks_of
from turnstone.domain.models.requests import EmbeddingRequest

BARS = {("static", "en"): 0.57, ("static", "sv"): 0.51, ("minilm", "en"): 0.70}
MOST_MS = 0.6
ROUNDS = 5


def retrieval_quality(_: Path) -> Iterator[Figure]:
    """Yield nDCG@10 of the public set and of long documents, and the time for embedding a chunk."""
    for model in sorted(present_models(EMBEDDINGS), reverse=True):
        for language in LANGUAGES:
            found = candidates(faq(language), model)
            halves = ", ".join(f"{mode} {ndcg(even(found), model, mode):.3f}" for mode in ("keyword", "vector"))
            others = f"odd {ndcg(odd(found), model):.3f}, all {ndcg(found, model):.3f}"
            bar = BARS.get((model, language))
            name = f"nDCG@10, {language}, {model}, even questions"
            yield Figure(name, ndcg(even(found), model), "", bar, "be at least", note=f"{halves}; {others}")
    if "static" in present_models(EMBEDDINGS):
        documents = manual()
        found = candidates(documents, "static")
        of_documents, of_chunks = plain_bm25(documents)
        keyword = ndcg(found, "static", "keyword")
        note = f"plain BM25 {of_documents:.3f}, of chunks {of_chunks:.3f}; keyword {keyword:.3f}"
        bar = max(of_documents, of_chunks, keyword)
        name = f"nDCG@10, {len(documents.documents)} long documents, static"
        yield Figure(name, ndcg(found, "static"), "", bar, "be at least", note=note)
        yield _time_of_a_chunk(documents.documents)


def _time_of_a_chunk(documents: tuple[str, ...]) -> Figure:
    """Return the processor time for a chunk of 512 tokens, whose words were embedded before."""
    static = StaticEmbeddings(EMBEDDINGS)
    cuts = [cut for document in documents[:40] for cut in chunks_of(document, Chunking()) if cut.tokens > 400]
    request = EmbeddingRequest("static", tuple(cut.text for cut in cuts))
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        static.embed(request)
        times.append((time.process_time() - began) / len(cuts))
    name = "embedding of a chunk, static, processor time"
    return Figure(
        name, min(times) * 1_000, "ms", MOST_MS, note=f"{len(cuts)} chunks; first time {times[0] * 1_000:.2f}"
    )
