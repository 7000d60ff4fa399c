"""The two base classes of every domain model."""

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator


class Frozen(BaseModel):
    """An immutable value; a new one is made with `model_copy(update=…)`. Unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, defer_build=True, extra="ignore", protected_namespaces=())


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
