"""Files sent to the server: whole, or in parts if they are large. A file that is sent again is stored once."""

from collections.abc import Callable, Iterator
from hashlib import md5, sha256
from itertools import chain
from pathlib import PurePosixPath
from urllib.parse import quote

from ..client import Client, CommandFailed
from .local_files import LocalFile

PURPOSE = "assistants"
ANY_TYPE = "application/octet-stream"  # the server reads the type from the name, and else from the content


class FileChanged(Exception):
    """The file was changed while it was sent."""

    def __init__(self) -> None:
        super().__init__("the file was changed while it was sent; add it again")


def sent_file(client: Client, file: LocalFile, digest: str, key: str, check: Callable[[], None]) -> str:
    """Return the id of the file on the server.

    Args:
        key: a request with the key of an earlier one returns the earlier file.
        check: called between the parts of a large file, to raise KeyboardInterrupt.

    Raises:
        CommandFailed: it is not stored.
        FileChanged: it has another digest now, and is not stored.
        OSError: it can't be read.
    """
    pieces = file.pieces()
    first, second = next(pieces, b""), next(pieces, b"")
    if second:
        return _sent_in_parts(client, file, digest, chain((first, second), pieces), check)
    if sha256(first).hexdigest() != digest:
        raise FileChanged
    name = PurePosixPath(file.path).name
    return str(client.send_form("/files", {"purpose": PURPOSE, "file": (name, first, ANY_TYPE)}, key)["id"])


def _sent_in_parts(
    client: Client, file: LocalFile, digest: str, pieces: Iterator[bytes], check: Callable[[], None]
) -> str:
    name, size = PurePosixPath(file.path).name, file.source.stat().st_size
    body = {"filename": name, "bytes": size, "mime_type": "", "purpose": PURPOSE}
    path = f"/uploads/{quote(client.post('/uploads', body)['id'], safe='')}"
    is_complete = False
    try:
        part_ids, seen, checksum = [], sha256(), md5(usedforsecurity=False)
        for piece in pieces:
            check()
            seen.update(piece)
            checksum.update(piece)
            part_ids.append(client.send_form(f"{path}/parts", {"data": (name, piece, ANY_TYPE)})["id"])
        if seen.hexdigest() != digest:
            raise FileChanged
        check()
        made = client.post(f"{path}/complete", {"part_ids": part_ids, "md5": checksum.hexdigest()})
        is_complete = True
        return str(made["file"]["id"])
    finally:
        if not is_complete:
            _cancel(client, path)


def _cancel(client: Client, path: str) -> None:
    """Cancel an upload; the server does so by itself within an hour."""
    try:
        client.post(f"{path}/cancel", {})
    except CommandFailed:
        return
