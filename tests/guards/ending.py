"""Guards of turns that are ended, or continued by another process, while they run."""

from tests.guards.guard import Guard, ours
from tests.guards.races import Race
from tests.guards.revisions import BOTH, DOUBLED

CANCEL = "tests/integration/turns/test_cancel.py::"
HAND_OVER = "tests/integration/turns/supervision/test_hand_over.py::"

CANCELLATIONS = (
    Guard(
        Race.CANCEL_AGAINST_CLOSE,
        f"the later of both: {DOUBLED}",
        BOTH,
        (
            f"{CANCEL}test_a_turn_that_ends_first_was_not_cancelled[sqlite]",
            f"{CANCEL}test_a_turn_that_is_cancelled_first_does_not_end_otherwise[sqlite]",
        ),
    ),
    Guard(
        Race.CANCEL_AGAINST_CLOSE,
        f"a turn that is cancelled between its opening write and its lease: {DOUBLED}; a step's conditions",
        (
            *BOTH,
            ours("store/sessions/turns.py", "(unchanged, *_held(session.lock.fence))", "()"),
        ),
        (f"{CANCEL}test_a_turn_that_is_cancelled_before_its_run_has_its_lease_is_cancelled[sqlite-elsewhere]",),
    ),
    Guard(
        Race.CANCEL_AGAINST_CLOSE,
        "a run that lost its lease reports a cancellation",
        (
            ours(
                "services/turns/running.py",
                "                if state.status is TurnStatus.CANCELLED:\n"
                "                    return numbered(state)[-1:]\n",
                "                pass\n",
            ),
        ),
        (
            f"{CANCEL}test_a_turn_that_another_process_runs_is_stopped_by_its_next_write[sqlite]",
            f"{CANCEL}test_a_turn_that_is_cancelled_before_its_run_has_its_lease_is_cancelled[sqlite-here]",
        ),
    ),
    Guard(
        Race.CANCEL_AGAINST_CLOSE,
        "a cancellation holds the lease until the subscribers have its end",
        (
            ours(
                "services/turns/cancelling.py",
                "return nullcontext() if lease is None else lease.in_hand",
                "return nullcontext()",
            ),
        ),
        (f"{CANCEL}test_a_run_that_fails_before_the_cancellation_is_published_leaves_the_event_to_it[sqlite]",),
    ),
    Guard(
        Race.CANCEL_AGAINST_CLOSE,
        "a cancellation stops the run of this process",
        (ours("services/turns/cancelling.py", "            if lease is not None:\n                lease.lose()\n"),),
        (f"{CANCEL}test_a_cancelled_turn_reads_at_most_one_more_chunk_of_its_model[sqlite]",),
    ),
    Guard(
        Race.CANCEL_AGAINST_CLOSE,
        "a cancellation reads the steps after the header",
        (
            ours(
                "services/turns/cancelling.py",
                "            _, state = self._deps.turns.load(ref)\n",
                "            pass\n",
            ),
        ),
        (f"{CANCEL}test_a_step_that_is_saved_between_read_and_write_is_kept[sqlite]",),
    ),
    Guard(
        Race.CANCEL_AGAINST_CLOSE,
        "a turn that has ended otherwise is not cancelled",
        (
            ours(
                "services/turns/cancelling.py",
                "        if state.status.is_terminal:\n            raise TurnEnded(state.turn_id, state.status)\n",
            ),
        ),
        (
            f"{CANCEL}test_a_turn_that_ends_first_was_not_cancelled[sqlite]",
            f"{CANCEL}test_a_turn_that_ended_otherwise_can_not_be_cancelled",
        ),
    ),
    Guard(
        Race.CANCEL_AGAINST_CLOSE,
        "cancelled twice at once it is cancelled once",
        (
            ours(
                "services/turns/cancelling.py",
                "        if state.status is TurnStatus.CANCELLED:\n            return state\n",
            ),
        ),
        (f"{CANCEL}test_a_second_cancellation_returns_the_same_state_and_writes_nothing",),
    ),
    Guard(
        Race.CANCEL_AGAINST_CLOSE,
        "a cancellation that came second looks again",
        (
            ours(
                "services/turns/cancelling.py",
                'return retried(act, "the turn changes too fast, try again", TRIES_OF_TURNS)',
                "return act()",
            ),
        ),
        (f"{CANCEL}test_a_pause_that_comes_first_is_cancelled_all_the_same[sqlite]",),
    ),
    Guard(
        Race.CANCEL_AGAINST_CLOSE,
        "nothing is published after the end",
        (
            ours(
                "services/streams/broadcast.py",
                "            if self.is_over:\n                return  # a run",
                "            if False:\n                return  # a run",
            ),
        ),
        (f"{CANCEL}test_a_running_turn_is_stopped_and_its_finished_steps_stay[sqlite]",),
    ),
)
HAND_OVERS = (
    Guard(
        Race.HAND_OVER,
        "a departure that is reported twice at once counts once",
        (
            ours(
                "services/threads/publisher.py",
                "            if subscriber in self._subscribers:\n                self._subscribers.remove(subscriber)\n",
                "            self._subscribers.remove(subscriber)\n",
            ),
        ),
        ("tests/integration/turns/test_broadcast.py::test_a_cursor_that_leaves_in_two_threads_at_once_leaves_once",),
    ),
    Guard(
        Race.HAND_OVER,
        "a run whose lease was released publishes and writes nothing (event, step and close double each other)",
        (
            ours(
                "services/turns/leases.py",
                "        if self.is_lost:\n            raise",
                "        if False:\n            raise",
            ),
        ),
        (f"{HAND_OVER}test_after_a_hand_off_the_run_writes_and_publishes_nothing",),
    ),
    Guard(
        Race.HAND_OVER,
        "a lease is not given back while it is being renewed",
        (
            ours(
                "services/turns/running.py",
                "            with lease.in_hand:\n                if self._try_hand_off(",
                "            if lease.in_hand:\n                if self._try_hand_off(",
            ),
        ),
        (f"{HAND_OVER}test_the_lease_is_not_prolonged_by_a_renewal_that_was_under_way",),
    ),
    Guard(
        Race.HAND_OVER,
        "a lease that was given back is not renewed",
        (ours("services/turns/leases.py", "            if lease.is_lost:\n                return\n"),),
        (f"{HAND_OVER}test_the_lease_is_not_prolonged_by_a_renewal_that_was_about_to_be_made",),
    ),
    Guard(
        Race.HAND_OVER,
        "a run that finds out waits until the supervisor knows",
        (
            ours(
                "services/turns/running.py",
                "        with run.lease.in_hand:\n            is_reported",
                "        if run.lease.in_hand:\n            is_reported",
            ),
        ),
        (f"{HAND_OVER}test_model_output_during_the_hand_off_is_not_published_before_its_end",),
    ),
    Guard(
        Race.HAND_OVER,
        "a run that crashes meanwhile does not fail the turn",
        (
            ours(
                "services/turns/running.py",
                "            run.lease.check()\n            session, state",
                "            session, state",
            ),
        ),
        (f"{HAND_OVER}test_a_run_that_crashes_during_the_hand_off_does_not_fail_the_turn",),
    ),
    Guard(
        Race.HAND_OVER,
        "a turn that others took over is theirs",
        (
            ours(
                "services/turns/running.py",
                "            return False  # its run has just ended and publishes its end\n",
                "            pass\n",
            ),
        ),
        (f"{HAND_OVER}test_a_turn_that_others_took_over_already_is_left_to_them",),
    ),
    Guard(
        Race.HAND_OVER,
        "a run that has just ended publishes its own end",
        (
            ours(
                "services/turns/running.py",
                "        elif not broadcast.is_run:  # else the run",
                "        else:  # else the run",
            ),
        ),
        (f"{HAND_OVER}test_a_hand_off_of_a_turn_that_has_just_ended_publishes_its_end",),
    ),
    Guard(
        Race.HAND_OVER,
        "a process that handed a turn over does not hold it any more",
        (
            ours(
                "services/turns/leases.py",
                "            self._held.discard(lease)\n        lease.lose()\n",
                "            pass\n        lease.lose()\n",
            ),
        ),
        (f"{HAND_OVER}test_after_a_hand_off_the_same_process_may_take_the_turn_over",),
    ),
)
ENDINGS = (*CANCELLATIONS, *HAND_OVERS)
