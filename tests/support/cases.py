"""How many cases a test runs: few in every run, always the same; in `make nightly` many, new where they are drawn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck

NIGHTLY = pytest.mark.nightly


def generated(count: int, seed: int | None = None) -> Callable[[Any], Any]:
    """Return a decorator of a test with `@given`: so many cases, those of the seed or the same in every run."""
    settings = hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=seed is None,
        suppress_health_check=list(HealthCheck),
    )
    return settings if seed is None else lambda test: hypothesis.seed(seed)(settings(test))


def rest_at_night(every: Iterable[Any], always: Collection[Any]) -> list[Any]:
    """Return a test's parameters, of which `make test` takes only some; a tuple stands for several arguments."""
    return [
        pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=() if each in always else NIGHTLY)
        for each in every
    ]
