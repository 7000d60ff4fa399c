"""A few of the losses of power that `make lost-power` simulates forty times, and its reading of traces.

Covers: adapters/sqlite/sqlite_log, adapters/sqlite/folders
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.e2e.lost_power import lost_power
from tests.support.needs import need_programs
from tests.support.stores.disk_trace import Disk, calls_in

MOMENTS = 3


@pytest.mark.slow
def test_no_received_result_is_lost_with_the_power(tmp_path: Path) -> None:
    need_programs("strace")
    counts = lost_power(tmp_path, MOMENTS, sessions=2, seed=7)
    assert counts["losses of power"] == MOMENTS
    assert counts["results checked"] > MOMENTS


def test_synced_writes_are_left_and_others_may_be_missing(tmp_path: Path) -> None:
    trace = """\
1 10.000000 mkdir("/d/a", 0700) = 0 <0.000010>
1 10.100000 openat(AT_FDCWD</>, "/d/a/log", O_RDWR|O_CREAT, 0600) = 5</d/a/log> <0.000010>
1 10.200000 fsync(3</d>) = 0 <0.001000>
1 10.300000 pwrite64(5</d/a/log>, "s\\0re", 4, 0) = 4 <0.000010>
2 10.400000 fdatasync(5</d/a/log> <unfinished ...>
1 10.500000 pwrite64(5</d/a/log>, "late", 4, 4) = 4 <0.000010>
2 10.600000 <... fdatasync resumed>) = 0 <0.200000>
1 10.700000 unlink("/d/a/none") = -1 ENOENT (No such file or directory) <0.000010>
1 10.800000 --- SIGTERM {si_signo=SIGTERM, si_code=SI_USER, si_pid=9, si_uid=0} ---
"""
    unsynced, named = set(), set()
    for number in range(40):
        for is_named, found in ((False, unsynced), (True, named)):
            disk = Disk(Path("/d"))
            for call in calls_in(trace.splitlines()):
                disk.take(call)
            if is_named:
                for call in calls_in(["1 10.900000 fsync(3</d/a>) = 0 <0.000010>"]):
                    disk.take(call)
            left = tmp_path / f"{number}-{is_named}"
            disk.left(left, random.Random(number))
            log = left / "a" / "log"
            found.add(log.read_bytes() if log.exists() else None)
    assert unsynced == {None, b"s\0re", b"s\0relate"}
    assert named == {b"s\0re", b"s\0relate"}


@pytest.mark.parametrize(
    "line", ['linkat(AT_FDCWD</>, "/d/a", AT_FDCWD</>, "/d/b", 0) = 0', 'pwrite64(5</d/x>, "a", 1, 0) = 1']
)
def test_an_unsupported_call_about_the_disk_raises(line: str) -> None:
    (call,) = calls_in([f"1 10.000000 {line} <0.000010>"])
    with pytest.raises(AssertionError):
        Disk(Path("/d")).take(call)
