"""Documents inserted and queried for retrieval: the query, its settings, and the answer for a model.

Covers: functions/memory, dialects/llama_stack/memory/rag, services/memory/turns/rag_queries
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Answer, text_answer
from tests.fakes.models.openai_server import ModelServer
from tests.support.server.asgi_client import Answered, Served, served
from turnstone.domain.memory.texts.chunking import count_tokens

TERNS, KNOTS, FINCHES = "Terns dive for fish.", "Knots probe the mud.", "Finches crack seeds."
SHORE = {"terns": TERNS, "knots": KNOTS}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as serving:
        yield serving


def filled(server: Served, bank: str = "shore", texts: Any = SHORE, kind: str = "vector") -> None:
    params = {"memory_bank_type": kind, **({"embedding_model": "offline"} if kind == "vector" else {})}
    assert server.client.post("/v1/memory-banks", {"memory_bank_id": bank, "params": params}).status == 200
    documents = [{"document_id": name, "content": text, "metadata": {"page": 1}} for name, text in texts.items()]
    body = {"vector_db_id": bank, "documents": documents, "chunk_size_in_tokens": 64}
    if kind in ("vector", "keyword"):
        assert server.client.post("/v1/tool-runtime/rag-tool/insert", body).json() is None


def queried(server: Served, content: Any, *banks: str, **config: Any) -> Answered:
    body = {"content": content, "vector_db_ids": banks or ["shore"], "query_config": config or None}
    return server.client.post("/v1/tool-runtime/rag-tool/query", body)


def text_in(answer: Answered) -> str:
    assert answer.status == 200, answer.body
    return "".join(part["text"] for part in answer.json()["content"])


def test_results_come_between_header_and_footer_with_their_documents_chunks_and_scores(server: Served) -> None:
    filled(server)
    answer = queried(
        server, [{"type": "text", "text": "Which birds"}, {"type": "text", "text": "probe the mud for fish?"}]
    )
    header, best, other, footer = (part["text"] for part in answer.json()["content"])
    assert "2 results" in header
    assert best == f'Result 1\nContent: {KNOTS}\nMetadata: {{"document_id":"knots","page":1}}\n'
    assert other.startswith(f"Result 2\nContent: {TERNS}\n")
    assert "Which birds" in footer
    metadata = answer.json()["metadata"]
    assert (metadata["document_ids"], metadata["chunks"]) == (["knots", "terns"], [KNOTS, TERNS])
    assert metadata["scores"] == sorted(metadata["scores"], reverse=True)
    assert set(metadata) == {"document_ids", "chunks", "scores"}


def test_without_a_result_there_is_no_content(server: Served) -> None:
    filled(server)
    nothing = {"content": None, "metadata": {"document_ids": [], "chunks": [], "scores": []}}
    assert queried(server, "granite", mode="keyword").json() == nothing
    body = {"content": "mud", "vector_db_ids": []}
    assert server.client.post("/v1/tool-runtime/rag-tool/query", body).json() == nothing


@pytest.mark.parametrize("limit", [70, 71, 72, 100])
def test_an_answer_has_no_more_tokens_than_its_limit(server: Served, limit: int) -> None:
    filled(server, texts={f"bay-{number}": f"Terns breed in bay {number}." for number in range(20)})
    answer = queried(server, "terns", max_tokens_in_context=limit, max_chunks=20, mode="keyword")
    shown = text_in(answer)
    assert count_tokens(shown) <= limit
    assert 0 < shown.count("Result ") == len(answer.json()["metadata"]["chunks"]) < 20


def test_template_mode_ranker_and_number_of_chunks_are_of_the_request(server: Served) -> None:
    filled(server)
    template = "<{index}> {chunk.content} {other} {metadata.page} {chunk.content.__class__}"
    answer = queried(
        server,
        "Knots, and terns: which probe mud?",
        chunk_template=template,
        max_chunks=1,
        mode="keyword",
        ranker={"type": "rrf", "impact_factor": 10},
        query_generator_config={"type": "default", "separator": "\n"},
    )
    assert answer.json()["content"][1]["text"] == f"<1> {KNOTS} {{other}} {{metadata.page}} {{chunk.content.__class__}}"
    by_keyword = [queried(server, "probe mud", mode="hybrid", ranker={"type": "weighted", "alpha": 0})]
    by_keyword.append(queried(server, "probe mud", mode="keyword"))
    assert [each.json()["metadata"]["document_ids"][0] for each in by_keyword] == ["knots", "knots"]
    by_vector = queried(server, "probe mud", mode="vector").json()["metadata"]
    assert by_vector["document_ids"] == ["knots"]
    assert by_vector["scores"] != by_keyword[1].json()["metadata"]["scores"]


def test_several_banks_are_searched_as_one(server: Served) -> None:
    filled(server)
    filled(server, "land", {"finches": FINCHES, "mud": "Mud, mud, mud."}, "keyword")
    answer = queried(server, "finches crack seeds in mud", "shore", "land", "shore", max_chunks=3, mode="keyword")
    assert answer.json()["metadata"]["document_ids"] == ["finches", "mud", "knots"]
    assert queried(server, "seeds", "land").json()["metadata"]["document_ids"] == ["finches"]
    refused = queried(server, "seeds", "shore", "land", mode="vector")
    assert refused.status == 400
    assert "'land' has no vectors" in refused.refusal()


@pytest.mark.parametrize("kind", ["keyvalue", "graph"])
def test_a_bank_that_is_not_searched_or_missing_is_not_found(server: Served, kind: str) -> None:
    filled(server)
    filled(server, "other", kind=kind)
    for bank in ("other", "nowhere"):
        refused = queried(server, "mud", "shore", bank)
        assert (refused.status, refused.json()["code"]) == (404, "bank_not_found")
        assert repr(bank) in refused.refusal()


def test_a_model_writes_the_query(tmp_path: Path) -> None:
    prompts: list[str] = []

    def answer(request: Any) -> Answer:
        prompts.append(request["messages"][-1]["content"])
        return text_answer("knots probe")

    with ModelServer(answer) as model, served(tmp_path, model_url=model.url) as serving:
        filled(serving, kind="keyword")
        generator = {
            "type": "llm",
            "model": "writer",
            "template": "Keywords of {{ question }}{% for m in messages %}!{% endfor %}",
        }
        found = queried(serving, "Who eats worms?", query_generator_config=generator)
        assert found.json()["metadata"]["chunks"] == [KNOTS]
        assert "Who eats worms?" in text_in(found)
    assert prompts == ["Keywords of Who eats worms?!"]


LOOPS = "{% for a in messages %}" * 2 + "x" + "{% endfor %}" * 2


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"max_chunks": 0}, "max_chunks"),
        ({"max_chunks": 1_001}, "max_chunks"),
        ({"max_tokens_in_context": 0}, "max_tokens_in_context"),
        ({"chunk_template": "{index}"}, "chunk_template"),
        ({"chunk_template": "{chunk.content}" * 1_000}, "chunk_template"),
        ({"mode": "guess"}, "mode"),
        ({"ranker": {"type": "weighted", "alpha": 2}}, "alpha"),
        ({"ranker": {"type": "best"}}, "ranker"),
        ({"query_generator_config": {"type": "llm", "model": "offline"}}, "template"),
        ({"query_generator_config": {"type": "llm", "model": "offline", "template": "{% x %}"}}, "template"),
        ({"query_generator_config": {"type": "llm", "model": "offline", "template": LOOPS * 10_000}}, "template"),
        ({"query_generator_config": {"type": "llm", "model": "offline", "template": "{{ ''.__class__ }}"}}, "template"),
        ({"query_generator_config": {"type": "custom"}}, "query_generator_config"),
    ],
)
def test_wrong_settings_are_refused_by_name(server: Served, config: Any, field: str) -> None:
    filled(server)
    started = perf_counter()
    refused = queried(server, "mud", **config)
    assert refused.status == 400
    assert field in refused.refusal()
    assert perf_counter() - started < 1.0


def test_a_template_that_makes_too_much_of_a_question_is_refused(server: Served) -> None:
    filled(server)
    loops = "{% for m in messages %}" + "{{ question }}" * 100 + "{% endfor %}"
    generator = {"type": "llm", "model": "offline", "template": loops}
    assert queried(server, "mud", query_generator_config=generator).status == 200
    refused = queried(server, "mud " * 500, query_generator_config=generator)
    assert refused.status == 400
    assert "query_generator_config.template" in refused.refusal()


def test_a_question_without_text_is_refused(server: Served) -> None:
    filled(server)
    for content in ("", "  \n", [], [{"type": "image", "image": {"url": {"uri": "http://a/b.png"}}}]):
        refused = queried(server, content)
        assert refused.status == 400
        assert "content" in refused.refusal()
