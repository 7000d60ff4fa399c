"""Deleting on a full disk: the reserved space lets a large session be deleted, and the freed space is used again."""

from __future__ import annotations

import ctypes
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile

from tests.attack.finding import Attack, Finding
from tests.support.clients.plain_client import Json, PlainClient, turn_body
from tests.support.server.servers import ROOT, ServerProcess, wait_until

DISK_BYTES, FULL_DISK_BYTES = 64 * 1024 * 1024, 112 * 1024 * 1024
TURNS, FULL_TURNS = 36, 60
TURN_CHARACTERS = 550_000  # as many as a record of the database can hold
PART_BYTES = 64 * 1024
PATIENCE_S = 30.0
# Source: unshare(2), for the two numbers
HOLDER = """
import ctypes, os, sys
from pathlib import Path
system, user, group = ctypes.CDLL(None), os.getuid(), os.getgid()
if system.unshare(0x10000000 | 0x00020000) == 0:
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    if system.mount(b"tmpfs", os.fsencode(sys.argv[1]), b"tmpfs", 0, sys.argv[2].encode()) == 0:
        print("mounted", flush=True)
        sys.stdin.read()
"""


def run(folder: Path, full: bool) -> Iterator[Finding]:
    """Fill the disk of a server, start it again, delete its largest session, and write again."""
    data_dir = folder / "data"
    data_dir.mkdir()
    with ExitStack() as stack:
        disk = stack.enter_context(a_disk(data_dir, FULL_DISK_BYTES if full else DISK_BYTES))
        if disk is None:
            yield Finding("a disk of its own for the server", "this machine allows none", "none needed", True)
            return
        data = Path(f"/proc/{disk}/root{data_dir}")
        server = stack.enter_context(ServerProcess(folder, before_start=partial(enter, disk)))
        client = stack.enter_context(PlainClient(server.url))
        large, small, other = (client.open_session("offline") for _ in range(3))
        for _ in range(FULL_TURNS if full else TURNS):
            assert client.post(f"{large}/turn", long_text()).status_code == 200
        fill(data)
        # The log that is there has room for some.
        statuses = iter(lambda: client.post(f"{small}/turn", long_text()).status_code, 503)
        yield answered("turns while the disk is full", 503 if len(list(islice(statuses, 50))) < 50 else 200, 503)
        server.terminate()
        server.wait(PATIENCE_S)
        fill(data)
        server.start()
        began = time.monotonic()
        yield answered("after a start, the deletion of the largest session", client.delete(large).status_code, 204)
        yield cleaned(data, folder / "copy", large, began)
        yield answered(
            "a turn in the room inside the database", client.post(f"{other}/turn", turn_body("two")).status_code
        )
        for filler in data.glob("filler*"):
            filler.unlink()
        wait_until(lambda: client.post(f"{other}/turn", turn_body("three")).status_code == 200, PATIENCE_S, "no room")
        size_bytes = (data / "turnstone.reserve").stat().st_size
        yield Finding("the reserve once there is room", f"{size_bytes} bytes", "8 MB", size_bytes == 8 * 1024 * 1024)


def long_text() -> Json:
    return turn_body(os.urandom(TURN_CHARACTERS // 2).hex())


def answered(what: str, status: int, bar: int = 200) -> Finding:
    return Finding(what, f"{status}", f"{bar}", status == bar)


def cleaned(data: Path, copy: Path, session: str, began: float) -> Finding:
    """Wait until nothing of the session is left in the database."""
    session_id = session.rpartition("/")[2]
    copy.mkdir()

    def is_gone() -> bool:
        for part in data.glob("turnstone.db*"):
            shutil.copy(part, copy)
        with closing(sqlite3.connect(copy / "turnstone.db")) as database:
            query = "SELECT count(*) FROM items WHERE pk LIKE ?"
            (left,) = database.execute(query, (f"%|session:%{session_id}",)).fetchone()
            return int(left) == 0

    what, bar = "its clean-up on the full disk", f"{PATIENCE_S:g} s at most"
    try:
        wait_until(is_gone, PATIENCE_S, "the session is not cleaned up")
    except AssertionError:
        return Finding(what, "not done", bar, False)
    return Finding(what, f"{time.monotonic() - began:.1f} s", bar, True)


def fill(data: Path) -> None:
    """Take all the room that is left on the disk."""
    with NamedTemporaryFile(dir=data, prefix="filler", delete=False, buffering=0) as file:
        for size in (PART_BYTES, 4096):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
    assert shutil.disk_usage(data).free == 0


@contextmanager
def a_disk(folder: Path, size_bytes: int) -> Iterator[int | None]:
    """Mount a disk of that size at the folder in a process; yield its id, or None where that is not allowed."""
    command = [sys.executable, "-c", HOLDER, str(folder), f"size={size_bytes},mode=700"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        try:
            yield holder.pid if holder.stdout.readline() == "mounted\n" else None
        finally:
            holder.kill()


def enter(process_id: int) -> None:
    """Read the disks that the process sees."""
    for kind in ("user", "mnt"):
        namespace = os.open(f"/proc/{process_id}/ns/{kind}", os.O_RDONLY)
        if ctypes.CDLL(None, use_errno=True).setns(namespace, 0) != 0:
            raise OSError(ctypes.get_errno(), f"the namespace {kind!r} can't be entered")
        os.close(namespace)
    os.chdir(ROOT)


ATTACK = Attack("full disk", run)
