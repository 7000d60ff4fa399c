"""Files and uploads with OpenAI's own client. Arguments: base URL with /v1, bytes of a file that is sent in parts."""

import io
import os
import sys
import tempfile
from hashlib import md5
from pathlib import Path

from openai import BadRequestError, NotFoundError, OpenAI
from reporting import report

PART = 5 * 1024 * 1024


def main(base_url: str, size: int) -> None:
    client = OpenAI(base_url=base_url, api_key="any", max_retries=0)
    files = client.files
    expires = {"anchor": "created_at", "seconds": 3_600}
    made = files.create(file=("herons.txt", b"Herons nest."), purpose="assistants", expires_after=expires)
    report(made=[made.bytes, made.filename, made.purpose, made.status, made.expires_at - made.created_at])
    unnamed = files.create(file=io.BytesIO(b"stones"), purpose="user_data")
    report(unnamed=[unnamed.filename, unnamed.expires_at])
    report(retrieved=files.retrieve(made.id) == made, processed=files.wait_for_processing(made.id) == made)
    report(content=files.content(made.id).text)
    with files.with_streaming_response.content(made.id) as streamed:
        report(streamed=b"".join(streamed.iter_bytes()).decode())
    report(paged=[each.id for each in files.list(limit=1)] == [unnamed.id, made.id])
    report(oldest=[each.id for each in files.list(order="asc", purpose="assistants")] == [made.id])
    deleted = files.delete(made.id)
    report(deleted=[deleted.id == made.id, deleted.deleted, deleted.object])
    for act in (files.retrieve, files.delete, files.content):
        try:
            act(made.id)
        except NotFoundError as error:
            report(**{f"gone_{act.__name__}": [error.status_code, error.code]})
    try:
        files.create(file=b"x", purpose="nonsense")
    except BadRequestError as error:
        report(refused=[error.status_code, error.param, error.code])
    content = os.urandom(size)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "stones.bin")
        path.write_bytes(content)
        digest = md5(content).hexdigest()
        upload = client.uploads.upload_file_chunked(
            file=path, mime_type="application/x-stones", purpose="user_data", part_size=PART, md5=digest
        )
    report(upload=[upload.status, upload.file.filename, upload.file.bytes == size])
    report(same=files.content(upload.file.id).read() == content)
    unfinished = client.uploads.create(bytes=3, filename="a", mime_type="text/plain", purpose="vision")
    part = client.uploads.parts.create(unfinished.id, data=b"abc")
    report(part=[part.object, part.upload_id == unfinished.id])
    try:
        client.uploads.complete(unfinished.id, part_ids=[part.id, part.id])
    except BadRequestError as error:
        report(twice=[error.param, "a second time" in error.message])
    report(cancelled=client.uploads.cancel(unfinished.id).status)


main(sys.argv[1], int(sys.argv[2]))
