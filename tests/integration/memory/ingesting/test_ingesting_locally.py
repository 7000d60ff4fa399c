"""A server on one machine inserts files in a thread of its own, and continues after a stop, or a start without one.

Covers: bootstrap/places/local, adapters/machine/local_jobs, adapters/machine/jobs_by_kind
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from threading import Event
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from turnstone.bootstrap.places.local import LocalServer
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.memory.banks import Chunking, NewBank
from turnstone.domain.memory.documents import Document, NewDocument
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.turns.attempts import Attempt
from turnstone.services.memory.embedding import BankEmbedding
from turnstone.settings.local_settings import LocalSettings

BANK, TIDE = "shore", "tide"
FIRST = Attempt(fingerprint="body")
PATIENCE_S = 30.0
WORDS = " ".join(f"{first}{second}" for first in "bcdfghjk" for second in "abcdefghijklmnopqrst").encode()
PAGE = "<w:p><w:r><w:t>" + "a" * 1_000_000 + "</w:t></w:r></w:p>"
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


@contextmanager
def server_in(folder: Path) -> Iterator[LocalServer]:
    server = LocalServer(LocalSettings(data_dir=folder, drain_seconds=1))
    try:
        yield server
    finally:
        server.stop()


def inserted(server: LocalServer, document_id: str, content: bytes, name: str = "a.txt") -> None:
    core = server.core
    core.banks.register(LOCAL_CALLER, NewBank(BANK, "vector", "offline"), NO_PROVIDER_DATA, FIRST)
    file = core.files.create(LOCAL_CALLER, name, "application/octet-stream", "assistants", [content])
    new = NewDocument(document_id, file_id=file.file_id, chunking=Chunking(tokens=1, overlap=0))
    core.ingesting.add_file(LOCAL_CALLER, BANK, new, FIRST)


def ended(server: LocalServer, document_id: str) -> Document:
    """Return the document once it is not in progress any more."""
    end = time.monotonic() + PATIENCE_S
    while (document := server.core.documents.get(LOCAL_CALLER, BANK, document_id)).status == "in_progress":
        assert time.monotonic() < end, "it is in progress for too long"
        time.sleep(0.02)
    return document


def test_a_stop_ends_a_run_early_and_the_next_server_continues_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    is_stopping, has_begun = Event(), Event()
    vectors: Callable[..., list[list[float]]] = BankEmbedding.vectors

    def slow(embedding: BankEmbedding, caller: object, space: object, texts: list[str], data: object) -> object:
        if made and not is_stopping.is_set():
            has_begun.set()
            assert is_stopping.wait(PATIENCE_S)
        found = vectors(embedding, caller, space, texts, data)
        made.extend(texts)
        return found

    monkeypatch.setattr(BankEmbedding, "vectors", slow)
    with server_in(tmp_path) as server:
        server.start()
        inserted(server, TIDE, WORDS)
        assert has_begun.wait(PATIENCE_S)
        with server.core.ingesting_services.stop.heeded_by(is_stopping.set):
            server.stop()
    with server_in(tmp_path) as server:
        progress = server.core.documents.get(LOCAL_CALLER, BANK, TIDE).progress
        assert progress is not None
        assert (progress.chunks, progress.embedded) == (160, len(made))
        server.start()
        assert ended(server, TIDE).chunks == 160
    assert len(made) == len(set(made)) == 160


def test_hostile_files_fail_and_the_others_are_inserted_in_little_memory(tmp_path: Path) -> None:
    bomb = BytesIO()
    with ZipFile(bomb, "w", ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", f"<w:document {W}><w:body>{PAGE * 60}</w:body></w:document>")
    hostile = {
        "bomb.docx": bomb.getvalue(),
        "line.txt": b"a" * 40_000_000,
        "encrypted.pdf": b"%PDF-1.7\ntrailer <</Encrypt 1 0 R>>\n",
        "image.jpg": b"\xff\xd8\xff\xe0" + bytes(100),
        "empty.md": b"",
    }
    with server_in(tmp_path) as server:
        for name, content in hostile.items():
            inserted(server, name, content, name)
        inserted(server, "utf-16.txt", "high water".encode("utf-16"))
        del bomb, content
        Path("/proc/self/clear_refs").write_text("5")  # the highest mark becomes the present use
        before = peak_mb()
        server.start()
        for name in hostile:
            document = ended(server, name)
            assert (document.status, document.last_error is not None) == ("failed", True), name
        assert ended(server, "utf-16.txt").chunks == 2
    assert peak_mb() - before < 100


def peak_mb() -> float:
    """Return the most memory that this process has had since the mark was reset."""
    (line,) = [each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmHWM")]
    return int(line.split()[1]) / 1024
