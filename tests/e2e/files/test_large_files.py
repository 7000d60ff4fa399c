"""Large files on the wire: the memory of the server stays flat, and nothing is left of what did not arrive.

Covers: functions/files, http/server/forms, services/files/uploads
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import socket
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.clients.forms import BOUNDARY, FORM_TYPE, form_of
from tests.support.server.servers import HOST, ServerProcess

PART = 5 * 1024 * 1024
PATIENCE_S = 20.0
FLAT_MB = 40  # of growth: some pieces of 4 MB, a batch, and what the interpreter keeps
UPLOADS, FILES = "/v1/uploads", "/v1/files"
pytestmark = pytest.mark.timeout(300)


class Client:
    """A client that sends whole bodies, and reads contents in pieces."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server

    def post(self, path: str, body: Any, content_type: str = "application/json") -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection(HOST, self._server.port)
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, sent, {"content-type": content_type})
        answer = connection.getresponse()
        found = answer.status, json.loads(answer.read())
        connection.close()
        return found

    def add(self, upload: str, part: bytes) -> str:
        status, made = self.post(f"{UPLOADS}/{upload}/parts", form_of({}, part, name="data"), FORM_TYPE)
        assert status == 200, made
        part_id: str = made["id"]
        return part_id

    def digest(self, file_id: str) -> str:
        connection = http.client.HTTPConnection(HOST, self._server.port)
        connection.request("GET", f"{FILES}/{file_id}/content")
        answer = connection.getresponse()
        assert answer.status == 200
        digest = hashlib.sha256()
        while piece := answer.read(65_536):
            digest.update(piece)
        connection.close()
        return digest.hexdigest()


def memory_mb(server: ServerProcess, name: str = "VmRSS") -> float:
    status = Path(f"/proc/{server.process_id}/status").read_text()
    return int(re.findall(rf"{name}:\s+(\d+)", status)[0]) / 1_024


def check_upload(folder: Path, count: int) -> float:
    """Send so many parts out of order, one of them twice, and one only after a first completion.

    Returns:
        The megabytes that the server's memory grew by, at most.
    """
    with ServerProcess(folder) as server:
        client = Client(server)
        client.post(FILES, form_of({"purpose": "vision"}, b"x" * PART), FORM_TYPE)
        before = memory_mb(server)
        random = Random(20)
        parts = [random.randbytes(PART) for _ in range(count)]
        size, expected = count * PART, hashlib.sha256(b"".join(parts)).hexdigest()
        new = {"bytes": size, "filename": "stones", "mime_type": "application/x-stones", "purpose": "user_data"}
        upload = client.post(UPLOADS, new)[1]["id"]
        *order, last = random.sample(range(count), count)
        ids = {position: client.add(upload, parts[position]) for position in (*order, order[0])}
        named = [ids[position] for position in range(count) if position != last]
        status, refused = client.post(f"{UPLOADS}/{upload}/complete", {"part_ids": named})
        assert (status, refused["error"]["param"]) == (400, "part_ids")
        ids[last] = client.add(upload, parts[last])
        whole = [ids[position] for position in range(count)]
        status, completed = client.post(f"{UPLOADS}/{upload}/complete", {"part_ids": whole})
        assert (status, completed["file"]["bytes"]) == (200, size)
        assert client.digest(completed["file"]["id"]) == expected
        return memory_mb(server, "VmHWM") - before


def test_an_upload_is_byte_equal_and_takes_little_memory(tmp_path: Path) -> None:
    """With fewer parts than at night, though more than the memory may grow by."""
    count = 12
    assert count * PART > FLAT_MB * 1_048_576
    assert check_upload(tmp_path, count) < FLAT_MB


@pytest.mark.nightly
def test_an_upload_of_200_mb_is_byte_equal_and_takes_little_memory(tmp_path: Path) -> None:
    assert check_upload(tmp_path, 40) < FLAT_MB


def head_of(length: int | None, path: str = FILES) -> bytes:
    """Return the head of a form of that length, of one in chunks without a length."""
    framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    return f"POST {path} HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: {FORM_TYPE}\r\n{framing}\r\n\r\n".encode()


def status_of(connection: socket.socket) -> int:
    connection.settimeout(PATIENCE_S)
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = connection.recv(65_536)
        assert piece, f"the connection was closed after {answer!r}"
        answer += piece
    return int(answer.split()[1])


def test_nothing_is_left_of_files_that_did_not_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a client that leaves, one that is too slow, and one that never ends."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    with ServerProcess(tmp_path, max_file_bytes=8_000_000, body_seconds=1) as server:
        client = Client(server)
        body = form_of({"purpose": "vision"}, b"x" * 4_000_000)
        assert client.post(FILES, body, FORM_TYPE)[0] == 200
        before, payloads = memory_mb(server), payloads_of(server)
        for _ in range(20):
            with socket.create_connection((HOST, server.port)) as leaving:
                leaving.sendall(head_of(len(body)) + body[:3_000_000])
        with socket.create_connection((HOST, server.port)) as slow:
            slow.sendall(head_of(len(body)) + body[:100])
            assert status_of(slow) == 408
        with socket.create_connection((HOST, server.port)) as endless:
            endless.settimeout(PATIENCE_S)
            endless.sendall(head_of(None) + chunk(body[: -len(BOUNDARY) - 8]))
            assert send_until_closed(endless) < 60_000_000
        deadline = time.monotonic() + PATIENCE_S
        while open_files_below(server, folder) or list(folder.iterdir()):
            assert time.monotonic() < deadline, "a temporary file is left"
            time.sleep(0.02)
        assert payloads_of(server) == payloads
        assert memory_mb(server) - before < FLAT_MB


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def send_until_closed(connection: socket.socket) -> int:
    """Send chunks until the server closes the connection; return how many bytes went out."""
    sent, piece = 0, chunk(b"x" * 1_000_000)
    try:
        while sent < 100_000_000:
            connection.sendall(piece)
            sent += len(piece)
    except OSError:
        pass
    return sent


def payloads_of(server: ServerProcess) -> set[Path]:
    return set((server.data_dir / "blobs").rglob("*.blob"))


def open_files_below(server: ServerProcess, folder: Path) -> list[str]:
    """Return the open files of the server below the folder, which have no name any more."""
    found = []
    for descriptor in Path(f"/proc/{server.process_id}/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except OSError:  # closed in the meantime
            continue
        if target.startswith(str(folder)):
            found.append(target)
    return found
