"""An attempt at a model server that brought no answer."""

from dataclasses import dataclass

from turnstone.domain.errors import ModelError


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt without an answer, or with a part of one.

    Attributes:
        wait_s: the least to wait before the next attempt, None if there is to be none.
        cause: None where its text repeats the request.
    """

    error: ModelError
    wait_s: float | None = None
    cause: Exception | None = None
