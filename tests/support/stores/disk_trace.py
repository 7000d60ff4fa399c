"""The content of a disk after a loss of power, from the system calls before it: read from the output of strace.

Only synced changes (fsync, fdatasync) are sure to be there: of a file its bytes, of a folder its names. Of
all else, any part may be there and any part missing.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

# A question mark: strace accepts a system without the call.
CALLS = (
    "?openat,?creat,?write,?writev,?pwrite64,?pwritev,?pwritev2,?ftruncate,?truncate,?fallocate,?fsync,?fdatasync,?unlink,"
    "?unlinkat,?rename,?renameat,?renameat2,?link,?linkat,?mkdir,?mkdirat,?rmdir,?sync_file_range,?copy_file_range"
)
STRACE = ("strace", "-D", "-f", "--seccomp-bpf", "-y", "-ttt", "-T", "-s", "4000000", "-e", f"trace={CALLS}")
SECTOR_BYTES = 512
_LINE = re.compile(r"(\d+) +(\d+\.\d+) (.*)")
_WHOLE = re.compile(r"(\w+)\((.*)\) += (-?\d+)(.*?)(?: <(\d+\.\d+)>)?")
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")
_UNFINISHED = " <unfinished ...>"
_OF_DESCRIPTOR = re.compile(r"-?\w+<(.*)>")
_ARGUMENT = re.compile(r'"(?:[^"\\]|\\.)*"|[^,"<]*<[^>]*>|[^,"]+')


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the system that went well; times are those of the clock, in seconds."""

    name: str
    arguments: tuple[str, ...]
    began_at: float
    ended_at: float
    answer: int
    answered_path: str

    @property
    def path(self) -> str:
        """The file its first argument is about: a descriptor's, or one that is named."""
        return _path(self.arguments[0])

    def bytes_given(self) -> bytes:
        data = _bytes(self.arguments[1])
        assert len(data) >= self.answer, "the trace was cut short"
        return data[: self.answer]


@dataclass(eq=False, slots=True)
class _Change:
    """A requested change that may not be on the disk yet: bytes of a file, its size, or a name in a folder."""

    requested_at: float
    what: tuple[int, bytes] | int | tuple[str, _Node | None]


@dataclass(eq=False, slots=True)
class _Node:
    """A file or a folder: its content on the disk, and the changes that may be there."""

    names: dict[str, _Node] | None = None
    data: bytearray = field(default_factory=bytearray)
    pending: list[_Change] = field(default_factory=list)
    position: int = 0

    def sync(self, began_at: float) -> None:
        """Put every change requested before that moment on the disk."""
        for change in self.pending:
            if change.requested_at <= began_at:
                self.apply(change)
        self.pending = [change for change in self.pending if change.requested_at > began_at]

    def apply(self, change: _Change) -> None:
        match change.what:
            case int(size):
                del self.data[size:]
                self.data.extend(bytes(size - len(self.data)))
            case (int(offset), bytes(written)):
                self.data.extend(bytes(max(0, offset - len(self.data))))
                self.data[offset : offset + len(written)] = written
            case (str(name), _Node() as node):
                assert self.names is not None
                self.names[name] = node
            case (str(name), None):
                assert self.names is not None
                self.names.pop(name, None)

    def write_to(self, path: Path, chance: random.Random) -> None:
        """Make the remains of it: the synced content, and a part of the rest, in pieces that a disk writes whole."""
        left = _Node(None if self.names is None else dict(self.names), bytearray(self.data))
        # Names change in the order of the calls; bytes in any.
        pending = self.pending[: chance.randint(0, len(self.pending))] if self.names is not None else self.pending
        share = chance.random()
        for change in pending:
            for piece in _pieces(change) if self.names is None else [change]:
                if self.names is not None or chance.random() < share:
                    left.apply(piece)
        if left.names is None:
            path.write_bytes(left.data)
            return
        path.mkdir()
        for name, node in left.names.items():
            node.write_to(path / name, chance)


