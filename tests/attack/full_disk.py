"""Deleting on a full disk: the room that is kept back lets a large session go, and what it frees is used again."""

from __future__ import annotations

import ctypes
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from pathlib import Path

from tests.attack.finding import Attack, Finding
from tests.e2e.plain_client import Json, PlainClient, said
from tests.servers import ServerProcess, wait_until

DISK_BYTES, FULL_DISK_BYTES = 64 * 1024 * 1024, 112 * 1024 * 1024
TURNS, FULL_TURNS = 36, 60
TURN_CHARACTERS = 550_000  # as many as a record of the database can hold
PART_BYTES = 64 * 1024
PATIENCE_S = 30.0
NEW_USER, NEW_MOUNTS = 0x10000000, 0x00020000  # of unshare(2)


def run(folder: Path, full: bool) -> Iterator[Finding]:
    """Fill the disk of a server, delete its largest session, and write again."""
    folder.joinpath("data").mkdir()
    if not has_namespaces():
        yield Finding("a disk of its own for the server", "this machine allows none", "none needed", True)
        return
    disk = partial(mount_disk, folder / "data", FULL_DISK_BYTES if full else DISK_BYTES)
    with (
        ServerProcess(folder, before_start=disk, data_dir=folder / "data") as server,
        PlainClient(server.url) as client,
    ):
        data = Path(f"/proc/{server.pid}/root{folder / 'data'}")
        large, small, other = (client.open_session("offline") for _ in range(3))
        for _ in range(FULL_TURNS if full else TURNS):
            assert client.post(f"{large}/turn", long_text()).status_code == 200
        fill(data / "filler")
        # The log that is there has room for some.
        statuses = iter(lambda: client.post(f"{small}/turn", long_text()).status_code, 503)
        yield answered("turns while the disk is full", 503 if len(list(islice(statuses, 50))) < 50 else 200, 503)
        began = time.monotonic()
        yield answered("the deletion of the largest session", client.delete(large).status_code, 204)
        yield cleaned(data, folder / "copy", large, began)
        yield answered("a turn in the room inside the database", client.post(f"{other}/turn", said("two")).status_code)
        (data / "filler").unlink()
        wait_until(lambda: client.post(f"{other}/turn", said("three")).status_code == 200, PATIENCE_S, "no room")
        size_bytes = (data / "turnstone.reserve").stat().st_size
        yield Finding("the reserve once there is room", f"{size_bytes} bytes", "8 MB", size_bytes == 8 * 1024 * 1024)


def long_text() -> Json:
    return said(os.urandom(TURN_CHARACTERS // 2).hex())


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


def fill(filler: Path) -> None:
    """Take all the room that is left on the disk."""
    with filler.open("wb", buffering=0) as file:
        for size in (PART_BYTES, 4096):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
    assert shutil.disk_usage(filler.parent).free == 0


def has_namespaces() -> bool:
    """Return whether a process may have mounts of its own here."""
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(NEW_USER | NEW_MOUNTS) == 0 else 1)
    return os.waitpid(child, 0)[1] == 0


def mount_disk(folder: Path, size_bytes: int) -> None:
    """Give this process a disk of that size at the folder, which no other process sees."""
    system, user, group = ctypes.CDLL(None, use_errno=True), os.getuid(), os.getgid()
    if system.unshare(NEW_USER | NEW_MOUNTS) != 0:
        raise OSError(ctypes.get_errno(), "no namespaces")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    options = f"size={size_bytes},mode=700".encode()
    if system.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, options) != 0:
        raise OSError(ctypes.get_errno(), "no disk")


ATTACK = Attack("full disk", run)
