"""The jailed process from its start to the first line of the code: three processes, of which the last runs it.

The first leaves the namespaces it was born in; the second, which all others end with, makes the jail's files and
collects what is left there; the third gives up its rights and becomes the code.
"""

from __future__ import annotations

import json
import linecache
import os
import resource
import select
import signal
import sys
import traceback
from io import TextIOWrapper
from types import ModuleType, TracebackType
from typing import Any

from turnstone.adapters.tools.jail import kernel
from turnstone.adapters.tools.jail.filesystem import WORK, Files, enter_root, module_paths, visible_paths
from turnstone.adapters.tools.jail.leftovers import leftovers_in
from turnstone.adapters.tools.jail.syscall_filter import filter_program

SCRATCH_BYTES = 64 * 1024 * 1024
SCRATCH_FILES = 2_048
MAX_THREADS = 64
MAX_OPEN_FILES = 128
NOBODY = 65_534
NICENESS = 10
CODE = "<code>"


def main(result_fd: int) -> None:
    """Run the job on standard input: JSON of `code`, `memory_bytes`, `seconds`, `hidden` and `server`.

    Returns in the code's process only, when the code has ended. Another one writes a line of JSON to the descriptor
    then, and after it what is left in the code's folder; where the code can't be shut in it is not run, and the line
    tells why.
    """
    job = json.load(sys.stdin)
    try:
        visible, modules = visible_paths(), module_paths()
        is_root = os.geteuid() == 0
        _leave_namespaces(is_root=is_root)
        kernel.die_with_parent()
        if os.getppid() != job["server"]:
            os._exit(1)  # it ended before the kernel was told
        _become_first_process()
        enter_root(Files(visible, job["hidden"], SCRATCH_BYTES, SCRATCH_FILES))
        folder = os.open(WORK, os.O_RDONLY | os.O_DIRECTORY)
        _become_second_process(result_fd, folder)
        _confine(job, is_root=is_root)
    except (kernel.JailRefused, OSError, ValueError) as refusal:
        os.write(result_fd, json.dumps({"refused": str(refusal)}).encode() + b"\n")
        os._exit(1)
    os.closerange(3, max(result_fd, folder) + MAX_OPEN_FILES)  # what was opened has the lowest numbers there were
    sys.path[:] = modules
    _become_code(job["code"])


def _leave_namespaces(*, is_root: bool) -> None:
    """Be in namespaces where this user is root. Where it is root outside, there is a second user, who is nobody."""
    mine = f"0 {os.geteuid()} 1\n", f"0 {os.getegid()} 1\n"
    others = f"1 {NOBODY} 1\n" if is_root else ""
    has_left, leaving = os.pipe()
    writer = os.fork()
    if writer == 0:  # still outside, where the users are who are meant
        os.close(leaving)
        if os.read(has_left, 1):
            _name_users(os.getppid(), mine[0] + others, mine[1] + others, is_root=is_root)
        os._exit(0)
    kernel.unshare(
        kernel.NEW_USERS
        | kernel.NEW_MOUNTS
        | kernel.NEW_PROCESSES
        | kernel.NEW_NETWORK
        | kernel.NEW_IPC
        | kernel.NEW_NAME
    )
    os.write(leaving, b"1")
    if os.waitpid(writer, 0)[1] != 0:
        raise kernel.JailRefused("the kernel refuses users of its own")


def _name_users(process_id: int, users: str, groups: str, *, is_root: bool) -> None:
    contents = {"uid_map": users, **({} if is_root else {"setgroups": "deny"}), "gid_map": groups}
    for name, text in contents.items():
        try:
            with open(f"/proc/{process_id}/{name}", "w", encoding="ascii") as file:
                file.write(text)
        except OSError:
            os._exit(1)


def _become_first_process() -> None:
    """Return in a child, the first in its namespace of processes, which all others there end with.

    This process waits for it, and is what the server ends, so that whoever takes in orphans here gets none.
    """
    is_alive, alive = os.pipe()
    child = os.fork()
    if child:
        signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once it is waited for, there is nobody to kill by its number
        os.waitpid(child, 0)
        os._exit(0)
    os.close(alive)
    kernel.die_with_parent()
    if select.select([is_alive], [], [], 0)[0]:
        os._exit(1)  # the parent ended before the kernel was told


def _become_second_process(result_fd: int, folder: int) -> None:
    """Return in a child; this process waits for it, tells how it ended and what it left, and ends."""
    child = os.fork()
    if child:
        _report(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), result_fd, folder)
        os._exit(0)


def _report(exit_code: int, result_fd: int, folder: int) -> None:
    found = leftovers_in(folder)
    named = [
        [name.encode(errors="surrogateescape").decode(errors="replace"), len(body)]
        for name, body in found.files.items()
    ]
    line = json.dumps({"exit_code": exit_code, "files": named, "left_out": found.left_out})
    with open(result_fd, "wb") as result:
        result.write(line.encode() + b"\n")
        for body in found.files.values():
            result.write(body)


def _confine(job: dict[str, Any], *, is_root: bool) -> None:
    os.setsid()
    os.nice(NICENESS)  # what serves others goes first
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    os.chdir(WORK)
    limits = {
        resource.RLIMIT_AS: job["memory_bytes"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: SCRATCH_BYTES,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_NOFILE: MAX_OPEN_FILES,
        resource.RLIMIT_NPROC: MAX_THREADS,
    }
    for limit, most in limits.items():
        resource.setrlimit(limit, (most, most))
    resource.setrlimit(
        resource.RLIMIT_CPU, (job["seconds"], job["seconds"] + 1)
    )  # told by a signal of its own, then killed
    if is_root:
        os.setgroups([])
        os.setresgid(1, 1, 1)
        os.setresuid(1, 1, 1)
    kernel.give_up_rights()
    kernel.install_filter(filter_program(os.uname().machine, os.getpid()))


def _become_code(code: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "turnstone"]:
        del sys.modules[name]
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.argv[:] = [CODE]
    sys.excepthook = _show
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # so that what was printed is known if the code is ended
    linecache.cache[CODE] = len(code), None, code.splitlines(keepends=True), CODE
    exec(compile(code, CODE, "exec"), module.__dict__)  # noqa: S102 # what the jail is for


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Show where the code failed, without the jail's own frames."""
    while trace is not None and trace.tb_frame.f_code.co_filename != CODE:
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)
