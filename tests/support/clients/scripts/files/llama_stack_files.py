"""Files with the official Llama Stack client. Argument: URL."""

import sys

from llama_stack_client import LlamaStackClient, NotFoundError
from reporting import report


def main(base_url: str) -> None:
    files = LlamaStackClient(base_url=base_url, max_retries=0).files
    made = files.create(file=("herons.txt", b"Herons nest."), purpose="assistants")
    report(made=[made.bytes, made.filename, made.purpose, made.object])
    report(retrieved=files.retrieve(made.id) == made)
    report(listed=[each.id for each in files.list().data] == [made.id])
    report(filtered=[each.id for each in files.list(purpose="assistants", limit=5, order="asc").data] == [made.id])
    report(content=files.content(made.id))
    as_json = files.create(file=("a.json", b'{"a": 1}', "application/json"), purpose="assistants")
    report(as_json=files.content(as_json.id))
    deleted = files.delete(made.id)
    report(deleted=[deleted.id == made.id, deleted.deleted, deleted.object])
    try:
        files.retrieve(made.id)
    except NotFoundError as error:
        report(gone=error.status_code)


main(sys.argv[1])
