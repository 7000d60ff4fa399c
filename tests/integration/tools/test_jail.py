"""Untrusted code has access to its own folder and nothing else, and leaves nothing behind.

Covers: adapters/tools/code/code_subprocess, adapters/tools/code/jail/entry, adapters/tools/code/jail/filesystem,
  adapters/tools/code/jail/kernel, adapters/tools/code/jail/leftovers, adapters/tools/code/jail/program,
  adapters/tools/code/jail/syscall_filter, adapters/tools/code/jail/visible
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import signal
import site
import socket
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.server.servers import ROOT, wait_until
from tests.support.tools.hostile_code import (
    ALL_MADE,
    IN_ONE_GO,
    NETWORK,
    NOT_OF_NOTHING,
    PROCESSES,
    RAW_CALLS,
    READING,
    SOCKETS,
    in_one_go,
)
from tests.support.tools.hunting_code import finds_in, hunt
from tests.support.tools.jailed import MARK, QUICKLY_S, Jails, can_jail, jails, seconds_since
from turnstone.adapters.tools.code.code_subprocess import ENVIRONMENT, KEPT_BYTES, JailedCode
from turnstone.domain.errors import ToolFailed
from turnstone.domain.values.cancellation import StopSignal

__all__ = ["can_jail", "jails"]
X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86-64")
# the attempts that succeed for a process outside of a jail, on any machine
IN_REACH = {
    **{name: SOCKETS[name] for name in ("AF_INET", "AF_UNIX", "AF_NETLINK")},
    **{name: NETWORK[name] for name in ("loopback", "names", "a pair of datagram sockets")},
    **{name: READING[name] for name in READING if "data" in name and "hard" not in name},
    **{name: READING[name] for name in ("accounts", "the server's environment", "what is mounted")},
    **{name: PROCESSES[name] for name in ("a subprocess", "a handle of the parent", "a shell")},
}


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def no_orphans() -> Iterator[None]:
    """Adopt orphans of this process's children, as in a container, and assert that there are none."""
    set_subreaper = 36
    libc = ctypes.CDLL(None)
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text()
    assert libc.prctl(set_subreaper, 1, 0, 0, 0) == 0
    yield
    assert libc.prctl(set_subreaper, 0, 0, 0, 0) == 0
    assert children.read_text() == before


@pytest.fixture
def addresses(tmp_path: Path, listening: int) -> dict[str, object]:
    """The server's data folder, process id and port, by their marks in the attempts."""
    (tmp_path / "secret.txt").write_text("not to be seen anywhere")
    return {"{data}": tmp_path, "{pid}": os.getpid(), "{port}": listening}


def addressed(code: str, addresses: dict[str, object]) -> str:
    for mark, value in addresses.items():
        code = code.replace(mark, str(value))
    return code


@pytest.mark.parametrize("kind", IN_ONE_GO)
def test_the_world_outside_the_jail_is_out_of_reach(jails: Jails, addresses: dict[str, object], kind: str) -> None:
    run = jails.run(addressed(in_one_go(IN_ONE_GO[kind]), addresses))
    assert (run.stdout, run.stderr) == (f"{ALL_MADE}\n", "")


def test_nothing_of_the_server_is_found_by_a_hunt_for_it(jails: Jails, tmp_path: Path) -> None:
    texts = {"data": str(tmp_path), "package": str(ROOT / "shared"), "machine": f" {socket.gethostname()} "}
    numbers = {"pid": os.getpid()}
    run = JailedCode(192, [tmp_path]).run(hunt(texts, numbers), 30, None)
    assert run.stderr == ""
    assert finds_in(run.stdout, numbers) == []


def test_the_machine_has_another_name_inside(jails: Jails) -> None:
    run = jails.run("import os, socket; print(socket.gethostname(), os.uname().nodename)")
    assert run.stdout == "jail jail\n"


