"""Loading without a look for garbage: a start makes a hundred thousand objects, and nearly all of them stay."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def undisturbed() -> Iterator[None]:
    """Within the block, don't look for garbage: that takes a twelfth of the time to start."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def for_good() -> Iterator[None]:
    """As `undisturbed`, for what the process keeps until its end: no later look for garbage goes through it.

    That there are so many new objects would bring about the first such look at once.
    """
    with undisturbed():
        yield
        gc.freeze()
