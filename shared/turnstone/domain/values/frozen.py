"""What every domain model is made of: three base classes, and objects of JSON that anything may be in."""

import math
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

MAX_DEPTH = 64


class Frozen(BaseModel):
    """An immutable value; a new one is made with `model_copy(update=…)`. Unknown fields are ignored.

    What is wrong is told without the value, which may be a secret or a message.
    """

    model_config = ConfigDict(
        frozen=True,
        defer_build=True,
        extra="ignore",
        protected_namespaces=(),
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )


class Strict(Frozen):
    """A part of the operator's file: what it does not know is a mistake."""

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
    """Tell whether lists and objects are nested in the value deeper than what stores and readers take."""
    if isinstance(value, dict):
        return levels == 0 or any(is_too_deep(inner, levels - 1) for inner in value.values())
    if isinstance(value, list | tuple):
        return levels == 0 or any(is_too_deep(inner, levels - 1) for inner in value)
    return False


def place_of_infinity(value: Any) -> tuple[str | int, ...] | None:
    """Return the place of a number that JSON can't hold, such as 1e999 once it is read, None if there is none."""
    if isinstance(value, float):
        return None if math.isfinite(value) else ()
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    for name, inner in inside:
        if (place := place_of_infinity(inner)) is not None:
            return (name, *place)
    return None


def refuse_too_deep(value: Any) -> Any:
    """Return the value. Raises ValueError if it is nested too deep."""
    if is_too_deep(value):
        raise ValueError(f"lists and objects may be nested at most {MAX_DEPTH} deep")
    return value


Member = TypeVar("Member")
# stops at the first wrong member: a list of a million of them must not become a list of a million complaints
Many = Annotated[tuple[Member, ...], Field(fail_fast=True)]
JsonValue = Annotated[Any, AfterValidator(refuse_too_deep)]
JsonObject = Annotated[dict[str, Any], AfterValidator(refuse_too_deep)]
