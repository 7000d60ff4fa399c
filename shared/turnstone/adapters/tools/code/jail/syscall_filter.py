"""Allow list of system calls in the jail: one process that computes, and reads and writes files.

All others are refused with EPERM: sockets, other processes and programs, mounts, tracing, keys, io_uring and
additions of later kernels. Threads, and pairs of connected sockets, by which event loops wake themselves, are allowed.

Source: the tables of system calls of Linux, for x86-64 and for 64-bit ARM; seccomp_data of linux/seccomp.h.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_X86, _ARM = "x86_64", "aarch64"
_AUDITED_AS = {_X86: 0xC000003E, _ARM: 0xC00000B7}
_FOREIGN_FROM = 0x40000000  # x32 calls are numbered from here on, and would bypass these rules
# instructions of classic BPF
_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_ALL_BITS = 0xFFFFFFFF

# name: numbers on x86-64, on 64-bit ARM; the latter lacks calls replaced by others
_FILES = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62), "pread64": (17, 67),
    "pwrite64": (18, 68), "readv": (19, 65), "writev": (20, 66), "preadv": (295, 69), "pwritev": (296, 70),
    "preadv2": (327, 286), "pwritev2": (328, 287), "open": (2,), "openat": (257, 56), "openat2": (437, 437),
    "creat": (85,), "stat": (4,), "lstat": (6,), "newfstatat": (262, 79), "statx": (332, 291), "access": (21,),
    "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89,), "readlinkat": (267, 78), "getcwd": (79, 17),
    "chdir": (80, 49), "fchdir": (81, 50), "getdents": (78,), "getdents64": (217, 61), "mkdir": (83,),
    "mkdirat": (258, 34), "rmdir": (84,), "unlink": (87,), "unlinkat": (263, 35), "rename": (82,),
    "renameat": (264, 38), "renameat2": (316, 276), "link": (86,), "linkat": (265, 37), "symlink": (88,),
    "symlinkat": (266, 36), "mknod": (133,), "mknodat": (259, 33), "chmod": (90,), "fchmod": (91, 52),
    "fchmodat": (268, 53), "chown": (92,), "fchown": (93, 55), "lchown": (94,), "fchownat": (260, 54),
    "truncate": (76, 45), "ftruncate": (77, 46), "fallocate": (285, 47), "fsync": (74, 82), "fdatasync": (75, 83),
    "utime": (132,), "utimes": (235,), "futimesat": (261,), "utimensat": (280, 88), "umask": (95, 166),
    "statfs": (137, 43), "fstatfs": (138, 44), "flock": (73, 32), "fadvise64": (221, 223),
    "copy_file_range": (326, 285), "sendfile": (40, 71), "getxattr": (191, 8),
    "lgetxattr": (192, 9), "fgetxattr": (193, 10), "listxattr": (194, 11), "llistxattr": (195, 12),
    "flistxattr": (196, 13), "dup": (32, 23), "dup2": (33,), "dup3": (292, 24), "pipe": (22,), "pipe2": (293, 59),
    "fcntl": (72, 25), "close_range": (436, 436),
}  # fmt: skip
_WAITING = {
    "poll": (7,), "ppoll": (271, 73), "select": (23,), "pselect6": (270, 72), "epoll_create": (213,),
    "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232,), "epoll_pwait": (281, 22),
    "epoll_pwait2": (441, 441), "eventfd": (284,), "eventfd2": (290, 19), "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115), "clock_gettime": (228, 113), "clock_getres": (229, 114), "time": (201,),
    "gettimeofday": (96, 169), "times": (100, 153), "alarm": (37,), "pause": (34,), "getitimer": (36, 102),
    "setitimer": (38, 103), "sendto": (44, 206), "recvfrom": (45, 207), "sendmsg": (46, 211), "recvmsg": (47, 212),
    "shutdown": (48, 210), "getsockopt": (55, 209), "getsockname": (51, 204),
    "getpeername": (52, 205), "wait4": (61, 260), "waitid": (247, 95),
}  # fmt: skip
_ITSELF = {
    "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "mremap": (25, 216),
    "madvise": (28, 233), "mincore": (27, 232), "msync": (26, 227), "futex": (202, 98), "futex_waitv": (449, 449),
    "set_robust_list": (273, 99), "get_robust_list": (274, 100), "rseq": (334, 293), "membarrier": (324, 283),
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120), "sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126),
    "getcpu": (309, 168), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "rt_sigpending": (127, 136), "rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137), "sigaltstack": (131, 132),
    "restart_syscall": (219, 128), "getrusage": (98, 165), "getrlimit": (97, 163), "setrlimit": (160, 164),
    "getpriority": (140, 141), "uname": (63, 160), "sysinfo": (99, 179), "getrandom": (318, 278), "getpid": (39, 172),
    "getppid": (110, 173), "gettid": (186, 178), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176),
    "getegid": (108, 177), "getresuid": (118, 148), "getresgid": (120, 150), "getgroups": (115, 158),
    "getpgid": (121, 155), "getpgrp": (111,), "getsid": (124, 156), "set_tid_address": (218, 96),
    "arch_prctl": (158,), "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
_CLONE, _KILL_CALL, _TGKILL = (56, 220), (62, 129), (234, 131)
_PRCTL, _IOCTL, _PRLIMIT, _SOCKETPAIR = (157, 167), (16, 29), (302, 261), (53, 199)
_CLONE3 = 435  # its flags are in memory, where no filter sees them; the C library falls back to clone without clone3

_NEW_THREAD = 0x00010000
_NEW_NAMESPACES = 0x7E020080
_SET_NAME, _GET_NAME = 15, 16
_IS_TERMINAL, _WINDOW_SIZE, _HOW_MUCH, _NON_BLOCKING = 0x5401, 0x5413, 0x541B, 0x5421
_CLOSE_ON_EXEC, _KEEP_ON_EXEC = 0x5451, 0x5450
_UNIX, _STREAM, _KIND_OF_SOCKET = 1, 1, 0xF


@dataclass(frozen=True)
class _Argument:
    """The allowed values of an argument; of its lower half, because the kernel reads no more of these."""

    position: int
    values: tuple[int, ...]
    mask: int = _ALL_BITS


def filter_program(machine: str, process_id: int) -> bytes:
    """Return the filter for code on this machine, in this process, as BPF instructions."""
    column = 0 if machine == _X86 else 1
    instructions = [
        _step(_LOAD, _ARCHITECTURE_AT),
        _step(_EQUAL, _AUDITED_AS[machine], 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_AT),
        _step(_AT_LEAST, _FOREIGN_FROM, 0, 1),
        _step(_RETURN, _KILL),
    ]
    for numbers in (*_ITSELF.values(), *_WAITING.values(), *_FILES.values()):
        if column < len(numbers):
            instructions += [_step(_EQUAL, numbers[column], 0, 1), _step(_RETURN, _ALLOW)]
    instructions += [_step(_EQUAL, _CLONE3, 0, 1), _step(_RETURN, _REFUSE | errno.ENOSYS)]
    for numbers, arguments in _conditional(process_id):
        rules = list(_rules(arguments))
        instructions += [_step(_EQUAL, numbers[column], 0, len(rules)), *rules]
    instructions.append(_step(_RETURN, _REFUSE | errno.EPERM))
    return b"".join(instructions)


def _conditional(process_id: int) -> Iterator[tuple[tuple[int, int], Sequence[_Argument]]]:
    yield _CLONE, (_Argument(0, (_NEW_THREAD,), _NEW_THREAD | _NEW_NAMESPACES),)
    yield _KILL_CALL, (_Argument(0, (process_id,)),)
    yield _TGKILL, (_Argument(0, (process_id,)),)
    yield _PRCTL, (_Argument(0, (_SET_NAME, _GET_NAME)),)
    terminal = (_IS_TERMINAL, _WINDOW_SIZE, _HOW_MUCH, _NON_BLOCKING, _CLOSE_ON_EXEC, _KEEP_ON_EXEC)
    yield _IOCTL, (_Argument(1, terminal),)
    yield _PRLIMIT, (_Argument(0, (0,)),)
    # a pair of datagram sockets could send to any other socket of its family
    yield _SOCKETPAIR, (_Argument(0, (_UNIX,)), _Argument(1, (_STREAM,), _KIND_OF_SOCKET))


def _rules(arguments: Sequence[_Argument]) -> Iterator[bytes]:
    for argument in arguments:
        yield _step(_LOAD, _ARGUMENTS_AT + 8 * argument.position)
        yield _step(_AND, argument.mask)
        for index, value in enumerate(argument.values):
            yield _step(_EQUAL, value, len(argument.values) - index, 0)
        yield _step(_RETURN, _REFUSE | errno.EPERM)
    yield _step(_RETURN, _ALLOW)


def _step(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_so, if_not, value)
