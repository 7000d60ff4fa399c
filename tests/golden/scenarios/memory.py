"""Vector databases and memory banks: registered, filled until their log is folded, searched and deleted."""

from __future__ import annotations

import json
from typing import Any

from tests.golden.scenarios.registry import scenario
from tests.golden.world import World

FACTS = ("Herons nest in colonies.", "Granite is an igneous rock.", "Turnstones turn stones.")


@scenario("tests/contract/memory/test_vector_dbs.py", "tests/integration/memory/test_banks.py")
def of_vector_databases(world: World) -> None:
    world.serve()
    body = {"vector_db_id": "birds", "embedding_model": "offline", "embedding_dimension": 384}
    for _ in range(2):
        world.post("/v1/vector-dbs", body)
    world.send("POST", "/v1/vector-dbs", {**body, "provider_id": "elsewhere"})
    world.get("/v1/vector-dbs")
    world.get("/v1/vector-dbs/birds")
    chunks = [{"content": text, "metadata": {"document_id": f"d{number}"}} for number, text in enumerate(FACTS)]
    world.post("/v1/vector-io/insert", {"vector_db_id": "birds", "chunks": chunks})
    query = {"vector_db_id": "birds", "query": "Where do herons nest?", "params": {"max_chunks": 1, "mode": "keyword"}}
    world.post("/v1/vector-io/query", query)
    many = [{"content": f"stone {number}", "metadata": {}} for number in range(70)]
    world.post("/v1/vector-io/insert", {"vector_db_id": "birds", "chunks": many})
    world.post("/v1/vector-io/query", query)
    world.send("POST", "/v1/vector-io/insert", {"vector_db_id": "unknown", "chunks": chunks})
    world.send("POST", "/v1/vector-io/insert", {"vector_db_id": "birds", "chunks": chunks, "ttl_seconds": 1})
    world.pass_time(180)
    world.work()
    world.send("DELETE", "/v1/vector-dbs/birds")
    world.send("POST", "/v1/vector-io/query", query)
    world.pass_time(180)
    world.work()


@scenario("tests/contract/memory/test_memory_banks.py", "tests/integration/memory/test_kinds.py")
def of_memory_banks(world: World) -> None:
    world.serve()
    edges = [{"subject": "Tern", "relation": "eats", "object": name} for name in ("shrimp", "fish")]
    contents = {"vector": FACTS[0], "keyword": FACTS[1], "keyvalue": "grey", "graph": json.dumps(edges)}
    queries: dict[str, dict[str, Any]] = {
        "vector": {"query": "Where do herons nest?", "params": {"mode": "keyword"}},
        "keyword": {"query": "igneous", "params": {"filters": {"type": "eq", "key": "page", "value": 1}}},
        "keyvalue": {"query": "its colour", "params": {"keys": ["size", "colour"]}},
        "graph": {"query": "What does a tern eat?", "params": {"depth": 1, "max_tokens": 4}},
    }
    question = {"vector_db_ids": ["keyword", "vector"], "content": "Where do herons nest?"}
    for kind, content in contents.items():
        params = {"memory_bank_type": kind, **({"embedding_model": "offline"} if kind == "vector" else {})}
        world.post("/v1/memory-banks", {"memory_bank_id": kind, "params": params, "expires_after_s": 3600})
        document = {"document_id": "colour", "content": content, "metadata": {"page": 1}}
        for _ in range(2):
            world.post(f"/v1/memory-banks/{kind}/documents", {"documents": [document]})
        world.post(f"/v1/memory-banks/{kind}/query", queries[kind])
    world.post("/v1/tool-runtime/rag-tool/query", question)
    narrow = {"query_generator_config": {"type": "default", "separator": " "}, "max_tokens_in_context": 60}
    world.post("/v1/tool-runtime/rag-tool/query", {**question, "query_config": {**narrow, "mode": "keyword"}})
    world.send("POST", "/v1/tool-runtime/rag-tool/query", {**question, "vector_db_ids": ["graph"]})
    world.get("/v1/memory-banks")
    world.get("/v1/memory-banks/graph")
    world.get("/v1/memory-banks/graph/documents?limit=1")
    world.get("/v1/memory-banks/graph/documents/colour")
    world.send("POST", "/v1/memory-banks/graph/query", queries["keyvalue"])
    world.send("POST", "/v1/memory-banks/graph/documents", {"documents": [{"document_id": "a", "content": "text"}]})
    world.send("DELETE", "/v1/memory-banks/graph/documents/colour")
    world.send("GET", "/v1/memory-banks/graph/documents/colour")
    world.pass_time(180)
    world.work()
    world.send("DELETE", "/v1/memory-banks/graph")
    world.pass_time(3600)
    world.work()
    world.get("/v1/memory-banks")


@scenario("tests/contract/memory/test_memory_banks.py", "tests/e2e/clients/test_2024_clients.py")
def of_older_clients(world: World) -> None:
    world.serve()
    documents = [{"document_id": "a", "content": FACTS[0], "metadata": {}}]
    for prefix, memory in (("", ""), ("/alpha", "/alpha"), ("", "/v1")):
        bank = {"memory_bank_id": "birds", "params": {"memory_bank_type": "keyword"}}
        world.post(f"{prefix}/memory-banks/register", bank)
        world.get(f"{prefix}/memory-banks/list")
        world.get(f"{prefix}/memory-banks/get?memory_bank_id=birds")
        world.post(f"{memory}/memory/insert", {"bank_id": "birds", "documents": documents})
        query = {"bank_id": "birds", "query": "herons", "params": {"max_chunks": 1}}
        world.post(f"{memory}/memory/query", query)
        world.post(f"{prefix}/memory-banks/unregister", {"memory_bank_id": "birds"})
    world.send("GET", "/alpha/memory-banks/get?memory_bank_id=birds")
    world.send("POST", "/v1/tool-runtime/rag-tool/insert", {"vector_db_id": "birds", "documents": documents})


@scenario("tests/integration/memory/test_turn_memory.py", fails_by=("memory_unusable",))
def of_turns_whose_bank_is_deleted(world: World) -> None:
    world.serve()
    params = {"memory_bank_type": "keyword"}
    world.post("/v1/memory-banks", {"memory_bank_id": "shore", "params": params})
    document = {"document_id": "herons", "content": FACTS[0], "metadata": {}}
    world.post("/v1/memory-banks/shore/documents", {"documents": [document]})
    bank = {"type": "keyword", "bank_id": "shore"}
    session = world.session(tools=[{"type": "memory", "memory_bank_configs": [bank]}])
    for _ in range(2):
        world.turn(session, "Where do herons nest?", stream=True)
        world.send("DELETE", "/v1/memory-banks/shore")
