"""Keys of caches for values that never change and have no hash of their own."""

from __future__ import annotations

from typing import Generic, TypeVar

Value = TypeVar("Value")


class ByIdentity(Generic[Value]):
    """A key that equals another one of the same object only. A cache that keeps the key keeps the object as well."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByIdentity) and self.value is other.value
