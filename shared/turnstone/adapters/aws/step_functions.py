"""Supervisor on AWS: one execution of the state machine TurnSupervisor per watched turn.

The machine is `functions/turn_supervisor/state_machine.asl.json`. It only waits and wakes functions: the truth
stands in the table, whose conditions guard each action.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.refs import TurnRef
from turnstone.domain.sessions.sessions import LockState, SessionLock
from turnstone.domain.turns.supervision import next_check
from turnstone.domain.turns.turns import TurnStatus
from turnstone.ports.records import Key
from turnstone.ports.system import Clock

NO_WAITER = {"TaskTimedOut", "TaskDoesNotExist", "InvalidToken"}
OUR_ID = re.compile(r"[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}")


class StepFunctionsSupervisor:
    """Supervisor whose executions are named by the turn: a second start of the same turn has no effect."""

    def __init__(self, client: Any, state_machine_arn: str, clock: Clock, key_of: Callable[[TurnRef], Key]) -> None:
        """Take a botocore client of Step Functions; `key_of` returns the key of a turn's record."""
        self._client = client
        self._state_machine_arn = state_machine_arn
        self._clock = clock
        self._key_of = key_of

    def watch(self, turn: TurnRef, lock: SessionLock) -> None:
        """Supervise the turn. Raises StoreUnavailable.

        A running execution polls by itself. But an execution that still waits for the client of a turn whose lease has
        expired was left by a process that died before waking it, and another may have ended without result: such a run
        gets an execution of its own, at most one an hour.
        """
        if lock.state is LockState.IDLE:
            return
        status = TurnStatus.AWAITING_INPUT if lock.state is LockState.AWAITING else TurnStatus.IN_PROGRESS
        check = next_check(status, lock.check_at() or self._clock.now(), self._clock.now())
        name, key = _name_of(turn), self._key_of(turn)
        if lock.reopened:  # the first execution may have seen that end, and its name is reserved for 90 days
            name = f"{name}-again-{lock.reopened}"
        # the fence, because Step Functions treats a start equal to a running one as the same execution
        inputs = {
            "turn": turn.model_dump(),
            "key": {"pk": key.pk, "sk": key.sk},
            "fence": lock.fence,
            **check.model_dump(),
        }
        if not self._start(name, inputs) and check.next == "attend":
            hour = int(self._clock.now().timestamp() // 3_600)
            self._start(f"{name}-{lock.fence}-{hour}", inputs)

    def wake(self, token: str) -> None:
        """Send success to the execution that waits with this token. Raises StoreUnavailable."""
        try:
            self._client.send_task_success(taskToken=token, output="{}")
        except ClientError as error:
            code = _code(error)
            if code not in NO_WAITER:
                raise StoreUnavailable(f"the state machine can't be notified: {code}") from error
        except BotoCoreError as error:
            raise StoreUnavailable(f"the state machine can't be reached: {error}") from error

    def _start(self, name: str, inputs: Mapping[str, Any]) -> bool:
        """Return whether an execution of that name was started; False if the name is taken."""
        try:
            self._client.start_execution(stateMachineArn=self._state_machine_arn, name=name, input=json.dumps(inputs))
        except ClientError as error:
            code = _code(error)
            if code == "ExecutionAlreadyExists":
                return False
            raise StoreUnavailable(f"the state machine can't be started: {code}") from error
        except BotoCoreError as error:
            raise StoreUnavailable(f"the state machine can't be reached: {error}") from error
        return True


def _name_of(turn: TurnRef) -> str:
    """Return the turn's id if it is unique as a name, else a hash: names are limited to 80 characters of some kinds."""
    if OUR_ID.fullmatch(turn.turn_id):
        return turn.turn_id
    return sha256(turn.model_dump_json().encode()).hexdigest()[:48]


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "unknown"))
