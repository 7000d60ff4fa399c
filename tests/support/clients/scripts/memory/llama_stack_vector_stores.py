"""Vector stores with the official client of Llama Stack. Argument: base URL."""

import sys
import time

from llama_stack_client import APIStatusError, LlamaStackClient
from reporting import report

INGESTED_WITHIN_S = 30


def main(base_url: str) -> None:
    client = LlamaStackClient(base_url=base_url, max_retries=0)
    stores = client.vector_stores
    file = client.files.create(file=("herons.txt", b"Herons nest in colonies."), purpose="assistants")
    store = stores.create(name="birds", file_ids=[file.id], extra_body={"embedding_model": "offline"})
    report(made=[store.name, store.object, store.file_counts.total])
    deadline = time.monotonic() + INGESTED_WITHIN_S
    while stores.retrieve(store.id).status == "in_progress" and time.monotonic() < deadline:
        time.sleep(0.02)
    found = stores.search(store.id, query="Where do herons nest?", max_num_results=1)
    report(found=[found.object, found.search_query, [[each.filename, each.content[0].text] for each in found.data]])
    report(updated=stores.update(store.id, name="waders").name)
    added = stores.files.create(store.id, file_id=file.id, attributes={"year": 2026})
    report(added=[added.id == file.id, added.attributes, added.chunking_strategy.type])
    report(listed=[[each.id == store.id for each in stores.list().data]])
    if hasattr(stores.files, "content"):
        content = stores.files.content(file.id, vector_store_id=store.id)
        report(content=[content.filename, content.content[0].text])
        report(files=[[each.id == file.id for each in stores.files.list(store.id)]])
        report(removed=stores.files.delete(file.id, vector_store_id=store.id).deleted)
    if hasattr(stores, "file_batches"):
        batch = stores.file_batches.create(store.id, file_ids=[file.id])
        report(batch=stores.file_batches.retrieve(batch.id, vector_store_id=store.id).file_counts.total)
    report(deleted=[stores.delete(store.id).deleted])
    try:
        stores.retrieve(store.id)
    except APIStatusError as error:
        report(gone=error.status_code)


main(sys.argv[1])
