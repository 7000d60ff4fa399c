"""Readable files of the machine in the jail: Python, its packages and the system's libraries."""

from __future__ import annotations

import os
import site
import sys

_SYSTEM = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/share/fonts",
    "/usr/share/zoneinfo",
    "/etc/alternatives",  # the targets of some libraries' links
    "/etc/ld.so.cache",
    "/dev/null",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
)


def module_paths() -> list[str]:
    """Return the folders of this Python's own modules and packages, without additions to its path."""
    own = os.path.dirname(os.__file__)
    packages = site.getsitepackages()
    return list(dict.fromkeys(path for path in sys.path if path in (own, *packages) or os.path.dirname(path) == own))


def interpreter() -> str:
    """Return this Python's program, the base of a virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def visible_paths() -> list[str]:
    """Return the paths to mount in the jail, shorter paths first."""
    program = interpreter()
    own_of_program = os.path.join(os.path.dirname(os.path.dirname(program)), "lib")
    libraries = os.path.join(sys.base_prefix, "lib")
    return sorted({*_SYSTEM, libraries, own_of_program, program, *module_paths(), *_mapped()}, key=len)


def _mapped() -> set[str]:
    """Return the files mapped into this process, such as the C library, wherever the system stores them."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        paths = {line.rstrip("\n").split(maxsplit=5)[-1] for line in maps}
    return {path for path in paths if ".so" in os.path.basename(path) and os.path.isfile(path)}
