"""System calls of the Linux kernel for a jail, which Python does not offer."""

from __future__ import annotations

import ctypes
import os
import struct

NEW_MOUNTS, NEW_NAME, NEW_IPC = 0x00020000, 0x04000000, 0x08000000
NEW_USERS, NEW_PROCESSES, NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
NO_SUID, NO_DEVICES, NO_PROGRAMS = 2, 4, 8
BIND, ALL_BELOW, PRIVATE = 4096, 16384, 1 << 18

_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CAPSET = {"x86_64": 126, "aarch64": 91}
_MOUNT_SETATTR = 442
_SET_DEATH_SIGNAL, _SET_NO_NEW_PRIVILEGES = 1, 38
_AMBIENT, _CLEAR_ALL = 47, 4
_CAPABILITIES_VERSION = 0x20080522
_DETACH = 2
_HERE, _RECURSIVE = -100, 0x8000
_READ_ONLY = 1
_SIGKILL = 9
_libc = ctypes.CDLL(None, use_errno=True)


class JailRefused(Exception):
    """The kernel refuses a part of the jail; the message names it."""


def unshare(flags: int) -> None:
    """Leave the namespaces of these flags; only children leave a PID namespace. Raises JailRefused."""
    _check(_libc.unshare(ctypes.c_int(flags)), "namespaces of its own")


def mount(source: str, target: str, flags: int, kind: str | None = None, options: str | None = None) -> None:
    """Mount, or change a mount. Raises JailRefused."""
    encoded = [text.encode() if text is not None else None for text in (source, target, kind, options)]
    result = _libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])
    _check(result, "a mount")


def move_into(root: str, old: str) -> None:
    """Make `root` the root; the previous root is below `old` then. Raises JailRefused."""
    _check(_call(_PIVOT_ROOT[os.uname().machine], root.encode(), old.encode()), "a root of its own")


def let_go(path: str) -> None:
    """Unmount a path and all mounts below it. Raises JailRefused."""
    _check(_libc.umount2(path.encode(), ctypes.c_int(_DETACH)), "to let go of the files outside")


def make_read_only(path: str) -> None:
    """Make a mount and all mounts below it read-only and nosuid.

    Raises:
        JailRefused: also from a kernel before 5.12, which cannot change all of them at once.
    """
    _set_attributes(path, _RECURSIVE, struct.pack("=QQQQ", _READ_ONLY | NO_SUID, 0, 0, 0))


def make_writable(path: str) -> None:
    """Make this one mount writable again, and none below it. Raises JailRefused."""
    _set_attributes(path, 0, struct.pack("=QQQQ", 0, _READ_ONLY, 0, 0))


def _set_attributes(path: str, flags: int, attributes: bytes) -> None:
    result = _call(_MOUNT_SETATTR, _HERE, path.encode(), flags, attributes, len(attributes))
    _check(result, "read-only mounts")


def name_machine(name: str) -> None:
    """Set a host name and a domain name for this namespace. Raises JailRefused."""
    for change in (_libc.sethostname, _libc.setdomainname):
        _check(change(name.encode(), ctypes.c_size_t(len(name))), "a name of its own")


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends. Raises JailRefused."""
    _check(_prctl(_SET_DEATH_SIGNAL, _SIGKILL), "to end with its parent")


def drop_rights() -> None:
    """Drop every capability permanently: no program started later can regain one. Raises JailRefused."""
    _check(_prctl(_SET_NO_NEW_PRIVILEGES, 1), "to do without new rights")
    _check(_prctl(_AMBIENT, _CLEAR_ALL), "to give up its rights")
    header = struct.pack("=Ii", _CAPABILITIES_VERSION, 0)
    _check(_call(_CAPSET[os.uname().machine], header, bytes(24)), "to give up its rights")


def _prctl(option: int, *arguments: int) -> int:
    c_arguments = [ctypes.c_ulong(given) for given in arguments]
    result: int = _libc.prctl(ctypes.c_int(option), *c_arguments, *[ctypes.c_ulong(0)] * (4 - len(c_arguments)))
    return result


def _call(number: int, *arguments: int | bytes) -> int:
    c_arguments = [ctypes.c_long(given) if isinstance(given, int) else ctypes.c_char_p(given) for given in arguments]
    result: int = _libc.syscall(ctypes.c_long(number), *c_arguments)
    return result


def _check(result: int, what: str) -> None:
    if result < 0:
        raise JailRefused(f"the kernel refuses {what} ({os.strerror(ctypes.get_errno())})")
