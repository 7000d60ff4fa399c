"""Files of this machine: the ones that arguments name, their paths in a bank, and their digests."""

import os
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

MOST_PATH_CHARACTERS = 512  # of a value in the attributes of a vector store's file
PIECE_BYTES = 4_000_000  # the largest body of a form on AWS, and the size of an upload's parts


class UnusablePath(Exception):
    """An argument names no file."""


class LocalFile(NamedTuple):
    """A file to add, and its path in the bank."""

    source: Path
    path: str

    def pieces(self) -> Iterator[bytes]:
        """Yield the content, some megabytes at a time. Raises OSError."""
        with self.source.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                yield piece

    def digest(self) -> str:
        """Return the SHA-256 of the content. Raises OSError."""
        digest = sha256()
        for piece in self.pieces():
            digest.update(piece)
        return digest.hexdigest()


def chosen_files(arguments: Sequence[Path], *, is_recursive: bool) -> list[LocalFile]:
    """Return the files, each once. Raises UnusablePath for an argument that is none."""
    files: dict[str, LocalFile] = {}
    for argument in arguments:
        for source in _below(argument, is_recursive=is_recursive):
            path = path_in_bank(source)
            if len(path) > MOST_PATH_CHARACTERS:
                raise UnusablePath(f"{path}: the path has more than {MOST_PATH_CHARACTERS} characters")
            files.setdefault(path, LocalFile(source, path))
    if not files:
        raise UnusablePath("there is no file to add in these folders; hidden ones are left out")
    return list(files.values())


def path_in_bank(path: str | Path) -> str:
    """Return the path by which a bank keeps a file: below the working folder the relative one, else as it was given."""
    given = Path(os.path.normpath(path))
    folder = Path.cwd()
    return (given.relative_to(folder) if given.is_relative_to(folder) else given).as_posix()


def _below(argument: Path, *, is_recursive: bool) -> Iterator[Path]:
    try:
        str(argument).encode()
    except UnicodeEncodeError:
        raise UnusablePath(f"{argument}: the name is not valid UTF-8") from None
    if not argument.is_dir():
        if not argument.exists():
            raise UnusablePath(f"{argument}: there is no such file")
        if not argument.is_file():
            raise UnusablePath(f"{argument}: is not a file")
        yield argument
        return
    if not is_recursive:
        raise UnusablePath(f"{argument}: is a folder; name its files, or add --recursive")
    for folder, folders, names in os.walk(argument):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            if not name.startswith(".") and path.is_file():
                yield from _below(path, is_recursive=False)
