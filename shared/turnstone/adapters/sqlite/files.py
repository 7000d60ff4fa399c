"""The BlobStore in a folder: what a single machine runs on."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from turnstone.adapters.sqlite.folders import make_private_folder, sync_folder
from turnstone.domain.errors import StoreUnavailable

_NAME = re.compile(r"[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*")
# A name has no dot, so `a` and `a/b` can both be stored, and no payload is taken for a folder or an unfinished file.
_SUFFIX = ".blob"
_UNFINISHED = ".part"
PIECE_BYTES = 16 * 1024


class FileBlobStore:
    """A BlobStore with one file per payload, readable by their owner only.

    A payload appears under its name whole or not at all. After a crash a `.part` file may be left, which is never read.
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

    def get(self, name: str) -> bytes | None:
        """Return the payload, None if it is missing. Where the whole folder is missing, nothing is known of it."""
        path = self._path(name)
        with _failures_told(name):
            try:
                return path.read_bytes()
            except FileNotFoundError:
                if self._folder.is_dir():
                    return None
                raise

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the payload in pieces; no file is open in between. Raises LookupError if it is missing."""
        path = self._path(name)
        offset = 0
        while piece := self._part(path, name, offset):
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

    def older_than(self, age_s: float) -> Iterator[str]:
        """Yield the names of payloads that were stored at least so many seconds ago.

        Unfinished files of that age, which a process that died has left, are removed on the way.
        """
        latest = time.time() - age_s
        with _failures_told(str(self._folder)):
            for folder, _, files in os.walk(self._folder):
                for path in (Path(folder, name) for name in files):
                    if not _is_older(path, latest):
                        continue
                    if path.suffix == _UNFINISHED:
                        path.unlink(missing_ok=True)
                    elif path.suffix == _SUFFIX:
                        yield path.relative_to(self._folder).with_suffix("").as_posix()

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ValueError(f"a payload can't be named {name!r}")
        return self._folder / f"{name}{_SUFFIX}"

    def _part(self, path: Path, name: str, offset: int) -> bytes:
        with _failures_told(name):
            try:
                with path.open("rb", buffering=0) as file:
                    file.seek(offset)
                    return file.read(PIECE_BYTES)
            except FileNotFoundError:
                if self._folder.is_dir():
                    raise LookupError(f"the payload {name!r} is missing") from None
                raise

    def _sync_folders(self, path: Path) -> None:
        # Even folders that were there before: who made them may not have synced them yet.
        for folder in path.parents:
            sync_folder(folder)
            if folder == self._folder.parent:
                break


def _files_in(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def _is_older(path: Path, latest: float) -> bool:
    try:
        return path.stat().st_mtime <= latest
    except FileNotFoundError:
        return False


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
    except OSError as exc:
        raise StoreUnavailable(f"the payload {name!r} can't be stored or read: {exc}") from exc
