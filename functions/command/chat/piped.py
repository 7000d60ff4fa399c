"""Standard input that is no terminal, read to its end as text of bounded size."""

import errno
import os
import select
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TextIO

from ..client import CommandFailed

MOST_BYTES = 100_000_000  # the highest limit that a server can be set to
READ_BYTES = 1024 * 1024
NOTE_AFTER_S = 2.0
SILENT_S = 120.0
ALONE = "`< /dev/null` sends the message without it"


class UnusableInput(CommandFailed):
    """Standard input can't be sent; the message has the reason and the remedy."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"standard input {reason}")


def with_piped(message: str | None, stdin: TextIO | None, note: Callable[[str], None]) -> str:
    """Return the text of standard input followed by the message, or the one that exists; it may be empty.

    The message comes last, because servers of small models cut the beginning of a text that is too long. `note`
    receives hints for the user. Raises UnusableInput: the input is too large, is no text, or brings nothing for two
    minutes.
    """
    if stdin is None or stdin.isatty():
        return message or ""
    try:
        descriptor = stdin.fileno()
    except OSError:  # a stand-in without a descriptor
        return message or ""
    text = _text(_read(descriptor, note), stdin.encoding)
    if message is None:
        return text
    if text.strip():
        lines = text.rstrip("\r\n")
        return f"{lines}\n\n{message}"
    if not stat.S_ISCHR(os.fstat(descriptor).st_mode):
        note("· standard input is empty: the message is sent alone")
    return message


def _read(descriptor: int, note: Callable[[str], None]) -> bytes:
    body = bytearray()
    try:
        for piece in _pieces(descriptor, note):
            body += piece
            if len(body) > MOST_BYTES:
                raise UnusableInput(
                    f"has more than {MOST_BYTES // 1_000_000} MB, which no server takes as one message."
                )
    except OSError as problem:
        if problem.errno == errno.EBADF:  # open for writing only, as nohup leaves it
            return b""
        raise UnusableInput(f"can't be read: {problem.strerror}.") from None
    return bytes(body)


def _pieces(descriptor: int, note: Callable[[str], None]) -> Iterator[bytes]:
    is_noted = False
    silent_since = time.monotonic()
    while True:
        left_s = silent_since + (SILENT_S if is_noted else NOTE_AFTER_S) - time.monotonic()
        if not _wait_until_ready(descriptor, max(0.0, left_s)):
            if is_noted:
                raise UnusableInput(f"is open, but brought nothing for {SILENT_S:g} s: {ALONE}.")
            note(f"· waiting for standard input, which precedes the message; {ALONE}")
            is_noted = True
            continue
        with suppress(BlockingIOError):
            piece = os.read(descriptor, READ_BYTES)
            if not piece:
                return
            yield piece
        silent_since = time.monotonic()


def _wait_until_ready(descriptor: int, wait_s: float) -> bool:
    if not hasattr(select, "poll"):  # Windows waits for sockets only
        return True
    poll = select.poll()  # `select` takes no descriptor above 1,023
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(wait_s * 1_000))


def _text(body: bytes, encoding: str) -> str:
    """Return the bytes as text: UTF-8, with or without its mark, else in the encoding of this process's locale."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        try:
            text = body.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            hint = "convert it first, for example with `iconv -f latin1 -t utf-8`"
            raise UnusableInput(f"is not UTF-8 text (at byte {problem.start}): {hint}.") from None
    if (index := text.find("\0")) >= 0:
        raise UnusableInput(f"is not text: character {index} is a zero byte.")
    return text
