"""Why turns end without an answer."""

from typing import Literal

from turnstone.domain.model import Frozen

FailureKind = Literal[
    "model_failed",
    "model_timed_out",
    "limit_reached",
    "tools_unavailable",
    "tools_want_credentials",
    "tools_refuse_credentials",
    "lease_lost",
    "ended",
    "gone",
    "handed_over",
    "store_unavailable",
    "content_lost",
    "internal",
]


class Failure(Frozen):
    """Why a turn ended without an answer: a kind for programs, a sentence for people."""

    kind: FailureKind
    message: str
