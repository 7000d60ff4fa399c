"""Ended turns in replies: as they were stored, and, without an answer, with the reason.

Covers: store/layout/frames, store/sessions/turn_records, store/sessions/wire_turns
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.failures import Failure
from turnstone.domain.turns.turns import Turn, TurnState, TurnStatus, silent_output
from turnstone.ports.records import Record
from turnstone.store.layout.frames import private_part
from turnstone.store.sessions.turn_records import put_turn, turn_state_of
from turnstone.store.sessions.wire_turns import LargeTurn, wire_turn

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
REF = TurnRef(tenant="t", agent_id="a", session_id="s", turn_id="t1")
SECRET = "http://10.0.0.7:8000 said: your 'words'"
UNANSWERED = [TurnStatus.FAILED, TurnStatus.EXPIRED, TurnStatus.CANCELLED]


def ended(status: TurnStatus, failure: Failure | None) -> Record:
    turn = Turn(turn_id="t1", session_id="s", input_messages=(), output_message=silent_output(), started_at=NOW)
    state = TurnState(turn=turn, order="t1")
    if status is TurnStatus.COMPLETED:
        state = state.completed(silent_output("end_of_turn"), NOW)
    else:
        state = state.ended_unanswered(status, failure or Failure(kind="ended", message="so"), NOW)
        state = state.model_copy(update={"failure": failure})
    put = put_turn(REF, state)
    return Record(put.key, put.body, put.attributes, 1)


def in_pieces(record: Record, size: int) -> Record:
    def pieces() -> Iterator[bytes]:
        yield from (record.body[start : start + size] for start in range(0, len(record.body), size))

    return record._replace(body=b"", pieces=pieces)


def read(record: Record) -> Turn:
    wire = wire_turn(record)
    return Turn.model_validate_json(wire if isinstance(wire, bytes) else b"".join(wire))


@pytest.mark.parametrize("status", UNANSWERED)
@pytest.mark.parametrize(
    "kind", ["model_failed", "model_busy", "model_timed_out", "tools_unavailable", "internal", "store_unavailable"]
)
def test_a_turn_without_an_answer_has_a_failure_that_quotes_no_message(status: TurnStatus, kind: Any) -> None:
    record = ended(status, Failure(kind=kind, message=SECRET))
    turn = read(record)
    assert turn.failure is not None
    assert (turn.failure.status, turn.failure.kind) == (status.value, kind)
    assert turn.failure.message.startswith(f"turn 't1' is {status}")
    assert SECRET not in turn.model_dump_json()
    assert turn == turn_state_of(record).turn


@pytest.mark.parametrize("kind", ["ended", "limit_reached"])
def test_a_message_of_our_own_is_repeated_in_the_failure(kind: Any) -> None:
    turn = read(ended(TurnStatus.FAILED, Failure(kind=kind, message="4 tokens of 3")))
    assert turn.failure is not None
    assert turn.failure.message == "4 tokens of 3"


@pytest.mark.parametrize("size", [1, 7, 400, 100_000])
@pytest.mark.parametrize("status", [*UNANSWERED, TurnStatus.COMPLETED])
def test_a_turn_in_pieces_reads_the_same_each_time(status: TurnStatus, size: int) -> None:
    whole = ended(status, Failure(kind="ended", message="so") if status is not TurnStatus.COMPLETED else None)
    wire = wire_turn(in_pieces(whole, size))
    assert isinstance(wire, LargeTurn) is (size < len(whole.body))
    first = wire if isinstance(wire, bytes) else b"".join(wire)
    again = wire if isinstance(wire, bytes) else b"".join(wire)
    assert first == again
    turn = Turn.model_validate_json(first)
    assert (turn.failure is None) is (status is TurnStatus.COMPLETED)
    if size >= len(whole.body) or status is TurnStatus.COMPLETED:
        assert turn == read(whole)


def test_a_completed_turn_is_passed_on_as_it_was_stored() -> None:
    record = ended(TurnStatus.COMPLETED, None)
    assert b"failure" not in record.body
    assert wire_turn(record) == record.body.split(b"\n", 1)[1]


def test_a_turn_that_was_stored_without_a_reason_has_at_least_its_status() -> None:
    turn = read(ended(TurnStatus.CANCELLED, None))
    assert turn.failure is not None
    assert turn.failure.message == "turn 't1' is cancelled"


@pytest.mark.parametrize(
    ("failure", "why"),
    [
        (Failure(kind="model_failed", message=SECRET), "its model gave no usable answer"),
        (Failure(kind="model_failed", message=SECRET, provider_status=401), "its model's server answered HTTP 401"),
        (Failure(kind="model_failed", message=SECRET, provider_status=500), "its model's server answered HTTP 500"),
        (
            Failure(kind="model_busy", message=SECRET, provider_status=429, retry_after_s=7),
            "its model's server takes no more requests now (HTTP 429)",
        ),
        (Failure(kind="model_busy", message=SECRET), "its model's server takes no more requests now"),
    ],
)
def test_the_status_of_the_model_s_server_is_all_that_is_shown_of_its_answer(failure: Failure, why: str) -> None:
    turn = read(ended(TurnStatus.FAILED, failure))
    assert turn.failure is not None
    assert turn.failure.message == f"turn 't1' is failed: {why}"


def test_earlier_versions_read_a_busy_model_s_turn_as_one_whose_model_failed() -> None:
    record = ended(TurnStatus.FAILED, Failure(kind="model_busy", message="so", provider_status=429, retry_after_s=7))
    stored = private_part(record.body)["failure"]
    assert stored == {
        "kind": "model_failed",
        "later_kind": "model_busy",
        "message": "so",
        "provider_status": 429,
        "retry_after_s": 7,
    }


def test_a_turn_with_a_kind_of_failure_of_a_later_version_is_read_by_the_earlier_kind() -> None:
    failure = Failure.model_validate({"kind": "model_failed", "later_kind": "model_moonstruck", "message": "so"})
    assert failure == Failure(kind="model_failed", message="so")
