"""What OpenAI's request bodies are made of: fields that mean nothing here are refused by name."""

from typing import Any

from pydantic import ConfigDict, ValidationInfo, model_validator

from turnstone.domain.model import NullMeansDefault


class Strict(NullMeansDefault):
    """A value in which null means the default, and a field that is not known here is a mistake."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def drop_nulls(cls, fields: Any) -> Any:
        if isinstance(fields, dict):
            known = cls.model_fields
            return {name: value for name, value in fields.items() if value is not None or name not in known}
        return fields


def refuse(value: Any, field: ValidationInfo, reasons: dict[str, str]) -> Any:
    """Return null for null. Raises ValueError for a field that would have no effect."""
    if value is not None:
        raise ValueError(reasons[str(field.field_name)])
    return value
