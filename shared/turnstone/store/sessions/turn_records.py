"""Turns and steps as records. The second line of each body is wire JSON, ready to be sent."""

from typing import Any
from urllib.parse import unquote

from pydantic import ConfigDict, TypeAdapter
from pydantic_core import from_json, to_json

from turnstone.domain.agents.agents import AgentConfig, TurnOverrides
from turnstone.domain.errors import ContentLost, NotFound
from turnstone.domain.refs import SessionRef
from turnstone.domain.tools.tool_secrets import secrets_of, unmasked
from turnstone.domain.turns.lost_turns import lost_turn
from turnstone.domain.turns.turns import Step, StepTrace, Turn, TurnState, TurnStatus
from turnstone.ports.records import Absent, Put, Record, RevIs, Scalar
from turnstone.ports.storage import RangeStore
from turnstone.store.layout.frames import frame, private_part, wire_part
from turnstone.store.layout.keys import open_shard, step_key, steps_of_turn, turn_key, turn_ref_of
from turnstone.store.layout.ranges import all_records

_STEP: TypeAdapter[Step] = TypeAdapter(Step, config=ConfigDict(defer_build=True))
STATUS = "status"
TOKEN = "token"  # noqa: S105 - the attribute's name; written by the state machine, dropped by our next write
# the secrets of an open turn are an attribute: a large body is a payload, which is kept for a while when it is replaced
OWN, OWN_SECRETS = "own_toolgroups", "secrets"
_OF_SECRETS = {"uri", "headers"}
# a default inside of these, such as the type of a strategy, must be stored, too
_COMPLETE = {"overrides", "config", "documents", "attachments", OWN}
_NOT_PRIVATE = {"turn", "order", "status", "rev", "is_lost", "token", *_COMPLETE}
_PRIVATE_DEFAULTS = tuple(
    (name, field.default) for name, field in TurnState.model_fields.items() if name not in _NOT_PRIVATE
)
CONFIG_SECRETS = "config_secrets"
_DERIVED = {"failure"}  # of the turn: a stored failure is private, and readers see a part of it


def put_turn(ref: SessionRef, state: TurnState) -> Put:
    """Return the write that stores the turn with all its steps, on condition that its revision is unchanged."""
    attributes: dict[str, Scalar] = {"status": state.status.value}
    values = state.__dict__
    changed = {name for name, default in _PRIVATE_DEFAULTS if values[name] is not default and values[name] != default}
    private = state.model_dump(mode="json", include=changed, exclude_defaults=True) if changed else {}
    if overrides := _chosen_overrides(state.overrides):
        private["overrides"] = overrides
    if not state.status.is_terminal:
        attributes["open"] = open_shard(ref)
        # no later run needs the rest of an ended turn
        if state.config is not None:
            private |= _snapshot(state.config)
        if state.own_toolgroups:
            private[OWN] = [own.model_dump(mode="json", exclude=_OF_SECRETS) for own in state.own_toolgroups]
            secrets = [own.model_dump(mode="json", include=_OF_SECRETS) for own in state.own_toolgroups]
            attributes[OWN_SECRETS] = to_json(secrets).decode()
    for name, texts in (("documents", state.documents), ("attachments", state.attachments)):
        if texts:
            private[name] = [document.model_dump(mode="json") for document in texts]
    return Put(
        key=turn_key(ref, state.order),
        body=frame(private, state.turn.model_dump_json(exclude=_DERIVED).encode()),
        attributes=attributes,
        when=(RevIs(state.rev) if state.rev else Absent(),),
    )


def put_step(ref: SessionRef, state: TurnState) -> Put:
    """Return the write that stores the turn's newest step as a separate record."""
    index = len(state.turn.steps) - 1
    private = state.traces[index].model_dump(exclude_defaults=True)
    wire = state.turn.steps[index].model_dump_json().encode()
    return Put(key=step_key(ref, state.order, index), body=frame(private, wire), when=(Absent(),))


def turn_state_of(record: Record, step_records: tuple[Record, ...] = ()) -> TurnState:
    """Return the turn; separately stored steps are appended while it is open, and ignored afterwards.

    Where its content is lost, or that of such a step, a `lost_turn` is returned.
    """
    try:
        return _turn_state_of(record, step_records)
    except ContentLost:
        lost = lost_turn(turn_ref_of(record.key), TurnStatus(str(record.attributes["status"])))
        return lost.model_copy(update={"rev": record.rev, "token": record.attributes.get(TOKEN)})


def _turn_state_of(record: Record, step_records: tuple[Record, ...]) -> TurnState:
    turn = Turn.model_validate_json(wire_part(record.body))
    private = private_part(record.body)
    order = order_of(record)
    status = TurnStatus(str(record.attributes["status"]))
    if CONFIG_SECRETS in private:
        config = private["config"]
        private["config"] = {**config, "tools": unmasked(config["tools"], private.pop(CONFIG_SECRETS))}
    if OWN in private:
        secrets = from_json(str(record.attributes[OWN_SECRETS]))
        private[OWN] = [{**own, **kept} for own, kept in zip(private[OWN], secrets, strict=True)]
    fields = {"turn": turn, "order": order, "status": status, "rev": record.rev, "token": record.attributes.get(TOKEN)}
    state = TurnState.model_validate({**private, **fields}).with_shown_failure()
    if status.is_terminal:
        return state
    for step_record in step_records:
        if int(step_record.key.sk.rsplit(":", 1)[1]) >= len(turn.steps):
            step = _STEP.validate_json(wire_part(step_record.body))
            state = state.with_step(step, StepTrace.model_validate(private_part(step_record.body)))
    return state


def order_of(record: Record) -> str:
    """Return the order key of the record's turn."""
    return unquote(record.key.sk.removeprefix("turn:"))


def _chosen_overrides(overrides: TurnOverrides) -> dict[str, Any]:
    """Return the overrides that are set, complete: a default inside one, such as a strategy's type, is kept."""
    given = {name for name, value in overrides.__dict__.items() if value is not None}
    return overrides.model_dump(mode="json", include=given) if given else {}


def _snapshot(config: AgentConfig) -> dict[str, Any]:
    """Return the stored form of a turn's configuration, with the secrets of its tools apart from their masks."""
    secrets = secrets_of(config.tools)
    return {"config": config.model_dump(mode="json"), **({CONFIG_SECRETS: secrets} if secrets else {})}


def whole_state(store: RangeStore, ref: SessionRef, record: Record) -> TurnState:
    """Return the turn with every step it has.

    While it is open its steps are read separately, and it may end in between; then it is read again, because the
    steps beside an ended turn are removed.
    """
    while not is_terminal(record):
        order = order_of(record)
        steps = all_records(store, steps_of_turn(ref, order))
        again = store.get(record.key)
        if again is None:
            raise NotFound("turn", order)
        if again.rev == record.rev:
            return turn_state_of(record, steps)
        record = again
    return turn_state_of(record)


def keeps_details(body: bytes) -> bool:
    """Return whether a turn's body has the details of its steps, whose texts may be abridged here."""
    return b"\n" in body and bool(private_part(body).get("keeps_details"))


def is_terminal(record: Record) -> bool:
    """Return whether the record's turn has ended. Raises RecordTooNew."""
    return _status_of(record).is_terminal


def _status_of(record: Record) -> TurnStatus:
    try:
        return TurnStatus(str(record.attributes[STATUS]))
    except ValueError:
        if record.pieces is not None:
            record.pieces.read_by(next)  # raises RecordTooNew where a newer version has more statuses
        raise
