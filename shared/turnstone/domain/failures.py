"""Why turns end without an answer: as their streams say it, and as the turns themselves show it afterwards."""

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


UnansweredStatus = Literal["failed", "expired", "cancelled"]


class Failure(Frozen):
    """Why a turn ended without an answer: a kind for programs, a sentence for people."""

    kind: FailureKind
    message: str


class TurnFailure(Frozen):
    """Why a turn has no answer, for whoever reads the turn: nothing of what its model or its tools said is in it."""

    status: UnansweredStatus
    kind: FailureKind
    message: str


# in the place of messages that quote a provider
IN_OUR_WORDS: dict[FailureKind, str] = {
    "model_failed": "its model gave no answer that can be used",
    "model_timed_out": "its model was silent for too long",
    "tools_unavailable": "the tools of one of its toolgroups are not available",
    "content_lost": "its stored content is lost",
    "internal": "of an internal error of the server",
}
OURS_ALREADY: frozenset[FailureKind] = frozenset({"ended", "limit_reached"})


def turn_failure(turn_id: str, status: UnansweredStatus, failure: Failure | None) -> TurnFailure:
    """Return what the turn shows of the failure that is stored with it, or of its status alone."""
    if failure is None:
        return TurnFailure(status=status, kind="ended", message=f"turn {turn_id!r} is {status}")
    if failure.kind in OURS_ALREADY:
        return TurnFailure(status=status, kind=failure.kind, message=failure.message)
    why = IN_OUR_WORDS.get(failure.kind)
    return TurnFailure(
        status=status, kind=failure.kind, message=f"turn {turn_id!r} is {status}" + (f": {why}" if why else "")
    )
