"""Numbers and flags from clients: JSON values, or equivalent texts.

Source: servers of the Llama Stack Agents API accept `"512"` for 512 and `"true"` for true; applications rely on it.
"""

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

WHOLE = "0|[1-9][0-9]{0,8}"
COUNT = "[1-9][0-9]{0,8}"
NUMBER = r"-?[0-9]{1,9}(\.[0-9]{1,9})?"
POSITIVE = r"[1-9][0-9]{0,8}(\.[0-9]{1,9})?|0\.[0-9]{0,8}[1-9]"
FLAGS = {"true": True, "false": False}


def _from_text(pattern: str, read: Callable[[str], int | float]) -> BeforeValidator:
    def number_in(value: Any) -> Any:
        if isinstance(value, str) and re.fullmatch(pattern, value):  # compiled for the first text, if one comes
            return read(value)
        if isinstance(value, str | bool):
            raise PydanticCustomError("number_type", "Input should be a number")
        return value

    return BeforeValidator(number_in)


def _flag_in(value: Any) -> Any:
    return FLAGS.get(value, value) if isinstance(value, str) else value


def _schema(schema: dict[str, Any], text_schema: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [schema, text_schema]}, mode="validation")


def counts_up_to(most: int) -> str:
    """Return the pattern of the texts of the whole numbers from 1 to this one."""
    digits = str(most)
    shorter = [f"[1-9][0-9]{{0,{len(digits) - 2}}}"] if len(digits) > 1 else []
    below = [
        f"{digits[:position]}[{lowest}-{int(digit) - 1}]" + "[0-9]" * (len(digits) - position - 1)
        for position, digit in enumerate(digits)
        if int(digit) > (lowest := 0 if position else 1)
    ]
    return "|".join((*shorter, *below, digits))


def count_schema(most: int) -> WithJsonSchema:
    """Return the schema of whole numbers from 1 to this one, which a limit alone leaves out."""
    return _schema({"type": "integer", "minimum": 1, "maximum": most}, _text(counts_up_to(most)))


def _text(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^({pattern})$"}


Flag = Annotated[
    bool, Field(strict=True), BeforeValidator(_flag_in), _schema({"type": "boolean"}, {"enum": list(FLAGS)})
]
Whole = Annotated[int, Field(ge=0), _from_text(WHOLE, int), _schema({"type": "integer", "minimum": 0}, _text(WHOLE))]
Count = Annotated[int, Field(ge=1), _from_text(COUNT, int), _schema({"type": "integer", "minimum": 1}, _text(COUNT))]
Number = Annotated[float, _from_text(NUMBER, float), _schema({"type": "number"}, _text(NUMBER))]
Positive = Annotated[
    float,
    Field(gt=0),
    _from_text(POSITIVE, float),
    _schema({"type": "number", "exclusiveMinimum": 0}, _text(POSITIVE)),
]
