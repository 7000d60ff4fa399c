"""How many generated cases a test runs: the same few in every run, or many new ones each night."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
from hypothesis import HealthCheck


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
