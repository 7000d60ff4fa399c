"""The files that jailed code sees: Python, its packages and the system's libraries to read, one folder to write."""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from turnstone.adapters.tools.jail import kernel

SCRATCH = "/tmp"  # noqa: S108 # within the jail, where nobody else has been
WORK = f"{SCRATCH}/work"
_OLD = "/outside"
_SYSTEM = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/share/fonts",
    "/usr/share/zoneinfo",
    "/etc/alternatives",  # where the names of some libraries lead
    "/etc/ld.so.cache",
    "/dev/null",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
)


def module_paths() -> list[str]:
    """Return where this Python has its own modules and its packages, without what was added to be found besides."""
    own = os.path.dirname(os.__file__)
    packages = site.getsitepackages()
    return [path for path in sys.path if path in (own, *packages) or os.path.dirname(path) == own]


def visible_paths() -> list[str]:
    """Return what is to be seen in the jail, shorter paths first."""
    libraries = os.path.join(sys.base_prefix, "lib")
    return sorted({*_SYSTEM, libraries, *module_paths()}, key=len)


@dataclass(frozen=True)
class Files:
    """What there is to be in the jail.

    Attributes:
        visible: paths that can be read, shorter ones first.
        hidden: folders that can't be, even if they are below those.
        scratch_bytes: how much can be written, in memory.
        scratch_files: in how many files and folders.
    """

    visible: Sequence[str]
    hidden: Sequence[str]
    scratch_bytes: int
    scratch_files: int


def enter_root(files: Files) -> None:
    """Make a root of these files, and leave all others behind.

    Raises:
        JailRefused: the kernel does not allow it.
        OSError: a path can't be made.
    """
    sources = {path: os.path.realpath(path) for path in files.visible if os.path.exists(path)}
    hidden = [os.path.realpath(path) for path in files.hidden]
    links = {path: os.readlink(path) for path in sources if os.path.islink(path)}
    kernel.mount("none", "/", kernel.PRIVATE | kernel.ALL_BELOW)
    kernel.mount("tmpfs", SCRATCH, kernel.NO_SUID | kernel.NO_DEVICES, "tmpfs", "size=1m,mode=0755")
    os.mkdir(SCRATCH + _OLD)
    kernel.move_into(SCRATCH, SCRATCH + _OLD)
    os.chdir("/")
    for path, source in sources.items():
        if path in links:
            os.symlink(links[path], path)
        elif not os.path.lexists(path):
            _show(path, source, hidden)
    kernel.let_go(_OLD)
    os.rmdir(_OLD)
    os.makedirs(SCRATCH, exist_ok=True)
    kernel.make_read_only("/")
    flags = kernel.NO_SUID | kernel.NO_DEVICES | kernel.NO_PROGRAMS
    room = f"size={files.scratch_bytes},nr_inodes={files.scratch_files}"
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
