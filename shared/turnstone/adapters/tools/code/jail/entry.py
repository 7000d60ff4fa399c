"""The jail's first interpreter, from its start to the start of the second, which runs the code.

Of its three processes the first leaves its original namespaces; the second, whose end kills all others, creates the
jail's files and collects the leftovers; the third drops its rights and executes a fresh interpreter.
"""

from __future__ import annotations

import json
import marshal
import os
import resource
import select
import signal
import sys
from pathlib import Path
from typing import Any

from turnstone.adapters.tools.code.jail import kernel
from turnstone.adapters.tools.code.jail.filesystem import WORK, JailFiles, enter_root
from turnstone.adapters.tools.code.jail.leftovers import leftovers_in
from turnstone.adapters.tools.code.jail.syscall_filter import filter_program

PROGRAM = Path(__file__).with_name("program.py")
MACHINE_NAME = "jail"
SCRATCH_BYTES = 64 * 1024 * 1024
SCRATCH_FILES = 2_048
MAX_THREADS = 64
MAX_OPEN_FILES = 128
NOBODY = 65_534
NICENESS = 10


def main(result_fd: int) -> None:
    """Run the job on standard input, JSON from `code_subprocess.JailedCode`.

    Never returns. One process writes a line of JSON to the descriptor when the code has ended, and after it the files
    left in the code's folder; if the jail fails, the code is not run, and the line gives the reason.
    """
    job = json.load(sys.stdin)
    try:
        program = PROGRAM.read_text(encoding="utf-8")
        is_root = os.geteuid() == 0
        _leave_namespaces(is_root=is_root)
        kernel.die_with_parent()
        if os.getppid() != job["server"]:
            os._exit(1)  # it ended before prctl took effect
        _become_first_process()
        kernel.name_machine(MACHINE_NAME)
        enter_root(JailFiles(job["visible"], job["hidden"], SCRATCH_BYTES, SCRATCH_FILES))
        folder = os.open(WORK, os.O_RDONLY | os.O_DIRECTORY)
        _become_second_process(result_fd, folder)
        _confine(job, is_root=is_root)
        os.set_inheritable(result_fd, False)  # execve has closed all others already
        _execute(program, job)
    except (kernel.JailRefused, OSError, ValueError) as refusal:
        # the text of a system error would show a path to the model
        reason = refusal.strerror if isinstance(refusal, OSError) else str(refusal)
        os.write(result_fd, json.dumps({"refused": reason, "detail": str(refusal)}).encode() + b"\n")
        os._exit(1)


def _leave_namespaces(*, is_root: bool) -> None:
    """Enter namespaces in which this user is root. For root outside, map a second user, `nobody`."""
    mine = f"0 {os.geteuid()} 1\n", f"0 {os.getegid()} 1\n"
    others = f"1 {NOBODY} 1\n" if is_root else ""
    has_left, leaving = os.pipe()
    writer = os.fork()
    if writer == 0:  # still outside, where the user ids are the real ones
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
    """Return in a child, the first in its PID namespace, whose end kills all others there.

    This process waits for the child, and the server kills this process, so orphans never reach the system's init.
    """
    is_alive, alive = os.pipe()
    child = os.fork()
    if child:
        signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGKILL))
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # after the wait, the process id may belong to another process
        os.waitpid(child, 0)
        os._exit(0)
    os.close(alive)
    kernel.die_with_parent()
    if select.select([is_alive], [], [], 0)[0]:
        os._exit(1)  # the parent ended before prctl took effect


def _become_second_process(result_fd: int, folder: int) -> None:
    """Return in a child; this process waits for it, reports its end and its leftovers, and exits."""
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
    os.nice(NICENESS)  # the server's processes end first
    os.chdir(WORK)
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: SCRATCH_BYTES,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_NOFILE: MAX_OPEN_FILES,
        resource.RLIMIT_NPROC: MAX_THREADS,
    }
    for limit, most in limits.items():
        resource.setrlimit(limit, (most, most))
    # the code can catch the first signal, the second kills it
    resource.setrlimit(resource.RLIMIT_CPU, (job["seconds"], job["seconds"] + 1))
    if is_root:
        os.setgroups([])
        os.setresgid(1, 1, 1)
        os.setresuid(1, 1, 1)
    kernel.drop_rights()


def _execute(program: str, job: dict[str, Any]) -> None:
    """Replace this interpreter by a fresh one that runs the program. Raises OSError."""
    job_fields = {
        "code": job["code"],
        "filter": filter_program(os.uname().machine, os.getpid()),
        "modules": job["modules"],
        "prefix": job["prefix"],
    }
    given = os.memfd_create("job")
    with open(given, "wb", closefd=False) as file:
        file.write(marshal.dumps(job_fields))
    os.lseek(given, 0, os.SEEK_SET)
    os.dup2(given, 0)
    command = [job["interpreter"], "-I", "-S", "-X", "utf8", "-c", program]
    most = job["memory_bytes"]
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    os.execv(command[0], command)  # noqa: S606 # this Python, in the jail
