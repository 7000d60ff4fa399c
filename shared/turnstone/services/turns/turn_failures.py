"""The failure of a turn that an error ended, and the log's warning, written by the process that stored its end."""

import logging
from typing import Any

from turnstone.domain.errors import (
    ContentLost,
    CredentialsMissing,
    CredentialsRefused,
    InvalidRequest,
    LimitReached,
    MemoryUnusable,
    ModelBusy,
    ModelError,
    ModelTimedOut,
    ToolgroupUnavailable,
    TurnstoneError,
)
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.failures import Failure, FailureKind
from turnstone.domain.turns.turns import TurnState, TurnStatus

log = logging.getLogger(__name__)
KINDS: tuple[tuple[type[TurnstoneError], FailureKind], ...] = (
    (ContentLost, "content_lost"),
    (LimitReached, "limit_reached"),
    (MemoryUnusable, "memory_unusable"),
    (CredentialsMissing, "tools_want_credentials"),
    (CredentialsRefused, "tools_refuse_credentials"),
    (ToolgroupUnavailable, "tools_unavailable"),
    (ModelBusy, "model_busy"),
    (ModelTimedOut, "model_timed_out"),
    (InvalidRequest, "not_runnable"),
)


def warn_of_failure(ref: TurnRef, ended: TurnState, problem: BaseException | None = None) -> None:
    """Log the failed turn and the cause, without contents of its messages. Does nothing for other turns.

    Args:
        ref: the turn.
        ended: its stored state.
        problem: the error it failed by, None if its process is gone or its content is lost.
    """
    if ended.status is not TurnStatus.FAILED or ended.failure is None:
        return
    cause: dict[str, Any] = {"cause": "content lost" if ended.is_lost else "process gone"}
    if problem is not None:
        cause = {"error": type(problem).__name__, **(problem.log_fields if isinstance(problem, ModelError) else {})}
    kind = ended.failure.kind
    log.warning("turn failed: %s", kind, extra={"fields": {**ids_of(ref), **cause}, "in_message": {"kind": kind}})


def ids_of(ref: TurnRef) -> dict[str, str]:
    """Return the fields by which the log names the turn."""
    return {"tenant": ref.tenant, "agent_id": ref.agent_id, "session_id": ref.session_id, "turn_id": ref.turn_id}


def failure_of(error: TurnstoneError) -> Failure:
    """Return the failure of a turn that an error ended."""
    return Failure(
        kind=_kind_of(error),
        message=str(error),
        provider_status=error.status if isinstance(error, ModelError) else None,
        retry_after_s=error.retry_after_s if isinstance(error, ModelBusy) else None,
    )


def _kind_of(error: TurnstoneError) -> FailureKind:
    return next((kind for type_of, kind in KINDS if isinstance(error, type_of)), "model_failed")
