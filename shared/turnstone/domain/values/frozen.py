"""Base classes of domain models, and JSON objects with arbitrary content."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

MAX_DEPTH = 64


if TYPE_CHECKING:  # the metaclass of models has no public name
    from pydantic._internal._model_construction import ModelMetaclass as ByClass
else:

    class ByClass(type(BaseModel)):
        """Models to which only instances of their class and its subclasses belong.

        pydantic's own check also admits registered classes, as abstract ones do, and takes several times as long; a
        turn makes hundreds of checks.
        """

        __instancecheck__ = type.__instancecheck__


class Frozen(BaseModel, metaclass=ByClass):
    """An immutable value; `model_copy(update=…)` creates a new one. Unrecognised fields are ignored.

    Validation errors omit the value, which may be a secret or a message.
    """

    model_config = ConfigDict(
        frozen=True,
        defer_build=True,
        extra="ignore",
        protected_namespaces=(),
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return the value itself: it cannot change, and pydantic copies every default."""
        return self


class Strict(Frozen):
    """A part of the operator's file: an unrecognised field is an error."""

    model_config = ConfigDict(extra="forbid")


class NullMeansDefault(Frozen):
    """A value whose fields, sent as null, take their default.

    Source: the Llama Stack Agents contract, where clients send null for lists and counts.
    """

    @model_validator(mode="before")
    @classmethod
    def drop_nulls(cls, fields: Any) -> Any:
        if isinstance(fields, dict):
            return {name: value for name, value in fields.items() if value is not None}
        return fields


def is_too_deep(value: Any, levels: int = MAX_DEPTH) -> bool:
    """Return whether the value's nesting exceeds the limit of stores and readers."""
    if isinstance(value, dict):
        return levels == 0 or any(is_too_deep(inner, levels - 1) for inner in value.values())
    if isinstance(value, list | tuple):
        return levels == 0 or any(is_too_deep(inner, levels - 1) for inner in value)
    return False


def infinity_path(value: Any) -> tuple[str | int, ...] | None:
    """Return the position of a number that JSON cannot hold, such as 1e999 after parsing, None if there is none."""
    if isinstance(value, float):
        return None if math.isfinite(value) else ()
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    for name, inner in inside:
        if (path := infinity_path(inner)) is not None:
            return (name, *path)
    return None


def refuse_too_deep(value: Any) -> Any:
    """Return the value. Raises ValueError if it is nested too deep."""
    if is_too_deep(value):
        raise ValueError(f"lists and objects may be nested at most {MAX_DEPTH} deep")
    return value


Member = TypeVar("Member")
# stops at the first invalid member: a list of a million of them must not produce a million problems
Many = Annotated[tuple[Member, ...], Field(fail_fast=True)]
JsonValue = Annotated[Any, AfterValidator(refuse_too_deep)]
JsonObject = Annotated[dict[str, Any], AfterValidator(refuse_too_deep)]
