"""Runs of Letta's API: turns in the background, as its clients read them."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from pydantic import RootModel

from turnstone.dialects.letta.ids import row_in, shown, user_id
from turnstone.dialects.letta.message_requests import (
    LIMIT,
    TEXT,
    TRUE,
    RequestConfig,
    flag_in,
    limit_in,
    refuse_parameters,
)
from turnstone.dialects.letta.messages import LettaUsage, Note, response_of, rows_of, usage_of
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.letta.runs import LettaRun
from turnstone.domain.turns.turns import TurnStatus
from turnstone.domain.values.frozen import Frozen

DEFAULT_RUNS, DEFAULT_ROWS = 50, 100
ROLES: Mapping[str, frozenset[str]] = {
    "user": frozenset({"user_message"}),
    "system": frozenset({"system_message"}),
    "assistant": frozenset({"reasoning_message", "tool_call_message", "assistant_message"}),
    "tool": frozenset({"tool_return_message"}),
}
RUNS_QUERY: Mapping[str, str | Mapping[str, Any]] = {
    "limit": {"description": "How many runs to return at most, of the newest.", "schema": LIMIT},
}
RUN_MESSAGES_QUERY: Mapping[str, str | Mapping[str, Any]] = {
    "cursor": {"description": "The id of the last message of the part before.", "schema": TEXT},
    "limit": {"description": "How many messages to return at most; an inference counts once.", "schema": LIMIT},
    "ascending": {
        "description": "Whether the oldest message comes first, as without it.",
        "schema": {"enum": ["true", "false"]},
    },
    "role": {"description": "The role of the messages.", "schema": {"enum": list(ROLES)}},
}
OF_LATER_LISTS = ("after", "before", "order", "order_by")
RunStatus = Literal["created", "running", "completed", "failed", "pending"]
SHOWN: Mapping[TurnStatus, RunStatus] = {
    TurnStatus.IN_PROGRESS: "running",
    TurnStatus.AWAITING_INPUT: "pending",
    TurnStatus.COMPLETED: "completed",
    TurnStatus.FAILED: "failed",
    TurnStatus.EXPIRED: "failed",
    TurnStatus.CANCELLED: "failed",
}


class RunObject(Frozen):
    """A turn in the background."""

    created_by_id: str
    last_updated_by_id: str
    created_at: datetime
    updated_at: datetime
    status: RunStatus
    completed_at: datetime | None
    metadata_: dict[str, Any]
    job_type: Literal["run"] = "run"
    id: str
    user_id: str
    request_config: dict[str, Any] | None


class RunObjects(RootModel[tuple[RunObject, ...]]):
    """Runs, newest first."""


class RunUsage(Frozen):
    """Tokens of a run, summed over its inferences."""

    completion_tokens: int
    prompt_tokens: int
    total_tokens: int


class RunMessagesQuery(NamedTuple):
    """The requested part of the messages of a run.

    Attributes:
        after: the id of the message before the first one, None for the beginning.
    """

    after: str | None
    limit: int
    is_ascending: bool
    role: str | None

    def notes(self, run: LettaRun) -> tuple[Note, ...]:
        """Return the messages. Raises NotFound if the run has no message `after`."""
        rows = list(rows_of(run.state, _config_of(run).answers_by))
        if not self.is_ascending:
            rows.reverse()
        if self.after is not None:
            owner, number = row_in(self.after)
            found = [index for index, row in enumerate(rows) if row.number == number and owner == run.ref.turn_id]
            if not found:
                raise NotFound("message", self.after)
            rows = rows[found[0] + 1 :]
        kinds = ROLES.get(self.role or "")
        shown_rows = [[note for note in row.notes if kinds is None or note.message_type in kinds] for row in rows]
        return tuple(note for notes in list(filter(None, shown_rows))[: self.limit] for note in notes)


def runs_limit(query: Mapping[str, list[str]]) -> int:
    """Return the limit of a list of runs. Raises InvalidRequest."""
    refuse_parameters(query, *OF_LATER_LISTS)
    return limit_in(query["limit"][-1] if query.get("limit") else None, DEFAULT_RUNS)


def run_rows_query(query: Mapping[str, list[str]]) -> RunMessagesQuery:
    """Return the query of a request. Raises InvalidRequest."""
    texts = {name: values[-1] for name, values in query.items() if values}
    role = texts.get("role")
    refuse_parameters(query, *OF_LATER_LISTS)
    if role is not None and role not in ROLES:
        raise InvalidRequest(f"role: must be one of {', '.join(ROLES)}", ("query", "role"))
    is_ascending = flag_in("ascending", texts.get("ascending", TRUE[0]))
    return RunMessagesQuery(texts.get("cursor"), limit_in(texts.get("limit"), DEFAULT_ROWS), is_ascending, role)


def run_of(run: LettaRun) -> RunObject:
    """Return the run as the API shows it: its result once it has one, or why it has none."""
    state, turn = run.state, run.state.turn
    ends = (step.completed_at for step in turn.steps if step.completed_at is not None)
    owner = user_id(run.owner)
    return RunObject(
        created_by_id=owner,
        last_updated_by_id=owner,
        created_at=turn.started_at,
        updated_at=turn.completed_at or max(ends, default=turn.started_at),
        status="created" if run.is_queued else SHOWN[state.status],
        completed_at=turn.completed_at,
        metadata_=_metadata_of(run),
        id=shown("run", run.ref.turn_id),
        user_id=owner,
        request_config=(run.is_seen and run.config) or None,
    )


def runs_of(runs: Iterable[LettaRun]) -> RunObjects:
    """Return the runs as the API shows them."""
    return RunObjects(tuple(map(run_of, runs)))


def usage_of_run(run: LettaRun) -> RunUsage:
    """Return the tokens of the run so far."""
    used: LettaUsage = usage_of(run.state)
    return RunUsage(
        completion_tokens=used.completion_tokens, prompt_tokens=used.prompt_tokens, total_tokens=used.total_tokens
    )


def _metadata_of(run: LettaRun) -> dict[str, Any]:
    state = run.state
    if not run.is_seen:
        return {}
    if state.status is TurnStatus.COMPLETED:
        result = response_of(state, _config_of(run).answers_by)
        return {"result": result.model_dump(mode="json")}
    if state.status.is_terminal:
        failure = state.turn.failure
        return {"error": f"the turn is {state.status}" if failure is None else failure.message}
    return {"job_type": "send_message_async", "agent_id": shown("agent", run.ref.agent_id)}


def _config_of(run: LettaRun) -> RequestConfig:
    return RequestConfig.model_construct(**run.config)
