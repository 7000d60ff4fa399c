"""Usable memory of this process: the machine's, or the lower limit of its control group.

Source: proc(5) for meminfo and cgroup; the kernel's documentation of cgroup-v2 (`memory.max`) and of cgroup-v1
(`memory.limit_in_bytes`). A limit of any group above holds as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path("/")


def usable_memory_bytes(root: Path = ROOT) -> int | None:
    """Return the memory in bytes that this process shares with all others, None where no system file states it.

    Args:
        root: the folder that contains `proc` and `sys`.
    """
    found = [*_of_machine(root), *_of_groups(root)]
    return min(found, default=None)


def _of_machine(root: Path) -> Iterator[int]:
    for line in _lines(root / "proc/meminfo"):
        name, _, value = line.partition(":")
        if name == "MemTotal":
            yield int(value.split()[0]) * 1024


def _of_groups(root: Path) -> Iterator[int]:
    groups = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            yield from _limits(groups, path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _limits(groups / "memory", path, "memory.limit_in_bytes")


def _limits(mounted: Path, path: str, name: str) -> Iterator[int]:
    """Yield the limits of the group and its ancestors; a container may see only the topmost."""
    group = PurePosixPath(path.lstrip("/"))
    for folder in (group, *group.parents):
        for line in _lines(mounted / folder / name):
            if line.isdecimal():
                yield int(line)


def _lines(path: Path) -> list[str]:
    """Return the file's lines, none for a missing or unreadable file."""
    try:
        return path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
