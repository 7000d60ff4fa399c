"""Vector databases: registered, filled until their log is folded, searched and deleted."""

from __future__ import annotations

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
