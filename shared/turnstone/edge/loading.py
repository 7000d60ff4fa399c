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


def keep_loaded() -> None:
    """Take all there is for what stays: no later look for garbage goes through it again."""
    gc.freeze()
