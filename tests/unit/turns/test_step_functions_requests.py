"""Requests of the supervisor to Step Functions, and the handling of the answers.

Covers: adapters/aws/step_functions, store/layout/keys
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)
from hypothesis import given
from hypothesis import strategies as st

from turnstone.adapters.aws.step_functions import StepFunctionsSupervisor
from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.refs import TurnRef
from turnstone.domain.sessions.sessions import LockState, SessionLock
from turnstone.domain.values.ids import uuid7
from turnstone.store.layout.keys import turn_key_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ARN = "arn:aws:states:eu-central-1:123456789012:stateMachine:TurnSupervisor"
TURN_ID = uuid7(1_700_000_000_000, b"0123456789")
TURN = TurnRef(tenant="123456789012", agent_id="a:1", session_id="s|1", turn_id=TURN_ID)
# Source: the API reference of StartExecution; all that its documentation does not forbid, and its logs can show
NAME = re.compile(r"[0-9A-Za-z_-]{1,80}")
SECRET = "the account has no right to do this, its key is AKIA"
CONNECTION_ERRORS: list[Exception] = [
    EndpointConnectionError(endpoint_url="https://states.eu-central-1.amazonaws.com/"),
    ConnectTimeoutError(endpoint_url="https://states.eu-central-1.amazonaws.com/"),
    ReadTimeoutError(endpoint_url="https://states.eu-central-1.amazonaws.com/"),
    NoCredentialsError(),
]


HOUR = int(NOW.timestamp() // 3_600)


class Clock:
    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> datetime:
        return self.at

    def monotonic_s(self) -> float:
        return self.at.timestamp()


class StepFunctions:
    """Answers as the service does: names are unique, an equal start of a running execution is taken for it."""

    def __init__(self) -> None:
        self.started: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.woken: list[dict[str, Any]] = []
        self.ended: set[str] = set()
        self.error: Exception | None = None

    def start_execution(self, **request: Any) -> dict[str, Any]:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        named = [earlier for earlier in self.started if earlier["name"] == request["name"]]
        if named and (request["name"] in self.ended or named[0] != request):
            raise refusal("ExecutionAlreadyExists")
        if not named:
            self.started.append(request)
        return {"executionArn": f"{ARN}:{request['name']}", "startDate": NOW}

    def send_task_success(self, **request: Any) -> dict[str, Any]:
        self.woken.append(request)
        if self.error is not None:
            raise self.error
        return {}

    @property
    def names(self) -> list[str]:
        return [request["name"] for request in self.started]

    def given(self, index: int = 0) -> Any:
        return json.loads(self.started[index]["input"])


def refusal(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": SECRET}}, "AnOperation")


@pytest.fixture
def service() -> StepFunctions:
    return StepFunctions()


@pytest.fixture
def supervisor(service: StepFunctions) -> StepFunctionsSupervisor:
    return StepFunctionsSupervisor(service, ARN, Clock(), turn_key_of)


def running(left_s: float, fence: int = 1) -> SessionLock:
    until = NOW + timedelta(seconds=left_s)
    return SessionLock(state=LockState.RUNNING, order=TURN_ID, fence=fence, lease_until=until)


def awaiting(left_s: float, fence: int = 1) -> SessionLock:
    until = NOW + timedelta(seconds=left_s)
    return SessionLock(state=LockState.AWAITING, order=TURN_ID, fence=fence, await_until=until)


# ---- the input of an execution


def test_an_execution_is_named_by_the_turn_and_receives_its_ids_without_contents(
    supervisor: StepFunctionsSupervisor, service: StepFunctions
) -> None:
    supervisor.watch(TURN, awaiting(3_600))
    (request,) = service.started
    assert (request["stateMachineArn"], request["name"]) == (ARN, TURN_ID)
    given = service.given()
    assert given.pop("turn") == TURN.model_dump()
    key = turn_key_of(TURN)
    assert given.pop("key") == {"pk": key.pk, "sk": key.sk}
    assert given == {"next": "await", "seconds": 3_601, "status": "awaiting_input", "fence": 1}


@pytest.mark.parametrize(
    ("lock", "expected"),
    [
        (awaiting(0.5), ("await", 2, "awaiting_input")),
        (awaiting(0), ("attend", 1, "awaiting_input")),
        (awaiting(-60), ("attend", 1, "awaiting_input")),
        (running(30), ("watch", 35, "in_progress")),
        (running(0), ("attend", 1, "in_progress")),
        (running(-60), ("attend", 1, "in_progress")),
        (SessionLock(state=LockState.RUNNING, order=TURN_ID, fence=1), ("attend", 1, "in_progress")),
    ],
    ids=["waits", "just overdue", "overdue", "runs", "just abandoned", "abandoned", "of unknown end"],
)
def test_an_execution_begins_in_the_state_of_the_lock(
    supervisor: StepFunctionsSupervisor, service: StepFunctions, lock: SessionLock, expected: tuple[str, int, str]
) -> None:
    supervisor.watch(TURN, lock)
    given = service.given()
    assert expected == (given["next"], given["seconds"], given["status"])


def test_an_idle_lock_starts_nothing(supervisor: StepFunctionsSupervisor, service: StepFunctions) -> None:
    supervisor.watch(TURN, SessionLock(fence=7))
    assert service.requests == []


# ---- a second start


@pytest.mark.parametrize("second", [awaiting(3_600), awaiting(60, fence=3), running(30, fence=2)])
def test_a_second_start_is_none(
    supervisor: StepFunctionsSupervisor, service: StepFunctions, second: SessionLock
) -> None:
    supervisor.watch(TURN, awaiting(3_600))
    supervisor.watch(TURN, second)
    assert service.names == [TURN_ID]
    service.ended.add(TURN_ID)
    supervisor.watch(TURN, second)
    assert service.names == [TURN_ID]


@pytest.mark.parametrize("is_over", [False, True], ids=["its execution waits", "its execution has ended"])
def test_a_run_whose_time_is_over_gets_an_execution_of_its_own_once(
    supervisor: StepFunctionsSupervisor, service: StepFunctions, is_over: bool
) -> None:
    supervisor.watch(TURN, awaiting(3_600, fence=1))
    if is_over:
        service.ended.add(TURN_ID)
    for _ in range(3):
        supervisor.watch(TURN, running(-1, fence=2))
    assert service.names == [TURN_ID, f"{TURN_ID}-2-{HOUR}"]
    assert service.given(1)["next"] == "attend"
    assert service.given(1)["turn"] == TURN.model_dump()
    supervisor.watch(TURN, running(-1, fence=5))
    assert service.names == [TURN_ID, f"{TURN_ID}-2-{HOUR}", f"{TURN_ID}-5-{HOUR}"]


def test_a_turn_that_was_opened_again_gets_an_execution_for_each_of_its_lives(
    supervisor: StepFunctionsSupervisor, service: StepFunctions
) -> None:
    again = awaiting(3_600).model_copy(update={"reopened": 1})
    supervisor.watch(TURN, awaiting(3_600))
    service.ended.add(TURN_ID)
    for lock in (again, again, again.model_copy(update={"reopened": 2})):
        supervisor.watch(TURN, lock)
    assert service.names == [TURN_ID, f"{TURN_ID}-again-1", f"{TURN_ID}-again-2"]
    assert all(NAME.fullmatch(name) for name in service.names)


def test_a_run_whose_supervision_failed_is_supervised_again_an_hour_later(service: StepFunctions) -> None:
    clock = Clock()
    supervisor = StepFunctionsSupervisor(service, ARN, clock, turn_key_of)
    supervisor.watch(TURN, awaiting(3_600, fence=1))
    for _ in range(2):
        supervisor.watch(TURN, running(-1, fence=2))
    clock.at += timedelta(hours=1)
    supervisor.watch(TURN, running(-1, fence=2))
    assert service.names == [TURN_ID, f"{TURN_ID}-2-{HOUR}", f"{TURN_ID}-2-{HOUR + 1}"]


def test_a_later_run_is_not_taken_for_the_first(supervisor: StepFunctionsSupervisor, service: StepFunctions) -> None:
    """Otherwise its start would equal the first, which waits for the client, and the run would have no supervisor."""
    supervisor.watch(TURN, running(0, fence=1))
    supervisor.watch(TURN, running(0, fence=3))
    assert service.names == [TURN_ID, f"{TURN_ID}-3-{HOUR}"]


def test_an_overdue_turn_gets_an_execution_of_its_own_too(
    supervisor: StepFunctionsSupervisor, service: StepFunctions
) -> None:
    supervisor.watch(TURN, awaiting(3_600))
    service.ended.add(TURN_ID)
    supervisor.watch(TURN, awaiting(-1))
    assert service.names == [TURN_ID, f"{TURN_ID}-1-{HOUR}"]


# ---- names


@pytest.mark.parametrize(
    "turn_id", [TURN_ID, "b558d3f1-131d-4e2d-86e4-d743e06fe1dd", "bc9d7c95e0994a1fb99c53c62e5ebd60"]
)
def test_an_id_that_no_other_turn_can_have_is_the_name(
    supervisor: StepFunctionsSupervisor, service: StepFunctions, turn_id: str
) -> None:
    supervisor.watch(TURN.model_copy(update={"turn_id": turn_id}), awaiting(60))
    assert service.names == [turn_id]


@given(turn_id=st.text(min_size=1, max_size=300), fence=st.integers(1, 10**9))
def test_any_id_makes_names_that_step_functions_takes(turn_id: str, fence: int) -> None:
    service = StepFunctions()
    supervisor = StepFunctionsSupervisor(service, ARN, Clock(), turn_key_of)
    turn = TURN.model_copy(update={"turn_id": turn_id})
    supervisor.watch(turn, awaiting(60, fence=fence))
    supervisor.watch(turn, running(-1, fence=fence))
    assert len(set(service.names)) == 2
    assert [name for name in service.names if not NAME.fullmatch(name)] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x" * 80 + "1", "x" * 80 + "2"),
        ("turn/1", "turn?1"),
        ("turn 1", "turn_1"),
        ("turn-1", "TURN-1"),
        (TURN_ID, f"{TURN_ID}-2"),
        ("a", "a-2"),
        ("turn-é", "turn-è"),
    ],
)
def test_two_turns_never_share_a_name(
    supervisor: StepFunctionsSupervisor, service: StepFunctions, one: str, other: str
) -> None:
    for turn_id in (one, other):
        turn = TURN.model_copy(update={"turn_id": turn_id})
        supervisor.watch(turn, awaiting(60, fence=2))
        supervisor.watch(turn, running(-1, fence=2))
    assert len(set(service.names)) == 4


@pytest.mark.parametrize("differs_in", ["tenant", "agent_id", "session_id"])
def test_turns_of_different_sessions_may_have_the_same_foreign_id(
    supervisor: StepFunctionsSupervisor, service: StepFunctions, differs_in: str
) -> None:
    foreign = TURN.model_copy(update={"turn_id": "turn-1"})
    supervisor.watch(foreign, awaiting(60))
    supervisor.watch(foreign.model_copy(update={differs_in: "another"}), awaiting(60))
    assert len(set(service.names)) == 2


# ---- failures

Act = Callable[[StepFunctionsSupervisor], None]
ACTS: dict[str, Act] = {
    "watch": lambda supervisor: supervisor.watch(TURN, running(-1)),
    "wake": lambda supervisor: supervisor.wake("a token"),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
@pytest.mark.parametrize(
    "code", ["ThrottlingException", "AccessDeniedException", "StateMachineDoesNotExist", "InvalidName", "Unheard"]
)
def test_a_refusal_is_a_store_unavailable_that_names_its_code_and_not_its_message(
    supervisor: StepFunctionsSupervisor, service: StepFunctions, act: Act, code: str
) -> None:
    service.error = refusal(code)
    with pytest.raises(StoreUnavailable, match=code) as raised:
        act(supervisor)
    assert SECRET not in str(raised.value)
    assert raised.value.__cause__ is service.error


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_refusal_without_a_code_is_a_store_unavailable_too(
    supervisor: StepFunctionsSupervisor, service: StepFunctions, act: Act
) -> None:
    service.error = ClientError({}, "AnOperation")
    with pytest.raises(StoreUnavailable, match="unknown"):
        act(supervisor)


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
@pytest.mark.parametrize("error", CONNECTION_ERRORS, ids=lambda error: type(error).__name__)
def test_a_service_that_can_not_be_reached_is_a_store_unavailable(
    supervisor: StepFunctionsSupervisor, service: StepFunctions, act: Act, error: Exception
) -> None:
    service.error = error
    with pytest.raises(StoreUnavailable):
        act(supervisor)


def test_a_failure_of_the_second_start_is_raised(supervisor: StepFunctionsSupervisor, service: StepFunctions) -> None:
    supervisor.watch(TURN, awaiting(60))
    answer, service.start_execution = service.start_execution, lambda **request: busy(**request)  # type: ignore[method-assign]

    def busy(**request: Any) -> dict[str, Any]:
        if request["name"] != TURN_ID:
            raise refusal("ThrottlingException")
        return answer(**request)

    with pytest.raises(StoreUnavailable, match="ThrottlingException"):
        supervisor.watch(TURN, running(-1, fence=2))


# ---- waking


def test_the_token_is_sent_back_once(supervisor: StepFunctionsSupervisor, service: StepFunctions) -> None:
    supervisor.wake("a token")
    assert service.woken == [{"taskToken": "a token", "output": "{}"}]


@pytest.mark.parametrize("code", ["TaskTimedOut", "TaskDoesNotExist", "InvalidToken"])
def test_an_expired_token_is_no_failure(supervisor: StepFunctionsSupervisor, service: StepFunctions, code: str) -> None:
    service.error = refusal(code)
    supervisor.wake("a token")
    assert len(service.woken) == 1
