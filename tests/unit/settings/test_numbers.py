"""Numbers and flags come as JSON has them or as texts that say nothing else; what says something else is no number.

Covers: domain/values/numbers
"""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from turnstone.domain.values.numbers import Count, Flag, Number, Positive, Whole

KINDS = {"count": Count, "whole": Whole, "number": Number, "positive": Positive, "flag": Flag}


@pytest.mark.parametrize(
    ("kind", "said", "meant"),
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
def test_a_text_that_says_a_number_or_a_flag_is_that(kind: str, said: Any, meant: Any) -> None:
    told = TypeAdapter[Any](KINDS[kind]).validate_python(said)
    assert (type(meant), meant) == (type(told), told)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        *(("count", said) for said in ("", " 5", "5 ", "+5", "05", "1_000", "1e3", "5.0", "٥", "0", "1" * 10, True)),
        *(("whole", said) for said in ("-1", "00", "1_0", "true", False)),
        *(("number", said) for said in ("", "1e3", ".5", "5.", "nan", "inf", " 1", "1_0.5", True)),
        *(("positive", said) for said in ("0", "0.0", "-1", "1e-3", " 1")),
        *(("flag", said) for said in ("True", "yes", "1", "on", " true", 1, 0)),
    ],
)
def test_a_text_that_says_anything_else_is_refused(kind: str, said: Any) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter[Any](KINDS[kind]).validate_python(said)
