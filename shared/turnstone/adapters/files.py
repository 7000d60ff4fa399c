"""The BlobStore in a folder: what a single machine runs on."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from turnstone.adapters.folders import make_private_folder, sync_folder
from turnstone.domain.errors import StoreUnavailable

_NAME = re.compile(r"[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*")
# A name has no dot, so `a` and `a/b` can both be stored, and no payload is taken for a folder or an unfinished file.
_SUFFIX = ".blob"
_UNFINISHED = ".part"
PIECE_BYTES = 16 * 1024


class FileBlobStore:
    """A BlobStore with one file per payload, readable by their owner only.

    A payload appears under its name whole or not at all. After a crash a `.part` file may be left, which nobody reads.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, name: str, body: bytes) -> None:
        """Store the payload; it is on the disk when this returns. Putting it again makes the file new.

        Raises:
            ValueError: the name has a character, or an empty part, that names can't have.
        """
        path = self._path(name)
        with _failures_told(name):
            make_private_folder(self._folder)
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_whole(path, body)
            self._sync_folders(path)

    def get(self, name: str) -> bytes:
        """Return the payload. Raises StoreUnavailable if it is missing."""
        path = self._path(name)
        with _failures_told(name):
            return path.read_bytes()

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the payload in pieces; no file is open in between. Raises StoreUnavailable if it is missing."""
        path = self._path(name)
        offset = 0
        while piece := _read_part(path, name, offset):
            yield piece
            offset += len(piece)

    def delete(self, name: str) -> None:
        """Remove the payload; nothing happens if there is none."""
        path = self._path(name)
        with _failures_told(name):
            path.unlink(missing_ok=True)

    def clear(self, prefix: str, limit: int) -> bool:
        """Remove payloads whose names begin like this, `limit` at most, and unfinished ones; tell if none is left."""
        above, beginning = prefix.rsplit("/", 1)
        folder = self._path(above).with_suffix("")
        with _failures_told(prefix):
            found = [path for path in _files_in(folder) if path.name.startswith(beginning)]
            for path in found[:limit]:
                path.unlink(missing_ok=True)
        is_empty = len(found) <= limit
        if is_empty and not beginning:
            with suppress(OSError):  # none was there, or somebody is about to put another payload in
                folder.rmdir()
        return is_empty

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"a payload can't be named {name!r}")
        return self._folder / f"{name}{_SUFFIX}"

    def _sync_folders(self, path: Path) -> None:
        # Even folders that were there before: who made them may not have synced them yet.
        for folder in path.parents:
            sync_folder(folder)
            if folder == self._folder.parent:
                break


def _read_part(path: Path, name: str, offset: int) -> bytes:
    with _failures_told(name), path.open("rb", buffering=0) as file:
        file.seek(offset)
        return file.read(PIECE_BYTES)


def _files_in(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def _write_whole(path: Path, body: bytes) -> None:
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent, suffix=_UNFINISHED)
    try:
        with open(descriptor, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise


@contextmanager
def _failures_told(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as exc:
        raise StoreUnavailable(f"the payload {name!r} is missing") from exc
    except OSError as exc:
        raise StoreUnavailable(f"the payload {name!r} can't be stored or read: {exc}") from exc
