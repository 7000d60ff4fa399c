"""Guards of a turn that waits for its client."""

from tests.guards.guard import Guard, ours
from tests.guards.races import Race
from tests.guards.revisions import BOTH, DOUBLED, TURN_ALONE

EXPIRY = "tests/integration/turns/supervision/test_expiry_and_supervisor.py::"
LOCKING = "tests/integration/turns/test_locking.py::"
ANSWERS = f"{LOCKING}test_responses_must_be_exactly_those_to_the_pending_calls"
REOPENED = "tests/integration/turns/test_reopened_turns.py::"
WAITING_ONLY = ours(
    "services/turns/turns.py",
    "        if state.status is not TurnStatus.AWAITING_INPUT:\n"
    "            raise TurnNotAwaiting(state.turn_id, state.status)\n",
)

RESUMES = (
    Guard(
        Race.RESUME_TWICE,
        f"a resume: {DOUBLED}",
        BOTH,
        (f"{LOCKING}test_a_resume_that_comes_before_another_resumes_write_wins",),
    ),
    Guard(
        Race.RESUME_TWICE,
        "a resume: the turn waits, it does not run (else only its call ids refuse, without a word of its state)",
        (WAITING_ONLY,),
        (f"{LOCKING}test_a_running_turn_is_not_resumed",),
    ),
    Guard(
        Race.RESUME_AFTER_EXPIRY,
        "a resume: the deadline is not over",
        (ours("services/turns/turns.py", "        if view.session.lock.is_overdue(now):", "        if False:"),),
        (
            f"{EXPIRY}test_a_late_resume_is_refused_and_the_turn_is_stored_as_expired",
            f"{LOCKING}test_a_resume_by_messages_after_the_deadline_is_refused",
        ),
    ),
    Guard(
        Race.RESUME_AFTER_EXPIRY,
        f"a resume whose turn expires before its write: {DOUBLED}",
        BOTH,
        (f"{EXPIRY}test_a_resume_whose_turn_expires_before_its_write_is_refused",),
    ),
    Guard(
        Race.WRONG_CALL_IDS,
        "answers: none has an id that is not pending",
        (
            ours(
                "services/turns/transitions.py",
                "if unknown := [call_id for call_id in answers if call_id not in pending]:",
                "if unknown := []:",
            ),
        ),
        (f"{ANSWERS}[one too many]",),
    ),
    Guard(
        Race.WRONG_CALL_IDS,
        "answers: none is missing",
        (
            ours(
                "services/turns/transitions.py",
                "if missing := [call_id for call_id in pending if call_id not in answers]:",
                "if missing := []:",
            ),
            ours(
                "services/turns/transitions.py",
                "for call in state.pending_calls)",
                "for call in state.pending_calls if call.call_id in answers)",
            ),
        ),
        (f"{ANSWERS}[missing]",),
    ),
    Guard(
        Race.WRONG_CALL_IDS,
        "answers: none comes twice",
        (ours("services/turns/transitions.py", "if len(answers) != len(responses):", "if False:"),),
        (f"{ANSWERS}[twice]",),
    ),
    Guard(
        Race.RESUME_OF_ENDED,
        "a resume: the turn waits, it has not ended nor been superseded (else only its call ids refuse)",
        (WAITING_ONLY,),
        (f"{LOCKING}test_a_new_turn_supersedes_a_paused_one_in_its_opening_write",),
    ),
    Guard(
        Race.RESUME_OF_ENDED,
        "a resume of a completed turn: no call is answered that the turn has an answer to",
        (ours("services/turns/transitions.py", "& {r.call_id for r in responses}", "& set[str]()"),),
        (f"{LOCKING}test_a_finished_turn_is_not_resumed",),
    ),
    Guard(
        Race.RESUME_OF_ENDED,
        "a resume of a completed turn: it is the session's newest",
        (ours("services/turns/transitions.py", "if session.last_order != state.order:", "if False:"),),
        (
            f"{REOPENED}test_only_the_newest_turn_of_a_session_continues",
            f"{REOPENED}test_a_new_turn_that_comes_before_the_resumes_write_wins",
        ),
    ),
    Guard(
        Race.RESUME_OF_ENDED,
        "a resume of a completed turn: no shield stopped it",
        (
            ours(
                "services/turns/transitions.py",
                "elif any(isinstance(step, ShieldCallStep) and step.has_stopped for step in state.turn.steps):",
                "elif False:",
            ),
        ),
        (f"{REOPENED}test_a_turn_that_ended_otherwise_does_not_continue",),
    ),
    Guard(
        Race.RESUME_OF_ENDED,
        "a completed turn that goes on leaves the log of ended ones in the write that opens it",
        (ours("services/turns/transitions.py", "segments=without_entry(segments, state.order)", "segments=()"),),
        (f"{REOPENED}test_an_earlier_turn_is_in_the_history_once_while_and_after_a_turn_is_opened_again",),
    ),
    Guard(
        Race.RESUME_OF_ENDED,
        "a completed turn that goes on is charged for what it spends from then on",
        (ours("services/turns/transitions.py", "spent, at = ended.uncharged,", "spent, at = ended.spent,"),),
        (f"{REOPENED}test_each_inference_is_charged_once_and_the_turn_reports_its_whole_usage",),
    ),
    Guard(
        Race.RESUME_OF_ENDED,
        "a run's clean-up leaves the steps of a run that opened its turn again",
        (ours("store/sessions/turns.py", "steps_of_turn(ref, order, count)", "steps_of_turn(ref, order)"),),
        (f"{REOPENED}test_the_first_runs_clean_up_leaves_the_steps_of_the_second",),
    ),
    Guard(
        Race.RESUME_OF_ENDED,
        "a resume: the turn is there, in this session (the look and the resume double each other)",
        (
            ours(
                "store/sessions/turns.py",
                '        if self.turn_record is None:\n            raise NotFound("turn", turn_id)\n',
            ),
            ours(
                "services/turns/turns.py",
                "        state = view.state\n        if state is None:\n"
                '            raise NotFound("turn", ref.turn_id)\n',
                "        state = view.state\n",
            ),
        ),
        (f"{LOCKING}test_unknown_and_foreign_turns_are_not_resumed",),
    ),
    Guard(
        Race.NEW_TURN_AGAINST_RESUME,
        f"the later of both: {DOUBLED}",
        BOTH,
        (
            f"{LOCKING}test_a_new_turn_that_comes_before_a_resumes_write_wins",
            f"{LOCKING}test_a_resume_that_comes_before_a_new_turns_write_wins",
        ),
    ),
    Guard(
        Race.NEW_TURN_AGAINST_RESUME,
        "a resume that read the turn before the new one opened, and the header afterwards: the turn is as it was read",
        TURN_ALONE,
        (f"{LOCKING}test_a_resume_that_reads_turn_and_lock_at_different_moments_takes_no_foreign_lock[False]",),
    ),
    Guard(
        Race.NEW_TURN_AGAINST_RESUME,
        "the waiting turn ends in the write that opens the new one",
        (ours("services/turns/transitions.py", "turns=(*ending.turns, *opening.turns)", "turns=opening.turns"),),
        (f"{LOCKING}test_a_new_turn_supersedes_a_paused_one_in_its_opening_write",),
    ),
    Guard(
        Race.EXPIRE_AGAINST_RESUME,
        f"an expiry whose turn is resumed before its write: {DOUBLED}",
        BOTH,
        (f"{EXPIRY}test_a_turn_that_is_resumed_before_its_expiry_is_written_continues",),
    ),
    Guard(
        Race.EXPIRE_AGAINST_RESUME,
        "an expiry that came second is looked at again, not an error",
        (
            ours(
                "services/turns/recovery.py",
                "except (Conflict, LeaseLost):",
                "except LeaseLost:",
            ),
        ),
        (f"{EXPIRY}test_a_turn_that_is_resumed_before_its_expiry_is_written_continues",),
    ),
    Guard(
        Race.EXPIRE_AGAINST_RESUME,
        "an expiry: the deadline is over",
        (ours("services/turns/recovery.py", "if not session.lock.is_overdue(now):", "if False:"),),
        (f"{EXPIRY}test_before_its_deadline_a_waiting_turn_is_left_alone",),
    ),
)
