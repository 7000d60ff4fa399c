"""BlobStore in a folder, for a single machine."""

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
# Names have no dot, so `a` and `a/b` can both be stored, and no payload looks like a folder or an unfinished file.
_SUFFIX = ".blob"
_UNFINISHED = ".part"
PIECE_BYTES = 16 * 1024


class FileBlobStore:
    """BlobStore with one file per payload, readable by the owner only.

    A payload appears under its name whole or not at all. A crash may leave a `.part` file, which is never read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, name: str, body: bytes) -> None:
        """Store the payload durably. Storing it again renews the file's age.

        Raises:
            ValueError: the name has an invalid character or an empty part.
        """
        path = self._path(name)
        with _failures_converted(name):
            make_private_folder(self._folder)
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_whole(path, body)
            self._sync_folders(path)

    def get(self, name: str) -> bytes | None:
        """Return the payload, None if missing. Raises StoreUnavailable if the whole folder is missing."""
        path = self._path(name)
        with _failures_converted(name):
            try:
                return path.read_bytes()
            except FileNotFoundError:
                if self._folder.is_dir():
                    return None
                raise

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the payload in pieces, without keeping a file open in between. Raises LookupError if it is missing."""
        path = self._path(name)
        offset = 0
        while piece := self._part(path, name, offset):
            yield piece
            offset += len(piece)

    def delete(self, name: str) -> None:
        """Delete the payload; a missing payload is no error."""
        path = self._path(name)
        with _failures_converted(name):
            path.unlink(missing_ok=True)

    def clear(self, prefix: str, limit: int) -> bool:
        """Delete payloads by a prefix of their names, `limit` at most, and unfinished ones; return if none is left."""
        above, beginning = prefix.rsplit("/", 1)
        folder = self._path(above).with_suffix("")
        with _failures_converted(prefix):
            found = [path for path in _files_in(folder) if path.name.startswith(beginning)]
            for path in found[:limit]:
                path.unlink(missing_ok=True)
        is_empty = len(found) <= limit
        if is_empty and not beginning:
            with suppress(OSError):  # missing already, or another writer is about to add a payload
                folder.rmdir()
        return is_empty

    def older_than(self, age_s: float) -> Iterator[str]:
        """Yield the names of payloads stored at least `seconds` ago.

        Removes unfinished files of that age, left by a process that died.
        """
        latest = time.time() - age_s
        with _failures_converted(str(self._folder)):
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
        with _failures_converted(name):
            try:
                with path.open("rb", buffering=0) as file:
                    file.seek(offset)
                    return file.read(PIECE_BYTES)
            except FileNotFoundError:
                if self._folder.is_dir():
                    raise LookupError(f"the payload {name!r} is missing") from None
                raise

    def _sync_folders(self, path: Path) -> None:
        # Also existing folders: their creator may not have synced them yet.
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
def _failures_converted(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise StoreUnavailable(f"the payload {name!r} can't be stored or read: {exc}") from exc
