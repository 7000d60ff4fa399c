"""Numbers and flags: JSON's own, or texts of exactly that form; any other value is refused.

Covers: domain/values/numbers
"""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from turnstone.domain.values.numbers import Count, Flag, Number, Positive, Whole

KINDS = {"count": Count, "whole": Whole, "number": Number, "positive": Positive, "flag": Flag}


@pytest.mark.parametrize(
    ("kind", "sent", "value"),
    [
        ("count", "512", 512),
        ("count", 512, 512),
        ("whole", "0", 0),
        ("number", "-0.5", -0.5),
        ("number", "3", 3.0),
        ("positive", "0.05", 0.05),
        ("flag", "true", True),
        ("flag", "false", False),
        ("flag", True, True),
    ],
)
def test_a_text_of_a_number_or_a_flag_is_parsed(kind: str, sent: Any, value: Any) -> None:
    parsed = TypeAdapter[Any](KINDS[kind]).validate_python(sent)
    assert (type(value), value) == (type(parsed), parsed)


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        *(("count", sent) for sent in ("", " 5", "5 ", "+5", "05", "1_000", "1e3", "5.0", "٥", "0", "1" * 10, True)),
        *(("whole", sent) for sent in ("-1", "00", "1_0", "true", False)),
        *(("number", sent) for sent in ("", "1e3", ".5", "5.", "nan", "inf", " 1", "1_0.5", True)),
        *(("positive", sent) for sent in ("0", "0.0", "-1", "1e-3", " 1")),
        *(("flag", sent) for sent in ("True", "yes", "1", "on", " true", 1, 0)),
    ],
)
def test_any_other_text_is_refused(kind: str, sent: Any) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter[Any](KINDS[kind]).validate_python(sent)
