"""Vector stores with OpenAI's own client and its pollers. Argument: base URL with /v1."""

import sys

from openai import BadRequestError, NotFoundError, OpenAI
from reporting import report

POLL_MS = 50
STATIC = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 50}}


def main(base_url: str) -> None:
    client = OpenAI(base_url=base_url, api_key="any", max_retries=0)
    stores = client.vector_stores
    herons = client.files.create(file=("herons.txt", b"Herons nest in colonies."), purpose="assistants")
    expiry = {"anchor": "last_active_at", "days": 7}
    store = stores.create(name="birds", metadata={"region": "north"}, expires_after=expiry)
    report(made=[store.name, store.object, store.status, store.metadata, store.expires_after.days])
    report(lives=store.expires_at - store.last_active_at)
    file = stores.files.create_and_poll(
        herons.id, vector_store_id=store.id, attributes={"year": 2025}, poll_interval_ms=POLL_MS
    )
    report(file=[file.id == herons.id, file.status, file.attributes, file.usage_bytes, file.last_error])
    owls = stores.files.upload_and_poll(
        vector_store_id=store.id,
        file=("owls.md", b"# Owls\n\nOwls hunt at night."),
        chunking_strategy=STATIC,
        poll_interval_ms=POLL_MS,
    )
    report(uploaded=[owls.status, owls.chunking_strategy.static.max_chunk_size_tokens])
    batch = stores.file_batches.upload_and_poll(
        store.id, files=[("a.txt", b"granite"), ("b.txt", b" ")], file_ids=[herons.id], poll_interval_ms=POLL_MS
    )
    report(batch=[batch.status, batch.file_counts.completed, batch.file_counts.failed, batch.file_counts.total])
    one = {"file_id": owls.id, "attributes": {"year": 2026}}
    of_one = stores.file_batches.create_and_poll(store.id, files=[one], poll_interval_ms=POLL_MS)
    report(of_one=[of_one.status, of_one.file_counts.total])
    listed = [each.id for each in stores.file_batches.list_files(batch.id, vector_store_id=store.id, limit=1)]
    report(listed=[len(listed), len(set(listed)), herons.id in listed])
    every = [each.id for each in stores.files.list(store.id, limit=1, order="asc")]
    report(every=[every[:2] == [herons.id, owls.id], len(every)])
    report(failed=[each.last_error.code for each in stores.files.list(store.id, filter="failed")])
    report(content=[each.text for each in stores.files.content(owls.id, vector_store_id=store.id)])
    results = stores.search(store.id, query="When do owls hunt?", max_num_results=1)
    report(results=[results.object, [[each.filename, each.content[0].text, each.attributes] for each in results]])
    both = stores.search(store.id, query=["owls", "herons"])
    report(both=sorted(each.filename for each in both if each.filename != "a.txt"))
    of_2025 = {"type": "and", "filters": [{"type": "lte", "key": "year", "value": 2025}]}
    stores.files.update(herons.id, vector_store_id=store.id, attributes={"year": 2024, "is_seen": True})
    report(filtered=[[each.filename, each.attributes] for each in stores.search(store.id, query="a", filters=of_2025)])
    updated = stores.update(store.id, name="waders", metadata=None, expires_after=None)
    report(updated=[updated.name, updated.metadata, updated.expires_after, updated.file_counts.total])
    cancelled = stores.file_batches.cancel(batch.id, vector_store_id=store.id)
    report(cancelled=[cancelled.status == batch.status, cancelled.object])
    for each in stores.files.list(store.id, limit=1):
        stores.files.delete(each.id, vector_store_id=store.id)
    report(emptied=[len(list(stores.files.list(store.id))), stores.retrieve(store.id).file_counts.total])
    report(kept=client.files.retrieve(herons.id).filename)
    stores.create(name="another")
    for each in stores.list(limit=1):
        stores.delete(each.id)
    report(none=len(list(stores.list())))
    try:
        stores.retrieve(store.id)
    except NotFoundError as error:
        report(gone=[error.status_code, error.code])
    try:
        stores.create(expires_after={"anchor": "last_active_at", "days": 366})
    except BadRequestError as error:
        report(refused=[error.status_code, error.param, error.code])


main(sys.argv[1])
