"""Repeating a read and a conditional write until no other writer comes in between."""

from collections.abc import Callable
from typing import TypeVar

from turnstone.domain.errors import Conflict, StoreUnavailable

TRIES = 4
TRIES_OF_TURNS = 8
Result = TypeVar("Result")


class ReadAgain(Exception):
    """The decision rests on records that have changed since; raised within `retried`."""


def retried(
    act: Callable[[], Result],
    refusal: str,
    tries: int = TRIES,
    on: tuple[type[Exception], ...] = (Conflict, ReadAgain),
) -> Result:
    """Return the act's result, repeating it while it raises one of the errors in `on`.

    Raises:
        StoreUnavailable: with the text of the refusal, when every try met another writer.
    """
    for _ in range(tries):
        try:
            return act()
        except on:
            continue
    raise StoreUnavailable(refusal)
