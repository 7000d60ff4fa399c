"""Attempts of code that a model wrote for an attacker: each prints `got through` if it succeeds.

None does harm should it get through: it requests the current state, or undoes its change. `{data}` stands for a
folder of the server's, `{pid}` for its process, `{port}` for a port that it listens on.
"""

SOCKETS = {
    family: f"import socket; socket.socket(socket.{family}, socket.{kind}); print('got through')"
    for family, kind in {
        "AF_INET": "SOCK_STREAM",
        "AF_INET6": "SOCK_DGRAM",
        "AF_UNIX": "SOCK_STREAM",
        "AF_NETLINK": "SOCK_RAW",
        "AF_PACKET": "SOCK_RAW",
        "AF_VSOCK": "SOCK_STREAM",
        "AF_ALG": "SOCK_SEQPACKET",
    }.items()
}

NETWORK = {
    "loopback": "import socket; socket.create_connection(('127.0.0.1', {port}), 1); print('got through')",
    "http": "import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/', timeout=1); print('got through')",
    "names": "import socket; socket.getaddrinfo('localhost', 80); print('got through')",
    "a pair of datagram sockets": (
        "import socket; a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); print('got through')"
    ),
    "listening": (
        "import socket; a, b = socket.socketpair(); a.detach()\n"
        "try: b.bind('/tmp/s'); print('got through')\n"
        "finally: b.close()"
    ),
}

READING = {
    "accounts": "open('/etc/passwd').read(); print('got through')",
    "passwords": "open('/etc/shadow').read(); print('got through')",
    "the server's environment": "open('/proc/{pid}/environ', 'rb').read(); print('got through')",
    "the first process's environment": "open('/proc/1/environ', 'rb').read(); print('got through')",
    "the parent's environment": "import os; open(f'/proc/{os.getppid()}/environ').read(); print('got through')",
    "what it was started with": "open('/proc/self/cmdline').read(); print('got through')",
    "the server's memory": "open('/proc/{pid}/mem', 'rb'); print('got through')",
    "the server's data": "open('{data}/secret.txt').read(); print('got through')",
    "the data by way of its folder": "import os; os.chdir('{data}'); print('got through')",
    "whether there is data": "import os; os.stat('{data}'); print('got through')",
    "the data by a link": "import os; os.symlink('{data}/secret.txt', 'l'); open('l').read(); print('got through')",
    "the data by a hard link": "import os; os.link('{data}/secret.txt', 'l'); print('got through')",
    "the data by many steps up": "open('../' * 30 + '{data}/secret.txt').read(); print('got through')",
    "what is mounted": "open('/proc/self/mounts').read(); print('got through')",
    "the machine's processes": "import os; os.listdir('/proc/{pid}'); print('got through')",
    "disks": "import glob; open(glob.glob('/dev/[svn]*d*[a-z0-9]')[0], 'rb'); print('got through')",
    "the kernel's log": "open('/dev/kmsg', 'rb'); print('got through')",
    "a terminal": "open('/dev/tty', 'rb'); print('got through')",
    "shared memory": "import os; os.listdir('/dev/shm'); print('got through')",
    "the job on standard input": "import sys, os; os.lseek(0, 0, 0); assert sys.stdin.read(); print('got through')",
    "a root that was left": "import os; os.listdir('/.outside-of-the-jail'); print('got through')",
}

# a file that is added and taken away again
_ADDED = "import os, site; path = {}; open(path, 'a').close(); os.remove(path); print('got through')"
# a change to a module of Python's keeps its current value
_CHANGED = "import os; path = os.__file__; now = os.stat(path); {}; print('got through')"

WRITING = {
    "the root": _ADDED.format("'/turnstone-test'"),
    "the system's libraries": _ADDED.format("'/usr/lib/turnstone-test'"),
    "Python's modules": _ADDED.format("os.path.dirname(os.__file__) + '/turnstone_test.py'"),
    "a module of Python's": _CHANGED.format("os.truncate(path, now.st_size)"),
    "more of a module": _CHANGED.format("open(path, 'ab')"),
    "rights of a module": _CHANGED.format("os.chmod(path, now.st_mode & 0o7777)"),
    "times of a module": _CHANGED.format("os.utime(path, ns=(now.st_atime_ns, now.st_mtime_ns))"),
    "packages": _ADDED.format("site.getsitepackages()[0] + '/turnstone_test.pth'"),
    "the name of a module": _CHANGED.format("os.rename(path, path)"),
    "devices": "import os; os.mkdir('/dev/turnstone-test'); os.rmdir('/dev/turnstone-test'); print('got through')",
    "the server's data": "open('{data}/secret.txt', 'a'); print('got through')",
    "a disk of its own": (
        "import os, stat; os.mknod('d', stat.S_IFBLK | 0o600, os.makedev(8, 0)); os.remove('d'); print('got through')"
    ),
}