def test_a_refusal_shows_no_path(can_jail: None, tmp_path: Path) -> None:
    missing = str(tmp_path / "none" / "folder")
    failing = (
        "; import os; from turnstone.adapters.tools.code.jail import entry; "
        f"entry.enter_root = lambda files: os.mkdir({missing!r}); from turnstone"
    )
    server = (
        "from turnstone.adapters.tools.code import code_subprocess\n"
        f"code_subprocess.START = code_subprocess.START.replace('; from turnstone', {failing!r}, 1)\n"
        "code_subprocess.JailedCode(192).run('', 10, None)"
    )
    ran = subprocess.run([sys.executable, "-c", server], env={"PYTHONPATH": str(ROOT / "shared")}, capture_output=True)
    *logged, raised = ran.stderr.decode().splitlines()
    assert raised.endswith("it can't be isolated: No such file or directory")
    assert f"code can't be shut in: [Errno 2] No such file or directory: {missing!r}" in logged


def venv_in(folder: Path) -> Path:
    """Make a virtual environment and return its Python."""
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


def linked_prefix_in(folder: Path) -> Path:
    """Make a folder that is Python's by a link, and return the Python that stands in it."""
    folder.symlink_to(sys.base_prefix)
    return folder / "bin" / Path(os.path.realpath(sys.executable)).name


def copied_prefix_in(folder: Path) -> Path:
    """Make a Python of its own whose modules are found by a link, and return it."""
    (folder / "bin").mkdir(parents=True)
    copied = folder / "bin" / Path(os.path.realpath(sys.executable)).name
    shutil.copy(os.path.realpath(sys.executable), copied)
    (folder / "lib").symlink_to(Path(sys.base_prefix) / "lib")
    return copied


