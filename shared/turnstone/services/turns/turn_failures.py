"""The log's warning about a failed turn, written once, by the process that stored its end."""

import logging
from typing import Any

from turnstone.domain.errors import ModelError
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.turns import TurnState, TurnStatus

log = logging.getLogger(__name__)


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
