"""What came of an act that a background thread has to survive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import current_thread, main_thread
from typing import Generic, TypeVar

Result = TypeVar("Result")
Value = TypeVar("Value", covariant=True)


@dataclass(frozen=True, slots=True)
class Returned(Generic[Value]):
    """The act returned."""

    value: Value


@dataclass(frozen=True, slots=True)
class Raised:
    """The act raised an error of any type."""

    error: BaseException


Outcome = Returned[Result] | Raised


def guarded(act: Callable[[], Result]) -> Outcome[Result]:
    """Return what the act returns or raises, so that its thread continues with other work.

    That includes panics of a library's native code, which are no `Exception`.
    A person's interrupt, which the main thread gets, is raised.
    """
    try:
        return Returned(act())
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and current_thread() is main_thread():
            raise
        return Raised(error)
