"""`turnstone memory` as a process, with the server as another: files are in a bank once and wholly, or not at all.

Covers: functions/command/memory
"""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import DOCS
from tests.support.clients.plain_client import PlainClient
from tests.support.clients.terminal import Terminal, chat_environment
from tests.support.server.servers import ServerProcess, free_port, wait_until
from tests.support.starts.commands import Command

pytestmark = pytest.mark.timeout(120)

PDF = DOCS / "guide" / "herons.pdf"
TIMEOUT_S = 60.0
MANY = 16
SENT_BEFORE = 4  # files that the server has before the test interrupts


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("memory"), lease_seconds=1) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "terns.txt").write_text("Terns dive for fish.")
    shutil.copy(PDF, tmp_path / "herons.pdf")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 and no more")
    return tmp_path


def started(server: ServerProcess, folder: Path, *arguments: str) -> Command:
    return Command("memory", *arguments, environment=chat_environment(server.url), folder=folder)


def ended(server: ServerProcess, folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Return exit status, output and errors of the command."""
    done = started(server, folder, *arguments).finished(TIMEOUT_S)
    return done.returncode, done.stdout, done.stderr


def as_json(server: ServerProcess, folder: Path, *arguments: str) -> Any:
    status, out, err = ended(server, folder, *arguments, "--json")
    assert (status, err) == (0, ""), (status, err)
    return json.loads(out)


def results(files: list[dict[str, Any]]) -> dict[str, str]:
    return {each["path"]: each["status"] for each in files}


def ids_at(server: ServerProcess, path: str) -> set[str]:
    with PlainClient(server.url) as client:
        return {entry["id"] for entry in client.get(f"{path}?limit=100")["data"]}


def ids_in(server: ServerProcess, bank_id: str) -> set[str]:
    return ids_at(server, f"/v1/vector_stores/{bank_id}/files")


def many_files(folder: Path) -> list[str]:
    """Write files of many chunks, so that their insertion takes longer than their sending."""
    names = [f"{number:02}.txt" for number in range(MANY)]
    for name in names:
        (folder / name).write_text(f"Note {name}. " + "Knots probe the mud of the shore for clams. " * 1_500)
    return names


def test_files_are_added_once_replaced_when_changed_and_found_with_their_source(
    server: ServerProcess, folder: Path
) -> None:
    files_before = ids_at(server, "/v1/files")
    names = ("terns.txt", "herons.pdf", "broken.pdf")
    status, out, err = ended(server, folder, "add", *names, "--bank", "birds")
    assert status == 1
    assert out.startswith("birds: 2 added, 1 failed  id=vs_")
    assert "turnstone: broken.pdf: the document can't be read: it is damaged" in err
    assert {"1/3", "2/3", "3/3"} == {line.split()[0] for line in err.splitlines() if "/" in line.split()[0]}
    first = as_json(server, folder, "list", "--bank", "birds")
    assert results(first) == {"terns.txt": "completed", "herons.pdf": "completed"}

    again = as_json(server, folder, "add", *names[:2], "./terns.txt", "--bank", "birds")
    assert again["is_new"] is False
    assert results(again["files"]) == {"terns.txt": "unchanged", "herons.pdf": "unchanged"}
    assert as_json(server, folder, "list", "--bank", "birds") == first

    (found,) = as_json(server, folder, "search", "How many eggs does a heron lay?", "--bank", "birds", "--limit", "1")
    assert found["source"] == "herons.pdf"
    assert "three to five eggs" in found["text"]

    (folder / "terns.txt").write_text("Terns migrate from pole to pole.")
    status, out, err = ended(server, folder, "add", "terns.txt", "--bank", "birds", "--quiet")
    assert (status, out, err) == (0, "", "")
    texts = [each["text"] for each in as_json(server, folder, "search", "Terns", "--bank", "birds")]
    assert [text for text in texts if "Terns" in text] == ["Terns migrate from pole to pole."]
    kept = ids_in(server, first_bank(server, folder, "birds"))
    assert ids_at(server, "/v1/files") - files_before == kept
    assert len(kept) == 2

    status, out, err = ended(server, folder, "remove", "./terns.txt", "swans.txt", "--bank", "birds")
    assert (status, out) == (1, "removed ./terns.txt\n")
    assert err.startswith("turnstone: swans.txt: the bank has no such file")
    assert results(as_json(server, folder, "list", "--bank", "birds")) == {"herons.pdf": "completed"}
    assert len(ids_at(server, "/v1/files") - files_before) == 1


def test_a_large_file_is_sent_in_parts(server: ServerProcess, folder: Path) -> None:
    text = f"<html><body><!-- {'mud ' * 2_300_000} --><p>Curlews have the longest bill.</p></body></html>"
    (folder / "curlews.html").write_text(text)
    added = as_json(server, folder, "add", "curlews.html", "--bank", "large")
    assert results(added["files"]) == {"curlews.html": "added"}
    (listed,) = as_json(server, folder, "list", "--bank", "large")
    assert listed["size_bytes"] == len(text)
    assert as_json(server, folder, "search", "bill", "--bank", "large")[0]["text"] == "Curlews have the longest bill."


def test_a_file_that_was_removed_is_added_again_under_its_old_content(server: ServerProcess, folder: Path) -> None:
    first = as_json(server, folder, "add", "terns.txt", "--bank", "returning")
    as_json(server, folder, "remove", "terns.txt", "--bank", "returning")
    second = as_json(server, folder, "add", "terns.txt", "--bank", "returning")
    assert results(second["files"]) == {"terns.txt": "added"}
    assert second["files"][0]["file_id"] != first["files"][0]["file_id"]


def test_a_changed_file_that_fails_leaves_the_earlier_content(server: ServerProcess, folder: Path) -> None:
    as_json(server, folder, "add", "herons.pdf", "--bank", "kept")
    (folder / "herons.pdf").write_bytes(b"%PDF-1.4 and no more")
    status, _, err = ended(server, folder, "add", "herons.pdf", "--bank", "kept")
    assert status == 1
    assert "the bank keeps the earlier content" in err
    (found,) = as_json(server, folder, "search", "eggs", "--bank", "kept")
    assert found["source"] == "herons.pdf"


def test_a_second_run_ends_an_addition_whose_server_was_killed(server: ServerProcess, folder: Path) -> None:
    names, files_before = many_files(folder), ids_at(server, "/v1/files")
    command = started(server, folder, "add", *names, "--bank", "killed")
    wait_until(lambda: len(ids_at(server, "/v1/files") - files_before) >= SENT_BEFORE, TIMEOUT_S, "nothing was sent")
    server.kill()
    done = command.finished(TIMEOUT_S)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("turnstone: ")
    server.start()
    added = as_json(server, folder, "add", *names, "--bank", "killed")
    assert set(results(added["files"])) == set(names)
    assert results(as_json(server, folder, "list", "--bank", "killed")) == dict.fromkeys(names, "completed")
    assert ids_at(server, "/v1/files") - files_before == ids_in(server, added["bank_id"])


def test_an_interrupted_addition_leaves_whole_files_only(server: ServerProcess, folder: Path) -> None:
    names, files_before = many_files(folder), ids_at(server, "/v1/files")
    command = started(server, folder, "add", *names, "--bank", "interrupted")
    wait_until(lambda: len(ids_at(server, "/v1/files") - files_before) >= SENT_BEFORE, TIMEOUT_S, "nothing was sent")
    command.process.send_signal(signal.SIGINT)
    done = command.finished(TIMEOUT_S)
    assert (done.returncode, done.stdout) == (130, ""), done.stderr
    listed = as_json(server, folder, "list", "--bank", "interrupted")
    assert len(listed) < MANY
    assert {each["status"] for each in listed} <= {"completed"}
    assert ids_at(server, "/v1/files") - files_before == {each["file_id"] for each in listed}
    assert len(as_json(server, folder, "add", *names[:6], "--bank", "interrupted")["files"]) == 6


def test_a_terminal_shows_a_bar(server: ServerProcess) -> None:
    with Terminal(server.url, "add", PDF, "--bank", "bar", command="memory") as terminal:
        assert "░ 0/1 sending " in terminal.expect("inserting ")
        assert terminal.ended() == 0
    assert terminal.shown.rpartition("\x1b[K")[2].startswith("bar: 1 added  id=vs_")


def test_several_banks_of_a_name_are_named_by_their_ids(server: ServerProcess, folder: Path) -> None:
    with PlainClient(server.url) as client:
        ids = [client.post("/v1/vector_stores", {"name": "twins"}).json()["id"] for _ in range(2)]
    status, _, err = ended(server, folder, "search", "fish", "--bank", "twins")
    assert status == 1
    assert ", ".join(ids) in err
    assert as_json(server, folder, "search", "fish", "--bank", ids[1]) == []


def test_failures_are_one_line(server: ServerProcess, folder: Path) -> None:
    status, out, err = ended(server, folder, "search", "fish", "--bank", "none")
    expected = "turnstone: there is no bank 'none'. `turnstone memory list` prints the banks.\n"
    assert (status, out, err) == (1, "", expected)
    nowhere = f"http://127.0.0.1:{free_port()}"
    status, out, err = ended(server, folder, "add", "terns.txt", "--bank", "birds", "--url", nowhere)
    assert (status, out) == (1, "")
    assert err.startswith(f"turnstone: no server answers at {nowhere}")
    assert len(err.splitlines()) == 1


def test_a_bank_is_removed_with_its_files_and_one_of_another_kind_is_named(server: ServerProcess, folder: Path) -> None:
    as_json(server, folder, "add", "terns.txt", str(folder / "terns.txt"), "--bank", "brief")
    bank_id = first_bank(server, folder, "brief")
    (file_id,) = ids_in(server, bank_id)
    assert as_json(server, folder, "remove", "--all", "--bank", "brief")["is_removed"]
    assert bank_id not in ids_at(server, "/v1/vector_stores")
    assert file_id not in ids_at(server, "/v1/files")
    assert ended(server, folder, "remove", "--bank", "birds")[0] == 2
    with PlainClient(server.url) as client:
        body = {"memory_bank_id": "words", "params": {"memory_bank_type": "keyword"}}
        client.post("/v1/memory-banks", body).json()
    listed = as_json(server, folder, "list")
    assert {"bank_id": "words", "bank": "words", "kind": "keyword"} in listed
    status, _, err = ended(server, folder, "search", "fish", "--bank", "words")
    assert (status, "is a keyword bank" in err) == (1, True)


def first_bank(server: ServerProcess, folder: Path, name: str) -> str:
    """Return the id of the bank."""
    (bank_id,) = [each["bank_id"] for each in as_json(server, folder, "list") if each["bank"] == name]
    return str(bank_id)
