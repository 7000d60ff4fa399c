"""Fills and queries memory banks of all kinds as clients of 0.0.53 to 0.0.63 do. Arguments: base URL, embedding model.

Reports the kinds that the client reads, the contents it finds in each bank, and the status of a deleted bank.
"""

import json
import sys
from typing import Any

import httpx
from llama_stack_client import LlamaStackClient, NotFoundError

EDGES = [{"subject": "Tern", "relation": "eats", "object": "shrimp"}]
CONTENTS = {
    "vector": "Terns dive for fish.",
    "keyword": "Knots probe mud.",
    "keyvalue": "grey",
    "graph": json.dumps(EDGES),
}
QUERIES = {"vector": "Which birds dive?", "keyword": "mud", "keyvalue": "its colour", "graph": "What does a tern eat?"}


def main() -> None:
    # its own one passes arguments that newer versions of httpx refuse
    http_client = httpx.Client(base_url=sys.argv[1])
    client: Any = LlamaStackClient(base_url=sys.argv[1], max_retries=0, http_client=http_client)
    found, kinds = {}, {}
    for kind, content in CONTENTS.items():
        params = {"memory_bank_type": kind}
        if kind == "vector":
            params |= {"embedding_model": sys.argv[2], "chunk_size_in_tokens": 64, "overlap_size_in_tokens": 8}
        client.memory_banks.register(memory_bank_id=kind, params=params, provider_id="meta-reference")
        read = client.memory_banks.retrieve(memory_bank_id=kind)
        kinds[kind] = [read.memory_bank_type, type(read).__name__, read.identifier]
        document = {"document_id": "colour", "content": content, "mime_type": "text/plain", "metadata": {}}
        client.memory.insert(bank_id=kind, documents=[document])
        answer = client.memory.query(
            bank_id=kind, query=[{"type": "text", "text": QUERIES[kind]}], params={"max_chunks": 2}
        )
        found[kind] = [[chunk.content, chunk.document_id, chunk.token_count > 0] for chunk in answer.chunks]
        assert len(answer.scores) == len(answer.chunks)
    listed = client.memory_banks.list()
    report(kinds=kinds, found=found, listed=sorted(bank.identifier for bank in listed))
    client.memory_banks.unregister(memory_bank_id="graph")
    try:
        client.memory_banks.retrieve(memory_bank_id="graph")
    except NotFoundError as gone:
        report(gone=gone.status_code)


def report(**facts: object) -> None:
    print(json.dumps(facts))


main()
