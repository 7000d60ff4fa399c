"""Guards against a process that dies at the worst moment: stored steps are emitted, emitted steps are stored."""

from tests.guards.guard import Guard, ours
from tests.guards.races import Race

FOLLOWING = "tests/integration/turns/supervision/test_following.py::"
LEASES = "tests/integration/turns/test_leases.py::"
TAKEN_OVER = f"{LEASES}test_a_turn_is_taken_over_from_its_last_stored_step"
LIFECYCLE = "tests/integration/turns/test_turn_lifecycle.py::"

CRASHES = (
    Guard(
        Race.CRASH_BEFORE_WRITE,
        "a step is stored before it is published",
        (
            ours(
                "engine/shields.py",
                "    deps.recorder.save_step(state)\n    yield step_completed(state.turn.steps[-1])\n",
                "    yield step_completed(state.turn.steps[-1])\n    deps.recorder.save_step(state)\n",
            ),
        ),
        (
            f"{LIFECYCLE}test_a_turn_with_a_server_tool_stores_each_step_before_it_is_published",
            "tests/unit/turns/loop/test_engine_shields.py::"
            "test_clean_shields_stand_before_and_behind_the_inference_and_the_last_step_is_left_to_the_close",
            f"{TAKEN_OVER}[before its step is stored]",
        ),
    ),
    Guard(
        Race.CRASH_BEFORE_WRITE,
        "the steps of a pure call are stored before they are published",
        (
            ours(
                "engine/turn.py",
                "    deps.recorder.save_step(state)\n    deps.recorder.save_step(answered)\n    yield from events\n",
                "    yield from events\n    deps.recorder.save_step(state)\n    deps.recorder.save_step(answered)\n",
            ),
        ),
        (
            "tests/unit/turns/loop/test_pure_calls.py::"
            "test_a_pure_call_after_which_the_turn_continues_is_stored_before_both_steps_are_emitted[agents]",
        ),
    ),
    Guard(
        Race.CRASH_BEFORE_WRITE,
        "the last step is published after the close that stores it",
        (
            ours(
                "services/turns/running.py",
                "                change = self._commit(closed(self._session, ended, self.launch.open_segment))\n"
                "                self._steps_at_end = len(ended.turn.steps)\n"
                "                return (*unpublished, turn_completed(",
                "                self.broadcast.publish(*unpublished)\n"
                "                change = self._commit(closed(self._session, ended, self.launch.open_segment))\n"
                "                self._steps_at_end = len(ended.turn.steps)\n"
                "                return (turn_completed(",
            ),
        ),
        (f"{LEASES}test_steps_are_kept_while_the_close_could_not_be_stored",),
    ),
    Guard(
        Race.CRASH_BEFORE_WRITE,
        "a call that is made again has the idempotency key it had",
        (
            ours(
                "engine/tool_plan.py",
                'f"{state.turn_id}:{state.inference_count}:{call.call_id}"',
                '__import__("uuid").uuid4().hex',
            ),
        ),
        (f"{TAKEN_OVER}[before its step is stored]",),
    ),
    Guard(
        Race.CRASH_BEFORE_WRITE,
        "a turn that can't be stored now is left to the supervisor",
        (
            ours(
                "services/turns/running.py",
                "                self._leave_to_supervisor(launch.ref, launch.session.lock)\n        # a subscriber",
                "        # whoever",
            ),
        ),
        (f"{LEASES}test_a_turn_whose_close_could_not_be_stored_is_left_to_the_supervisor",),
    ),
    Guard(
        Race.CRASH_BEFORE_WRITE,
        "a turn that no process survives is given up after so many",
        (ours("services/turns/recovery.py", "if state.takeovers_in_vain >= MAX_TAKEOVERS:", "if False:"),),
        (f"{LEASES}test_after_too_many_takeovers_the_turn_is_failed",),
    ),
    Guard(
        Race.CRASH_BEFORE_EVENT,
        "a run that continues a turn has the steps stored beside it",
        (
            ours(
                "store/sessions/turn_records.py", "return turn_state_of(record, steps)", "return turn_state_of(record)"
            ),
        ),
        (f"{TAKEN_OVER}[after]",),
    ),
    Guard(
        Race.CRASH_BEFORE_EVENT,
        "a repeated request receives the stored events from the start",
        (
            ours(
                "services/turns/joining.py",
                "replayed_since_resume(state) if is_resume else replayed(state)",
                "replayed_since_resume(state) if is_resume else replayed(state)[-1:]",
            ),
        ),
        (
            "tests/integration/turns/test_idempotency.py::"
            "test_when_the_answer_of_a_write_is_lost_nothing_is_done_twice[the same-close]",
        ),
    ),
    Guard(
        Race.CRASH_AFTER_RESUME,
        "a read of a turn whose lease is over has it reconciled",
        (
            ours(
                "services/turns/supervision.py",
                "(lock.is_abandoned(now) or lock.is_overdue(now) or",
                "(lock.is_overdue(now) or",
            ),
        ),
        (f"{FOLLOWING}test_a_crash_between_the_resume_and_the_wake_is_found_by_a_reader",),
    ),
    Guard(
        Race.CRASH_AFTER_RESUME,
        "a run whose machine waits for a client that came already gets a machine of its own",
        (
            ours(
                "adapters/aws/step_functions.py",
                'if not self._start(name, inputs) and check.next == "attend":',
                "if not self._start(name, inputs) and False:",
            ),
        ),
        (
            f"{FOLLOWING}test_a_crash_between_the_resume_and_the_wake_is_found_by_a_reader",
            "tests/unit/turns/test_step_functions_requests.py::"
            "test_a_run_whose_time_is_over_gets_an_execution_of_its_own_once",
        ),
    ),
    Guard(
        Race.CRASH_AFTER_RESUME,
        "a resume wakes the machine only once it is stored",
        (
            ours("services/turns/turns.py", "        wake(self._deps.supervisor, state.token)\n"),
            ours(
                "services/turns/turns.py",
                "        session, lease_until =",
                "        wake(self._deps.supervisor, state.token)\n        session, lease_until =",
            ),
        ),
        (f"{FOLLOWING}test_a_resume_wakes_the_waiting_execution_once_and_after_it_is_stored",),
    ),
    Guard(
        Race.CRASH_AFTER_RESUME,
        "turns that were open when a server on one machine ended are attended to at its start",
        (
            ours(
                "adapters/machine/local_supervisor.py",
                "            self._schedule_at(ref, now)\n",
                "            pass\n",
            ),
        ),
        (
            "tests/integration/turns/supervision/test_expiry_and_supervisor.py::test_open_turns_are_reconciled_after_a_restart",
        ),
    ),
    Guard(
        Race.READ_DURING_WRITE,
        "a turn that ended while its steps were read is read again",
        (ours("store/sessions/turn_records.py", "if again.rev == record.rev:", "if True:"),),
        (f"{LIFECYCLE}test_a_reader_never_sees_fewer_steps_than_were_published",),
    ),
    Guard(
        Race.READ_DURING_WRITE,
        "a turn and a header that do not belong together are not acted on",
        (
            ours(
                "services/turns/recovery.py",
                "if session.lock.order != state.order or is_waiting is not (session.lock.state is LockState.AWAITING):",
                "if False:",
            ),
        ),
        (
            "tests/integration/turns/supervision/test_expiry_and_supervisor.py::"
            "test_a_turn_that_is_resumed_while_it_is_read_is_read_again",
        ),
    ),
)
