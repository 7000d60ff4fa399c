"""What came of an act that a background thread has to survive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

Result = TypeVar("Result")
Value = TypeVar("Value", covariant=True)


@dataclass(frozen=True, slots=True)
class Returned(Generic[Value]):
    """The act returned."""

    value: Value


@dataclass(frozen=True, slots=True)
class Raised:
    """The act raised, perhaps an error that nobody expected."""

    error: BaseException


Outcome = Returned[Result] | Raised


def guarded(act: Callable[[], Result]) -> Outcome[Result]:
    """Return what the act returns or raises, so that its thread continues with other work.

    That includes panics of a library's native code, which are no `Exception`. Only a person's interrupt is raised.
    """
    try:
        return Returned(act())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - it is the outcome
        return Raised(error)
