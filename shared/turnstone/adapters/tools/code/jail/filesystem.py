"""File system of jailed code: Python, its packages and the system's libraries to read, one folder to write."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from turnstone.adapters.tools.code.jail import kernel

SCRATCH = "/tmp"  # noqa: S108 # within the jail, without other users
WORK = f"{SCRATCH}/work"
_OLD = "/.outside-of-the-jail"  # no folder of a machine, which could not be shown then


@dataclass(frozen=True)
class JailFiles:
    """The contents of the jail.

    Attributes:
        visible: readable paths, shorter ones first.
        hidden: unreadable folders, even below visible ones.
        scratch_bytes: the limit of writable memory.
        scratch_files: the limit of files and folders.
    """

    visible: Sequence[str]
    hidden: Sequence[str]
    scratch_bytes: int
    scratch_files: int


def enter_root(files: JailFiles) -> None:
    """Create a root of these files, and detach all others.

    Raises:
        JailRefused: the kernel does not allow it.
        OSError: a path cannot be created.
    """
    sources = {path: os.path.realpath(path) for path in files.visible if os.path.exists(path)}
    hidden = [os.path.realpath(path) for path in files.hidden]
    kernel.mount("none", "/", kernel.PRIVATE | kernel.ALL_BELOW)
    kernel.mount("tmpfs", SCRATCH, kernel.NO_SUID | kernel.NO_DEVICES, "tmpfs", "size=1m,mode=0755")
    os.mkdir(SCRATCH + _OLD)
    kernel.move_into(SCRATCH, SCRATCH + _OLD)
    os.chdir("/")
    _make_scratch(files)
    for path, source in sources.items():
        # a path below another visible one is there already; a link is mounted at its target
        target = source if os.path.lexists(path) else path
        if not os.path.lexists(target):
            _show(target, source, hidden)
    kernel.let_go(_OLD)
    os.rmdir(_OLD)
    kernel.make_read_only("/")
    kernel.make_writable(SCRATCH)


def _make_scratch(files: JailFiles) -> None:
    """Mount the writable folder. Before all others, because visible paths may be below it."""
    flags = kernel.NO_SUID | kernel.NO_DEVICES | kernel.NO_PROGRAMS
    room = f"size={files.scratch_bytes},nr_inodes={files.scratch_files}"
    os.makedirs(SCRATCH, exist_ok=True)
    kernel.mount("tmpfs", SCRATCH, flags, "tmpfs", f"{room},mode=1777")
    os.mkdir(WORK)
    os.chmod(WORK, 0o777)  # noqa: S103 # the code may run as another user of the jail


def _show(path: str, source: str, hidden: Sequence[str]) -> None:
    _make_target(path, is_folder=os.path.isdir(_OLD + source))
    kernel.mount(_OLD + source, path, kernel.BIND | kernel.ALL_BELOW)
    for folder in hidden:
        if f"{folder}/".startswith(f"{source}/") and os.path.isdir(_OLD + folder):
            kernel.mount("tmpfs", path + folder[len(source) :], kernel.NO_DEVICES, "tmpfs", "size=4k,mode=0555")


def _make_target(path: str, *, is_folder: bool) -> None:
    if is_folder:
        os.makedirs(path, exist_ok=True)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