@pytest.fixture(params=["/tmp", "/dev/shm"])
def temporary(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder directly below one where files are temporary, gone after the test."""
    with tempfile.TemporaryDirectory(dir=request.param) as folder:
        (Path(folder) / "secret.txt").touch()
        yield Path(folder)


@pytest.mark.parametrize("make", [venv_in, linked_prefix_in, copied_prefix_in])
def test_python_and_its_packages_are_there_below_a_temporary_folder(
    can_jail: None, temporary: Path, make: Callable[[Path], Path]
) -> None:
    python = make(temporary / "python")
    if make is venv_in:
        (package,) = (temporary / "python" / "lib").glob("python*/site-packages")
        (package / "marked.py").write_text("TEXT = 'of the package'")
    code = (
        "import json, os, sys\n"
        f"print(os.listdir({str(temporary)!r}) if os.path.exists({str(temporary)!r}) else ['python'])\n"
        "open('kept', 'w').close(); print(json.loads('1'), os.getcwd())\n"
        + ("import marked; print(marked.TEXT)" if make is venv_in else "print('of the package')")
    )
    server = (
        "from turnstone.adapters.tools.code.code_subprocess import JailedCode\n"
        f"run = JailedCode(192).run({code!r}, 10, None)\n"
        "print(run.stdout + run.stderr + run.note, [file.name for file in run.files])"
    )
    environment = {"PYTHONPATH": os.pathsep.join((str(ROOT / "shared"), *site.getsitepackages()))}
    ran = subprocess.run([python, "-c", server], env=environment, capture_output=True, text=True)
    assert ran.stdout.split("\n") == ["['python']", "1 /tmp/work", "of the package", " ['kept']", ""], ran.stderr


@pytest.mark.parametrize("name", PROCESSES)
def test_other_processes_are_out_of_reach(jails: Jails, addresses: dict[str, object], name: str) -> None:
    run = jails.run(addressed(PROCESSES[name], addresses))
    assert (run.status, run.stdout) == ("error", "")


def test_without_a_jail_it_is_in_reach(addresses: dict[str, object], tmp_path: Path) -> None:
    (folder := tmp_path / "work").mkdir()
    code = addressed(in_one_go(IN_REACH), addresses)
    ran = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert ran.stdout.splitlines() == [*(f"{name}: got through" for name in IN_REACH), ALL_MADE]


def test_no_descriptor_is_inherited(jails: Jails) -> None:
    code = (
        "import os\n"
        "for fd in range(4096):\n"
        "    try: os.fstat(fd)\n"
        "    except OSError: continue\n"
        "    print(fd, os.read(fd, 10) if fd == 0 else '')"
    )
    assert jails.run(code).stdout.split() == ["0", "b''", "1", "2"]


@X86
def test_calls_of_the_kernel_by_number_are_refused(jails: Jails) -> None:
    code = (
        "import ctypes\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"for name, number in {RAW_CALLS}.items():\n"
        "    ctypes.set_errno(0)\n"
        f"    told = [int(name in {NOT_OF_NOTHING})] * 6\n"
        "    if libc.syscall(number, *told) != -1 or ctypes.get_errno() not in (1, 38): print(name)\n"
        "print('asked')"
    )
    assert jails.run(code).stdout == "asked\n"


@X86
def test_a_call_by_the_numbers_of_another_kind_of_program_ends_the_code(jails: Jails) -> None:
    run = jails.run("import ctypes; ctypes.CDLL(None).syscall(0x40000000 + 39); print('got through')")
    assert (run.status, run.stdout, run.note) == ("error", "", "it was ended by SIGSYS")


def test_code_that_ends_itself_or_breaks_is_an_error(jails: Jails) -> None:
    ways = {
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": "SIGKILL",
        "import ctypes; ctypes.string_at(0)": "SIGSEGV",
        "import os; os.abort()": "SIGABRT",
        "import os; os.kill(os.getpid(), 40)": "signal 40",
    }
    for code, name in ways.items():
        run = jails.run(code)
        assert (run.status, run.exit_code, run.note) == ("error", None, f"it was ended by {name}")


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(60)",
        "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15, 24)]; time.sleep(60)",
        "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()",
        "import atexit, time; atexit.register(time.sleep, 60)",
        "import os; r, w = os.pipe(); os.read(r, 1)",
        "import sys; sys.stdin.close(); import os; os.close(1); os.close(2)\nwhile True: pass",
    ],
)
def test_code_that_takes_too_long_is_ended_in_time(jails: Jails, code: str) -> None:
    start = time.monotonic()
    assert jails.run(code, timeout_s=0.7).status == "timed out"
    assert seconds_since(start) < 0.7 + QUICKLY_S


def test_time_of_all_processors_together_is_bounded(jails: Jails) -> None:
    code = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
        "print(*resource.getrlimit(resource.RLIMIT_CPU))"
    )
    assert jails.run(code, timeout_s=5).stdout == "5 6\n"
    ended = jails.run("import os, signal; os.kill(os.getpid(), signal.SIGXCPU)")
    assert ended.status == "timed out"


@pytest.mark.parametrize(
    "code",
    [
        "bytearray(1 << 30)",
        "kept = []\nwhile True: kept.append(bytearray(1 << 20))",
        "import mmap; kept = [mmap.mmap(-1, 1 << 24) for _ in range(1000)]",
    ],
)
def test_a_memory_bomb_finds_its_limit(jails: Jails, code: str) -> None:
    run = jails.run(code)
    assert (run.status, run.exit_code) == ("error", 1)
    assert "MemoryError" in run.stderr or "Cannot allocate memory" in run.stderr


def test_threads_are_bounded(jails: Jails) -> None:
    code = (
        "import threading\n"
        "threading.stack_size(65536); wait = threading.Event(); count = 0\n"
        "try:\n"
        "    while count < 1000: threading.Thread(target=wait.wait, daemon=True).start(); count += 1\n"
        "except RuntimeError: pass\n"
        "print(count)"
    )
    assert 8 < int(jails.run(code).stdout) < 64


def test_a_disk_filler_fills_a_folder_in_memory(jails: Jails) -> None:
    code = (
        "import itertools\n"
        "written = 0\n"
        "try:\n"
        "    for number in itertools.count():\n"
        "        with open(f'{number}', 'wb', buffering=0) as f: written += f.write(bytes(1 << 22))\n"
        "except OSError as error: print(error.errno, written >> 20)"
    )
    number, megabytes = map(int, jails.run(code).stdout.split())
    assert number == 28
    assert 32 < megabytes <= 64


def test_a_million_files_and_folders_are_some_thousands(jails: Jails) -> None:
    code = (
        "import os, itertools\n"
        "try:\n"
        "    for number in range(1_000_000):\n"
        "        os.mkdir('d'); os.chdir('d'); open('f', 'w').close()\n"
        "except OSError as error: print(error.errno, number)"
    )
    number, count = map(int, jails.run(code).stdout.split())
    assert number == 28
    assert 100 < count < 2_048


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_flood_of_output_is_ended_and_does_not_fill_the_server(jails: Jails, stream: str) -> None:
    run = jails.run(f"import sys\nprint('first', file=sys.{stream})\nwhile True: sys.{stream}.write('x' * 65536)", 30)
    kept = getattr(run, stream)
    assert (run.status, run.note) == ("error", "it was ended, because it wrote without end")
    assert kept.startswith("first\nxxx")
    assert len(kept) < 2 * KEPT_BYTES + 100


def test_being_ended_once_more_when_the_code_has_ended_is_no_failure() -> None:
    code = (
        "import os, signal\n"
        "from turnstone.adapters.tools.code.jail import entry\n"
        "waitpid = os.waitpid\n"
        "def waited_for(*child):\n"
        "    ended = waitpid(*child)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return ended\n"
        "os.waitpid = waited_for\n"
        "entry._become_first_process()"
    )
    ran = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT / "shared")}, stderr=subprocess.PIPE)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_only_regular_files_of_its_own_are_kept(jails: Jails, addresses: dict[str, object]) -> None:
    code = (
        "import os, socket\n"
        f"os.symlink('{addresses['{data}']}/secret.txt', 'link'); os.symlink('/etc/passwd', 'link2')\n"
        "os.symlink(os.__file__, 'module'); os.mkfifo('fifo'); os.mkdir('folder'); open('folder/f', 'w').write('x')\n"
        "open('.hidden', 'w').write('x'); open('kept', 'w').write('x'); os.symlink('kept', 'link3')\n"
        "for name in ('unreadable', 'kept'): open(name, 'w').write('x'); os.chmod(name, 0)\n"
        "os.chmod('.', 0)"
    )
    assert [(file.name, file.body) for file in jails.run(code).files] == [("kept", b"x"), ("unreadable", b"x")]


def test_another_folder_instead_of_its_own_is_not_read(jails: Jails) -> None:
    code = (
        "import os\n"
        "open('kept', 'w').write('x'); os.rename('/tmp/work', '/tmp/away')\n"
        "os.symlink(os.path.dirname(os.__file__), '/tmp/work')"
    )
    assert [file.name for file in jails.run(code).files] == ["kept"]


def test_files_are_few_and_small(jails: Jails) -> None:
    code = (
        "for number in range(20): open(f'{number:02}', 'w').write('x')\n"
        "open('00', 'w').truncate(60 << 20)\n"
        "open('01', 'w').truncate(8 << 20)"
    )
    run = jails.run(code)
    assert [file.name for file in run.files] == ["01"]
    assert run.note == "19 more files were left out: too many, or too large"
    few = jails.run("for number in range(20): open(f'{number:02}', 'w').write('x')")
    assert (len(few.files), few.note) == (16, "4 more files were left out: too many, or too large")


def test_names_of_files_are_made_harmless(jails: Jails) -> None:
    code = (
        "for name in (b'a\\nb;<script>.txt', b'\\xff\\xfe', b'x' * 251 + b'.csv', '€\\u202e'.encode()):\n"
        "    open(name, 'w').write('x')"
    )
    names = sorted(file.name for file in jails.run(code).files)
    assert names == ["_", "_", "a_b_script_.txt", "x" * 100 + ".csv"]


def test_a_report_forged_by_the_code_is_ignored(jails: Jails) -> None:
    forged = json.dumps({"exit_code": 0, "files": [["forged", 1]], "left_out": 0}) + "\nx"
    code = (
        f"import os, sys\n"
        "for fd in range(3, 512):\n"
        f"    try: os.write(fd, {forged.encode()!r})\n"
        "    except OSError: pass\n"
        "sys.exit(7)"
    )
    run = jails.run(code)
    assert (run.status, run.exit_code, run.files) == ("error", 7, ())


def test_a_stop_signal_ends_the_code_at_once_and_leaves_no_orphans(jails: Jails, no_orphans: None) -> None:
    stop, given_at = StopSignal(), []

    def give_when_it_runs() -> None:
        wait_until(lambda: len(jails.running()) >= 3, 10, "the code did not start")
        given_at.append(time.monotonic())
        stop.set()

    giver = threading.Thread(target=give_when_it_runs)
    giver.start()
    with pytest.raises(ToolFailed, match="was cancelled"):
        jails.run("import time; time.sleep(60)", timeout_s=60, stop=stop)
    giver.join()
    assert seconds_since(given_at[0]) < QUICKLY_S
    jails.expect_nothing_left()


def test_code_ends_with_the_server_that_runs_it(jails: Jails) -> None:
    command = "from turnstone.adapters.tools.code.code_subprocess import *\n"
    command += f"ENVIRONMENT[{MARK!r}] = {jails.mark!r}\n"
    command += "JailedCode(192).run('import time; time.sleep(60)', 60, None)"
    with subprocess.Popen([sys.executable, "-c", command], env={"PYTHONPATH": str(ROOT / "shared")}) as server:
        wait_until(lambda: len(jails.running()) >= 3, 10, "the code did not start")
        server.kill()
    jails.expect_nothing_left()


def in_a_namespace(user: int, before: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run code on a server that is this user in a namespace with root's files; the server runs `before` first.

    The server has no rights beyond those of an owner, since it is not the program that made the namespace.
    """
    server = (
        f"{before}\n"
        "from turnstone.adapters.tools.code.code_subprocess import JailedCode\n"
        f"print(JailedCode(192).run({code!r}, 10, None).stdout, end='')"
    )
    entering = (
        "import ctypes, os\n"
        "user, group = os.geteuid(), os.getegid()\n"
        "assert ctypes.CDLL(None).unshare(0x10000000) == 0\n"
        "for name, text in ('setgroups', 'deny'), ('uid_map', f'{USER} {user} 1'), ('gid_map', f'{USER} {group} 1'):\n"
        "    with open(f'/proc/self/{name}', 'w') as file: file.write(text)\n"
        f"environment = {{'PYTHONPATH': {str(ROOT / 'shared')!r}}}\n"
        f"os.execve({sys.executable!r}, [{sys.executable!r}, '-c', {server!r}], environment)"
    ).replace("USER", str(user))
    return subprocess.run([sys.executable, "-I", "-c", entering], capture_output=True, text=True)


def test_a_server_that_is_not_root_shuts_code_in_as_well(can_jail: None, addresses: dict[str, object]) -> None:
    attempts = {name: code for kind in IN_ONE_GO.values() for name, code in kind.items()}
    attempts |= {name: code for name, code in PROCESSES.items() if "exec" not in code and "killpg" not in code}
    ran = in_a_namespace(1000, "import os; assert os.geteuid() == 1000", addressed(in_one_go(attempts), addresses))
    assert (ran.stdout, ran.stderr) == (f"{ALL_MADE}\n", "")


def test_where_the_kernel_refuses_namespaces_no_code_is_run(can_jail: None) -> None:
    no_more = "with open('/proc/sys/user/max_user_namespaces', 'w') as file: file.write('0')"
    ran = in_a_namespace(0, no_more, "print('ran')")
    assert "it can't be isolated: the kernel refuses namespaces of its own (No space left on device)" in ran.stderr
    assert ran.stdout == ""


def test_folders_of_the_server_are_hidden_among_pythons_own(jails: Jails) -> None:
    hidden = Path(json.__file__).parent
    run = JailedCode(192, [hidden]).run(f"import os; print(os.listdir({str(hidden)!r}))", 10, None)
    assert run.stdout == "[]\n"


def test_this_process_is_as_it_was(jails: Jails) -> None:
    handler, descriptors, threads = signal.getsignal(signal.SIGCHLD), os.listdir("/proc/self/fd"), threading.enumerate()
    jails.run("open('a', 'w').write('x')")
    stop = StopSignal()
    stop.set()
    with pytest.raises(ToolFailed):
        jails.run("", stop=stop)
    assert signal.getsignal(signal.SIGCHLD) == handler
    # none is new; those of earlier tests may end during this one
    assert set(os.listdir("/proc/self/fd")) <= set(descriptors)
    assert set(threading.enumerate()) <= set(threads)
    assert MARK in ENVIRONMENT