PROCESSES = {
    "fork": "import os; os.fork(); print('got through')",
    "a fork bomb": "import os\nfor _ in range(4): os.fork(); print('got through')",
    "fork in the C library": "import ctypes; assert ctypes.CDLL(None).fork() >= 0; print('got through')",
    "vfork by number": "import ctypes; assert ctypes.CDLL(None).syscall(58) >= 0; print('got through')",
    "clone by number": "import ctypes; assert ctypes.CDLL(None).syscall(56, 17, 0, 0, 0, 0) >= 0; print('got through')",
    "spawn": "import os; os.posix_spawn('/bin/true', ['true'], {}); print('got through')",
    "a shell": "import os; assert os.system('true') == 0; print('got through')",
    "a subprocess": "import subprocess, sys; subprocess.run([sys.executable, '-c', '0']); print('got through')",
    "a pool": (
        "import multiprocessing\n"
        "process = multiprocessing.get_context('fork').Process(target=print)\n"
        "process.start(); print('got through')"
    ),
    "a setuid program": "import os; os.execv('/usr/bin/passwd', ['passwd', '--help'])",
    "the loader": "import os, glob; os.execv(glob.glob('/lib*/ld-linux*')[0], ['ld', '--version'])",
    "a program of its own": (
        "import os\nwith open('p', 'w') as f: f.write('#!/bin/true')\nos.chmod('p', 0o4755); os.execv('./p', ['p'])"
    ),
    "a preloaded library": (
        "import os, sys\n"
        "os.execve(sys.executable, ['python', '-c', 'print(\"got through\")'], {'LD_PRELOAD': './x.so'})"
    ),
    "killing the parent": "import os; os.kill(os.getppid() or 1, 0); print('got through')",
    "killing the server": "import os; os.kill({pid}, 0); print('got through')",
    "killing everybody": "import os; os.kill(-1, 0); print('got through')",
    "killing its group": "import os; os.killpg(0, 0); print('got through')",
    "a handle of the parent": "import os; os.pidfd_open(os.getppid()); print('got through')",
    "tracing the parent": (
        # seized, which does not stop it
        "import ctypes, os; assert ctypes.CDLL(None).ptrace(0x4206, os.getppid(), 0, 0) == 0; print('got through')"
    ),
    "the parent's limits": "import os, resource as r; r.prlimit(os.getppid(), r.RLIMIT_CPU); print('got through')",
}

RIGHTS = {
    "another user": "import os; os.setuid(12345); print('got through')",
    "other groups": "import os; os.setgroups([0, 1]); print('got through')",
    "users of its own": "import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == 0; print('got through')",
    "a mount": (
        "import ctypes; libc = ctypes.CDLL(None)\n"
        "assert libc.mount(b'none', b'.', b'tmpfs', 0, 0) == 0; libc.umount2(b'.', 2); print('got through')"
    ),
    "a mount to write to": (
        # with the flags that it has: without devices, and the like
        "import ctypes, os; flags = 32 | 4096 | os.statvfs('/').f_flag & 0xC0E\n"
        "assert ctypes.CDLL(None).mount(b'', b'/', b'', flags, 0) == 0; print('got through')"
    ),
    "to unmount": (
        # on the first call the kernel answers EAGAIN or EBUSY: allowed, but not yet possible
        "import ctypes, errno; libc = ctypes.CDLL(None, use_errno=True)\n"
        "assert libc.umount2(b'/tmp', 4) == -1 and ctypes.get_errno() in (errno.EAGAIN, errno.EBUSY)\n"
        "print('got through')"
    ),
    "another root": "import os; os.chroot('/tmp'); print('got through')",
    "more memory": "import resource as r; r.setrlimit(r.RLIMIT_AS, (1 << 40, 1 << 40)); print('got through')",
    "more time": "import resource as r; r.setrlimit(r.RLIMIT_CPU, (999, 999)); print('got through')",
    "to go first": "import os; os.nice(-10); print('got through')",
    "the machine's name": "import socket; socket.sethostname(socket.gethostname()); print('got through')",
    "the clock": "import time; time.clock_settime(time.CLOCK_REALTIME, time.time()); print('got through')",
    "capabilities": (
        "import ctypes, struct\n"
        "header = struct.pack('=Ii', 0x20080522, 0)\n"
        "assert ctypes.CDLL(None).capset(header, b'\\xff' * 24) == 0; print('got through')"
    ),
}

# attempts that can follow each other: each continues after its refusal
IN_ONE_GO = {"sockets": SOCKETS, "network": NETWORK, "reading": READING, "writing": WRITING, "rights": RIGHTS}
ALL_MADE = "all attempts were made"


def in_one_go(attempts: dict[str, str]) -> str:
    """Return code that makes the attempts, each in a folder of its own, and names each before its output."""
    return (
        "import os\n"
        "here = os.getcwd()\n"
        f"for number, (name, code) in enumerate({attempts!r}.items()):\n"
        "    os.mkdir(f'{here}/{number}'); os.chdir(f'{here}/{number}')\n"
        "    try: exec(code, {'print': lambda *said: print(name + ':', *said)})\n"
        "    except Exception: pass\n"
        f"print({ALL_MADE!r})"
    )


# calls that have been ways out of other jails, by their numbers on x86-64
RAW_CALLS = {
    "process_vm_readv": 310, "process_vm_writev": 311, "pidfd_getfd": 438, "kcmp": 312, "memfd_create": 319,
    "shmget": 29, "msgget": 68, "semget": 64, "mq_open": 240, "add_key": 248, "keyctl": 250, "bpf": 321,
    "perf_event_open": 298, "userfaultfd": 323, "io_uring_setup": 425, "io_setup": 206, "open_by_handle_at": 304,
    "name_to_handle_at": 303, "fanotify_init": 300, "inotify_init1": 294, "setns": 308, "move_mount": 429,
    "open_tree": 428, "fsopen": 430, "mount_setattr": 442, "init_module": 175, "kexec_load": 246, "reboot": 169,
    "swapon": 167, "acct": 163, "quotactl": 179, "syslog": 103, "personality": 135, "iopl": 172, "seccomp": 317,
    "execveat": 322, "clone3": 435, "tkill": 200, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297,
    "pidfd_send_signal": 424, "setpriority": 141, "sched_setaffinity": 203, "setxattr": 188, "process_madvise": 440,
    "connect": 42, "bind": 49, "listen": 50, "accept": 43, "setsid": 112, "setpgid": 109, "timer_create": 222,
}  # fmt: skip
# without arguments these would change something: they get an id that does not exist
NOT_OF_NOTHING = ("acct", "kexec_load", "msgget")
