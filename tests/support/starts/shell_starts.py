"""Programs for a shell: a `python3` and a `turnstone` that are forks of a process with their modules.

A shell starts a short script. It names its process id in a pipe and waits; a fork takes over its folder, variables,
arguments and streams, and answers with the exit status. Servers, and programs in files, are new Pythons.
"""

from __future__ import annotations

import gc
import os
import runpy
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from stat import S_ISREG
from types import ModuleType

from tests.support.starts.warm_starts import ROOT, open_streams, status_of

NAMES = ("python3", "turnstone")
SCRIPT = """#!/bin/bash
case "${0##*/} $1" in
"python3 -") ;;
"python3 "* | "turnstone serve") exec "%(real)s/${0##*/}" "$@" ;;
esac
mkfifo "%(folder)s/$$"
echo $$ > "%(folder)s/requests"
read -r -u 9 status 9< "%(folder)s/$$"
exit "${status:-1}"
"""


@contextmanager
def shell_programs(folder: Path, python_path: str, *modules: str) -> Iterator[Path]:
    """Yield the folder of the programs, which have imported these modules, found on that path."""
    real = Path(sys.executable).parent
    for name in NAMES:
        (folder / name).write_text(SCRIPT % {"folder": folder, "real": real})
        (folder / name).chmod(0o755)
    os.mkfifo(folder / "requests")
    words = [sys.executable, "-m", __name__, str(folder), *modules]
    process = subprocess.Popen(words, cwd=ROOT, env={**os.environ, "PYTHONPATH": python_path})
    try:
        yield folder
    finally:
        process.kill()
        process.wait()


def main(folder: Path, *modules: str) -> None:
    """Start a fork for each process id that comes through the pipe."""
    for module in modules:
        import_module(module)
    gc.freeze()
    sys.path[:] = [path for path in sys.path if path not in ("", str(ROOT))]
    with open(folder / "requests", "r+b", buffering=0) as requests:
        while number := _line(requests.fileno()):
            if os.fork() == 0:
                requests.close()
                _take_over(Path("/proc", number), folder / number)
            _reap()


def _line(descriptor: int) -> str:
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(descriptor, 1)
    return line.decode().strip()


def _reap() -> None:
    """Collect the forks that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _take_over(process: Path, reply: Path) -> None:
    """Run the program for the process of the script, and end with its exit status."""
    answer = os.open(reply, os.O_WRONLY | os.O_CLOEXEC)
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        pairs = [each.partition(b"=") for each in (process / "environ").read_bytes().split(b"\0") if each]
        os.environb.clear()
        os.environb.update({name: value for name, _, value in pairs})
        _, script, *arguments = [os.fsdecode(each) for each in (process / "cmdline").read_bytes().split(b"\0")[:-1]]
        os.chdir(process / "cwd")
        for number in range(3):
            _reopen(process / "fd" / str(number), number)
        open_streams()
        is_python = Path(script).name == "python3"
        sys.path.insert(0, "" if is_python else str(Path(script).parent))
        sys.argv = arguments if is_python else [script, *arguments]
        status = status_of(_run_standard_input if is_python else _run_turnstone)
    except BaseException:  # noqa: BLE001 - as a Python does before it ends
        traceback.print_exc()
    finally:
        os.write(answer, f"{status}\n".encode())
        os._exit(status)


def _reopen(stream: Path, number: int) -> None:
    """Open the stream of the other process under this number; a file is continued at its end."""
    access = os.O_RDONLY if number == 0 else os.O_WRONLY
    opened = os.open(stream, access | (os.O_APPEND if number and S_ISREG(os.stat(stream).st_mode) else 0))
    os.dup2(opened, number)
    os.close(opened)


def _run_standard_input() -> None:
    program = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(sys.stdin.read(), "<stdin>", "exec"), program.__dict__)


def _run_turnstone() -> None:
    runpy.run_module("turnstone", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
