"""Reading of one document in a process of its own: parsers hang, take memory without end, or crash.

Guarantees, on Linux, without privileges: the process ends in time, its memory is limited, and it writes no files. macOS
does not limit its memory.
"""

from __future__ import annotations

import io
import json
import logging
import math
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile, TemporaryFile
from threading import BoundedSemaphore
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import turnstone
from turnstone.domain.memory.texts.extraction import ExtractionFailed, unreadable

if TYPE_CHECKING:
    from turnstone.domain.values.cancellation import StopSignal

log = logging.getLogger(__name__)
START = (
    "import json, sys; job = json.loads(sys.argv[1]); sys.path[:0] = job['paths']; "
    "from turnstone.adapters.extracting.reading_entry import main; main(job)"
)
LIBRARIES = "LD_LIBRARY_PATH"  # a Python with a shared library, as that of Lambda, may need it to start
PIECE_BYTES = 65_536
MAX_HEAD_BYTES = 4096
BUSY = "too many documents are being read on this server; try again"
CANNOT_START = "this server can't start the process that reads documents; try again"
CANCELLED = "the reading of the document was cancelled, because the server shuts down or the request ended; try again"
DAMAGED = "the document can't be read: it is damaged, or of another type than declared; save it again"


class ReadingLimits(NamedTuple):
    """Limits of the processes that read documents.

    Attributes:
        seconds: for one document, with its wait for a process.
        memory_bytes: of the address space of one process.
        at_once: processes.
    """

    seconds: float = 120.0
    memory_bytes: int = 512 * 1024 * 1024
    at_once: int = 2


DEFAULT_LIMITS = ReadingLimits()


class ReadingProcesses:
    """Starts a process for each document."""

    def __init__(self, limits: ReadingLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._slots = BoundedSemaphore(limits.at_once)

    def text(self, kind: str, file: IO[bytes], charset: str | None, stop: StopSignal | None) -> str:
        """Return the text of a document. The process has ended by then in any case. Raises ExtractionFailed."""
        ends_at = time.monotonic() + self._limits.seconds
        if not self._slots.acquire(timeout=self._limits.seconds):
            raise ExtractionFailed("server_error", BUSY)
        try:
            return self._text({"kind": kind, "charset": charset}, file, stop, ends_at)
        finally:
            self._slots.release()

    def _text(self, job: dict[str, Any], file: IO[bytes], stop: StopSignal | None, ends_at: float) -> str:
        limits = {"memory_bytes": self._limits.memory_bytes, "seconds": math.ceil(self._limits.seconds)}
        with ExitStack() as opened:
            try:
                stdin = opened.enter_context(_in_a_file(file))
                process = opened.enter_context(_started({**job, **limits, "paths": _module_paths()}, stdin))
            except OSError as failure:
                log.warning("a document can't be read now: %s", failure.strerror)
                raise ExtractionFailed("server_error", CANNOT_START) from None
            opened.callback(process.kill)
            if stop is not None:
                opened.enter_context(stop.heeded_by(process.kill))
            try:
                output, _ = process.communicate(timeout=max(0.0, ends_at - time.monotonic()))
            except subprocess.TimeoutExpired:
                problem = f"reading the document takes longer than {self._limits.seconds:g} s; divide it"
                raise unreadable(problem) from None
        if stop is not None and stop.is_set:
            raise ExtractionFailed("server_error", CANCELLED)
        return _result(output, process.returncode)


def _started(job: dict[str, Any], stdin: IO[bytes]) -> subprocess.Popen[bytes]:
    libraries = sysconfig.get_config_var("LIBDIR")
    return subprocess.Popen(  # noqa: S603 # this Python, by its path
        [sys.executable, "-I", "-S", "-X", "utf8", "-c", START, json.dumps(job)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={LIBRARIES: libraries} if libraries else {},
        cwd="/",
        start_new_session=True,
    )


def _module_paths() -> list[str]:
    return [str(Path(turnstone.__file__).resolve().parents[1]), *filter(os.path.isabs, sys.path)]


@contextmanager
def _in_a_file(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Yield the document as a file of the system, from its beginning; it is copied only if it is none yet."""
    if isinstance(file, SpooledTemporaryFile):
        file.rollover()
        file.flush()
    if isinstance(file, SpooledTemporaryFile | io.BufferedReader | io.BufferedRandom):
        file.seek(0)
        yield file
        return
    with TemporaryFile() as copy:
        file.seek(0)
        copyfileobj(file, copy, PIECE_BYTES)
        copy.seek(0)
        yield copy


def _result(output: bytes, returncode: int) -> str:
    end = output.find(b"\n", 0, MAX_HEAD_BYTES)
    found: dict[str, Any] = json.loads(output[:end]) if end > 0 else {}
    if "message" in found:
        raise ExtractionFailed(found["code"], found["message"])
    if "missing" in found:
        log.error("documents can't be read: the module %s is missing", found["missing"])
        raise ExtractionFailed("server_error", f"this server lacks the module {found['missing']}; report it")
    if found.get("bytes") != len(output) - end - 1:
        log.warning("a document can't be read: %s", found.get("crash") or f"its process ended by {returncode}")
        raise unreadable(DAMAGED)
    return str(memoryview(output)[end + 1 :], "utf-8")