class Disk:
    """The disk below one folder, which was empty and on it when the trace began."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._sure = _Node({})
        self._seen: dict[str, _Node] = {str(root): self._sure}

    def take(self, call: Call) -> None:
        """Replay the call. Raises AssertionError for an unsupported call."""
        match call.name:
            case "fsync" | "fdatasync":
                if node := self._seen.get(call.path):
                    node.sync(call.began_at)
            case "openat":
                self._open(call)
            case "mkdir":
                self._name(call.path, _Node({}), call)
            case "unlink" | "rmdir":
                self._name(call.path, None, call)
            case "rename":
                self._rename(call)
            case _:
                self._change(call)

    def left(self, path: Path, chance: random.Random) -> None:
        """Make, as the folder `path`, a possible state after a loss of power now."""
        self._sure.write_to(path, chance)

    def _change(self, call: Call) -> None:
        node = self._seen.get(call.path)
        match call.name:
            case "pwrite64" | "write" | "ftruncate" | "fallocate" if node is None:
                assert not self._is_below(call.path), call
            case "pwrite64":
                node.pending.append(_Change(call.ended_at, (int(call.arguments[3]), call.bytes_given())))
            case "write":
                node.pending.append(_Change(call.ended_at, (node.position, call.bytes_given())))
                node.position += call.answer
            case "ftruncate":
                node.pending.append(_Change(call.ended_at, int(call.arguments[1])))
            case "fallocate":
                _, mode, offset, length = call.arguments
                assert (mode, offset) == ("0", "0"), call
                assert len(node.data) <= int(length), call
                node.pending.append(_Change(call.ended_at, int(length)))
            case _:
                assert not any(str(self._root) in argument for argument in call.arguments[:2]), call

    def _open(self, call: Call) -> None:
        path, flags = call.answered_path, call.arguments[2]
        assert "O_TMPFILE" not in flags, call
        if "O_CREAT" in flags and path not in self._seen:
            self._name(path, _Node(), call)
        elif "O_TRUNC" in flags and path in self._seen:
            self._seen[path].pending.append(_Change(call.ended_at, 0))
            self._seen[path].position = 0

    def _rename(self, call: Call) -> None:
        path, to = call.path, _path(call.arguments[1])
        node = self._seen.get(path)
        if node is None:
            return
        assert Path(path).parent == Path(to).parent, call
        self._name(to, node, call)
        self._name(path, None, call)

    def _name(self, path: str, node: _Node | None, call: Call) -> None:
        if not self._is_below(path):
            return
        folder = self._seen[str(Path(path).parent)]
        folder.pending.append(_Change(call.ended_at, (Path(path).name, node)))
        if node is None:
            self._seen.pop(path, None)
        else:
            self._seen[path] = node

    def _is_below(self, path: str) -> bool:
        return Path(path).is_relative_to(self._root)


def calls_in(trace: Iterable[str]) -> list[Call]:
    """Return the calls that went well, in the order in which they ended."""
    return sorted(_calls(trace), key=lambda call: call.ended_at)


def has_ended(trace: Path) -> bool:
    """Return whether the trace has the end of every process."""
    lines = [line.split(maxsplit=2) for line in trace.read_text(errors="surrogateescape").splitlines()]
    ended = {parts[0] for parts in lines if len(parts) > 2 and parts[2].startswith("+++ ")}
    return bool(lines) and {parts[0] for parts in lines} == ended


def _calls(trace: Iterable[str]) -> Iterator[Call]:
    begun: dict[str, tuple[float, str]] = {}
    for line in trace:
        matched = _LINE.fullmatch(line.rstrip("\n"))
        assert matched, f"no line of a trace: {line[:200]!r}"
        pid, at, text = matched[1], float(matched[2]), matched[3]
        began_at, resumed = at, _RESUMED.fullmatch(text)
        if text.endswith(_UNFINISHED):
            begun[pid] = (at, text.removesuffix(_UNFINISHED))
            continue
        if resumed:
            began_at, beginning = begun.pop(pid)
            text = beginning + resumed[1]
        whole = _WHOLE.fullmatch(text)
        if whole is None or int(whole[3]) < 0:  # a signal, an end, or a call that failed
            continue
        ended_at = at if resumed else at + float(whole[5] or 0)
        answered = _OF_DESCRIPTOR.fullmatch(f"{whole[3]}{whole[4]}")
        arguments = tuple(argument.strip() for argument in _ARGUMENT.findall(whole[2]) if argument.strip())
        yield Call(whole[1], arguments, began_at, ended_at, int(whole[3]), answered[1] if answered else "")


def _pieces(change: _Change) -> Iterator[_Change]:
    match change.what:
        case (int(offset), bytes(written)):
            begin = 0
            while begin < len(written):
                end = min(len(written), (offset + begin) // SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES - offset)
                yield _Change(change.requested_at, (offset + begin, written[begin:end]))
                begin = end
        case _:
            yield change


def _path(argument: str) -> str:
    named = _OF_DESCRIPTOR.fullmatch(argument)
    return named[1] if named else _bytes(argument).decode()


def _bytes(argument: str) -> bytes:
    value = ast.literal_eval(f"b{argument}")
    assert isinstance(value, bytes)
    return value
