"""Vector stores: made, filled, listed, searched, changed and deleted."""

from __future__ import annotations

from tests.golden.scenarios.files import FILES, sent
from tests.golden.scenarios.registry import scenario
from tests.golden.world import World

STORES, OF_LLAMA_STACK = "/v1/vector_stores", "/v1/openai"


@scenario(
    "tests/contract/memory/test_vector_stores.py",
    "tests/e2e/memory/test_vector_store_clients.py",
    "tests/integration/memory/test_vector_stores.py",
)
def over_banks(world: World) -> None:
    world.serve()
    herons = sent(world, FILES, {"purpose": "assistants"}, b"Herons nest.", filename="herons.txt")["id"]
    granite = sent(world, FILES, {"purpose": "assistants"}, b"Granite is grey.", filename="granite.txt")["id"]
    expiry = {"anchor": "last_active_at", "days": 1}
    new = {"name": "birds", "metadata": {"a": "b"}, "embedding_model": "offline", "expires_after": expiry}
    path = f"{STORES}/{world.post(STORES, {**new, 'file_ids': [herons]})['id']}"
    world.work()  # one insertion at a time: their order differs between stores
    world.send("POST", f"{path}/files", {"file_id": granite, "attributes": {"year": 2026}})
    world.work()
    world.get(path)
    world.get(f"{path}/files?limit=1&order=asc")
    world.send("GET", f"{path}/files/{herons}/content")
    world.post(f"{path}/search", {"query": "herons", "search_mode": "keyword"})
    world.post(f"{path}/files/{granite}", {"attributes": {"year": 2025}})
    filters = {"type": "eq", "key": "year", "value": 2025}
    world.post(f"{path}/search", {"query": ["grey", "herons"], "filters": filters, "search_mode": "keyword"})
    batches = f"{OF_LLAMA_STACK}{path}/file_batches"  # the jobs insert these files, over either store
    batch = world.post(batches, {"files": [{"file_id": herons}]})["id"]
    world.get(f"{batches}/{batch}")
    world.get(f"{batches}/{batch}/files")
    world.send("POST", f"{batches}/{batch}/cancel")
    world.post(path, {"name": None, "expires_after": None})
    world.send("POST", STORES, {"file_ids": ["file-unknown"]})
    world.send("POST", f"{path}/search", {"query": "a", "rewrite_query": True})
    world.get(f"{STORES}?limit=1")
    world.send("DELETE", f"{path}/files/{herons}")
    for _ in range(2):
        world.send("DELETE", path)
    world.work()
    world.pass_time(180)
    world.work()
