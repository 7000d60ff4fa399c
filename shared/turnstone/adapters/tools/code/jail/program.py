"""Program of the jail's second interpreter: read a job, install the system call filter, become the code.

The first interpreter holds paths of the server and its process id; it creates the jail and replaces itself by this
one, so that no frame, object or memory page of the code's process ever held them. This source is passed as text and
imports none of the server's modules.
"""

from __future__ import annotations

import ctypes
import linecache
import marshal
import os
import site
import struct
import sys
import traceback
from types import ModuleType, TracebackType
from typing import Any

CODE = "<code>"
_SET_SECCOMP, _FILTER = 22, 2


def main() -> None:
    """Run the job on standard input: a marshalled dict of `code`, `filter`, `modules` and `prefix`."""
    become_code(_prepared())


def become_code(code: str) -> None:
    """Execute the code as the module `__main__`."""
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.excepthook = _show
    linecache.cache[CODE] = len(code), None, code.splitlines(keepends=True), CODE
    exec(compile(code, CODE, "exec"), module.__dict__)  # noqa: S102 # the purpose of the jail


def _prepared() -> str:
    """Return the compiled code, after dropping everything that only the server's program may use."""
    with open(0, "rb", closefd=False) as given:
        job: dict[str, Any] = marshal.load(given)  # noqa: S302 # written by the first interpreter
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.path[:] = job["modules"]
    sys.prefix = sys.exec_prefix = job["prefix"]
    sys.argv[:] = sys.orig_argv[:] = [CODE]
    site.setquit()
    site.setcopyright()
    site.sethelper()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr] # printed text stays if the code is killed
    _install_filter(job["filter"])
    return str(job["code"])


def _install_filter(program: bytes) -> None:
    instructions = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions))
    arguments = ctypes.c_ulong(_FILTER), ctypes.c_char_p(described), ctypes.c_ulong(0), ctypes.c_ulong(0)
    if ctypes.CDLL(None).prctl(ctypes.c_int(_SET_SECCOMP), *arguments) != 0:
        os.write(2, b"the kernel refuses a filter of system calls\n")
        os._exit(1)


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the code's traceback without the frames of this program."""
    while trace is not None and trace.tb_frame.f_code.co_filename != CODE:
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)


if __name__ == "__main__":
    main()
