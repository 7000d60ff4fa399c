"""The log's warning about a turn that failed: one for each, by whoever stored its end."""

import logging
from typing import Any

from turnstone.domain.errors import ModelError
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.turns import TurnState, TurnStatus

log = logging.getLogger(__name__)


def warn_of_failure(ref: TurnRef, ended: TurnState, problem: BaseException | None = None) -> None:
    """Write which turn failed, and why, without a word of what was said in it; nothing for a turn that did not fail.

    Args:
        ref: the turn.
        ended: its state, as it was stored.
        problem: what it failed by, None for one whose process is gone.
    """
    if ended.status is not TurnStatus.FAILED or ended.failure is None:
        return
    told: dict[str, Any] = {"cause": "content lost" if ended.is_lost else "process gone"}
    if problem is not None:
        told = {"error": type(problem).__name__, **(problem.log_fields if isinstance(problem, ModelError) else {})}
    kind = ended.failure.kind
    log.warning("turn failed: %s", kind, extra={"fields": {**ids_of(ref), **told}, "in_message": {"kind": kind}})


def ids_of(ref: TurnRef) -> dict[str, str]:
    """Return the fields by which the log names the turn."""
    return {"tenant": ref.tenant, "agent_id": ref.agent_id, "session_id": ref.session_id, "turn_id": ref.turn_id}
