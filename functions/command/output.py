"""Standard output of the commands: it may be closed, a full device, or a pipe whose reader has left."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class OutputFailed(Exception):
    """Standard output can't be written."""


@contextmanager
def writing() -> Iterator[None]:
    """Convert failures of standard output within the block.

    Raises:
        OutputFailed: it is closed, or its device fails.
        BrokenPipeError: the reader of the pipe has left.
    """
    if sys.stdout is None:
        raise OutputFailed("standard output is closed")
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise OutputFailed(f"standard output can't be written: {problem.strerror or problem}") from problem


def print_line(line: str, *, at_once: bool = False) -> None:
    """Print a line; `at_once` flushes it. Raises OutputFailed, BrokenPipeError."""
    with writing():
        print(line, flush=at_once)


def print_json(value: object, *, at_once: bool = False) -> None:
    """Print a value as JSON, as `print_line` does."""
    print_line(json.dumps(value, indent=2), at_once=at_once)


def end_output() -> None:
    """Flush the buffer. Raises OutputFailed, BrokenPipeError."""
    if sys.stdout is not None:
        with writing():
            sys.stdout.flush()


def discard_output() -> None:
    """Discard the buffer after a failure, so that the exit of the process does not try to write it again."""
    if sys.stdout is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
