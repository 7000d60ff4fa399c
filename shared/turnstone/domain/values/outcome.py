"""The outcome of an act whose errors a background thread survives."""

from __future__ import annotations

from collections.abc import Callable
from threading import current_thread, main_thread
from typing import Generic, NamedTuple, TypeVar

Result = TypeVar("Result")
Value = TypeVar("Value", covariant=True)


class Returned(NamedTuple, Generic[Value]):
    """The act returned."""

    value: Value


class Raised(NamedTuple):
    """The act raised an error of any type."""

    error: BaseException


Outcome = Returned[Result] | Raised


def guarded(act: Callable[[], Result]) -> Outcome[Result]:
    """Return the act's result or its error, so that its thread continues with other work.

    Panics of native code, which are no `Exception`, are errors, too. Only the interrupt of a person is raised, in the
    main thread.
    """
    try:
        return Returned(act())
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and current_thread() is main_thread():
            raise
        return Raised(error)
