"""Hostile code that searches for paths and numbers of its server, in every way that a process has.

It gets each text reversed and each number negated, so that it does not find its own copies.
It prints one line for each find, and at the end the number of searched objects.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

HUNT = r'''
import ctypes, gc, inspect, io, os, socket, sys, traceback

texts = {"texts"}
numbers = {"numbers"}
looked_at = 0


def look(place, text):
    global looked_at
    looked_at += 1
    backwards = (text.encode(errors="surrogateescape") if isinstance(text, str) else bytes(text))[::-1]
    for name, wanted in texts.items():
        if wanted.encode() in backwards:
            print(f"{name} in {place}")


def look_at_number(place, number):
    global looked_at
    looked_at += 1
    for name, wanted in numbers.items():
        if number == -wanted:
            print(f"{name} in {place}")


def frames():
    frame = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back
    yield from (info.frame for info in inspect.stack())
    yield from sys._current_frames().values()
    try:
        raise ValueError
    except ValueError as error:
        yield from (frame for frame, _ in traceback.walk_tb(error.__traceback__))


def objects():
    seen, left = set(), [*gc.get_objects(), *frames(), sys.modules, vars(sys), sys.modules["__main__"].__dict__]
    left += [value for frame in frames() for value in (frame.f_locals, frame.f_globals, frame.f_builtins)]
    own = {id(texts), id(numbers)}
    while left:
        one = left.pop()
        if id(one) in seen or id(one) in own:
            continue
        seen.add(id(one))
        if isinstance(one, (str, bytes, bytearray)):
            look("an object", one)
        elif type(one) is int:
            look_at_number("an object", one)
        elif len(seen) < 400_000:
            left += gc.get_referents(one)


def files():
    names = "environ cmdline status stat mountinfo mounts maps uid_map gid_map cgroup fdinfo/0 exe cwd root".split()
    for process in ("self", "thread-self", "1", "2", *(str(-number) for number in numbers.values())):
        for name in names:
            path = f"/proc/{process}/{name}"
            for read in (lambda: open(path, "rb").read(), lambda: os.readlink(path)):
                try:
                    look(path, read())
                except OSError:
                    pass
    for folder in ("/", "/tmp", "/tmp/work", "/root", "/home", "/dev", "/dev/shm", "/etc", "/var", "/run", "/sys"):
        try:
            for path, folders, names in os.walk(folder):
                if path.count("/") > 4:
                    folders.clear()
                for name in (*folders, *names):
                    look(path, os.path.join(path, name))
                    if os.path.islink(os.path.join(path, name)):
                        look(path, os.readlink(os.path.join(path, name)))
        except OSError:
            pass


def process():
    for place, value in {
        "environ": os.environ, "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path, "prefix": sys.prefix,
        "flags": (sys.flags, sys._xoptions, sys.warnoptions), "executable": sys.executable, "cwd": os.getcwd(),
        "host": (socket.gethostname(), os.uname()), "modules": list(map(repr, sys.modules.values())),
    }.items():
        look(place, repr(value))
    for place, number in {
        "getppid": os.getppid(), "getpid": os.getpid(), "getpgrp": os.getpgrp(), "getsid": os.getsid(0),
        "parent's group": os.getpgid(os.getppid() or 1),
    }.items():
        look_at_number(place, number)
    for fd in range(256):
        for read in (lambda: os.readlink(f"/dev/fd/{fd}"), lambda: os.pread(fd, 1 << 20, 0)):
            try:
                look(f"descriptor {fd}", read())
            except OSError:
                pass


def memory():
    """Look at what is mapped around known addresses; the kernel says by EFAULT what is not, so nothing breaks."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.write.argtypes = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
    libc.sbrk.restype = ctypes.c_void_p
    page, span = 4096, 1 << 23
    reader, writer = os.pipe()
    stack = ctypes.cast(ctypes.c_void_p.in_dll(libc, "environ"), ctypes.c_void_p).value
    for near in (id(object()), id(sys), id(texts), libc.sbrk(ctypes.c_ssize_t(0)) - span // 2, stack):
        before = b""
        for address in range((near - span) // page * page, near + span, page):
            if libc.write(writer, address, page) == page:
                body = os.read(reader, page)
                look("memory", before[-512:] + body)
                before = body
            else:
                before = b""


for hunt in (objects, files, process, memory):
    hunt()
print("looked at", looked_at)
'''


def hunt(texts: Mapping[str, str], numbers: Mapping[str, int]) -> str:
    """Return the code that hunts for these texts and numbers, each under the name that it prints when it finds one."""
    backwards = {name: text[::-1] for name, text in texts.items()}
    negated = {name: -number for name, number in numbers.items()}
    return HUNT.replace('{"texts"}', json.dumps(backwards)).replace('{"numbers"}', json.dumps(negated))


def finds_in(stdout: str, numbers: Mapping[str, int]) -> list[str]:
    """Return the distinct finds, except numbers that an interpreter apart from any server holds as well.

    Raises:
        AssertionError: the hunt did not come to its end.
    """
    *found, last = stdout.splitlines()
    assert last.startswith("looked at "), stdout
    assert int(last.removeprefix("looked at ")) > 10_000, last
    by_chance = {line for line in found if line.endswith(" in an object")} and _found_by_chance(numbers)
    return sorted(set(found) - by_chance)


def _found_by_chance(numbers: Mapping[str, int]) -> set[str]:
    command = [sys.executable, "-I", "-S", "-c", hunt({}, numbers)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())
