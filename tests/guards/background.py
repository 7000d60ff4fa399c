"""Guards of turns in the background: queued once, claimed once, and not lost to a newer request."""

from tests.guards.guard import Guard, ours
from tests.guards.races import Race

BACKGROUND = "tests/integration/turns/supervision/test_background_turns.py::"
OPENED = "tests/integration/turns/queueing/test_openings.py::"

BACKGROUNDS = (
    Guard(
        Race.QUEUED,
        "a newer request does not take the session of a queued turn",
        (
            ours(
                "services/turns/opening.py",
                "if lock.state is LockState.QUEUED:  # it has not lost",
                "if False:  # it has not lost",
            ),
        ),
        (f"{BACKGROUND}test_a_newer_request_is_refused_however_late_the_claim_is",),
    ),
    Guard(
        Race.QUEUED,
        "a claim takes a new fence and the header as it was read",
        (
            ours(
                "store/sessions/session_records.py",
                "when=(RevIs(session.rev) if session.rev else Absent(),)",
                "when=()",
            ),
        ),
        (f"{BACKGROUND}test_a_claim_shuts_out_one_that_read_before_it",),
    ),
    Guard(
        Race.QUEUED,
        "a queued turn is claimed without the count of a takeover",
        (
            ours(
                "services/turns/recovery.py",
                "if session.lock.state is LockState.QUEUED and not state.is_lost:",
                "if False:",
            ),
        ),
        (f"{BACKGROUND}test_on_a_host_without_background_work_a_worker_claims_it_and_counts_no_takeover",),
    ),
    Guard(
        Race.QUEUED,
        "the queue is joined before the turn is stored",
        (
            ours(
                "services/turns/turns.py",
                "return self._opener.queue(checked, self._queued.reserve(ref.tenant))",
                "return self._opener.queue(checked)",
            ),
        ),
        (f"{BACKGROUND}test_a_full_queue_refuses_it_before_anything_is_stored",),
    ),
    Guard(
        Race.QUEUED,
        "a slot that comes before the turn is stored runs it afterwards",
        (
            ours(
                "services/threads/queued_runs.py",
                "        if settled is not None:\n            self._runs.settle(settled, ref)\n",
                "",
            ),
        ),
        (f"{BACKGROUND}test_a_slot_that_comes_before_the_write_runs_it_all_the_same",),
    ),
    Guard(
        Race.QUEUED,
        "a place in the queue whose turn was not stored is left",
        (ours("services/turns/opening.py", "                reserved.leave()\n", "                pass\n"),),
        (f"{BACKGROUND}test_a_failed_write_leaves_the_queue",),
    ),
    Guard(
        Race.QUEUED,
        "a reader reports a queued turn that no process claimed",
        (ours("services/turns/supervision.py", " or lock.is_unclaimed(now)", ""),),
        (f"{BACKGROUND}test_a_reader_reports_it_once_it_should_have_been_claimed",),
    ),
    Guard(
        Race.QUEUED,
        "the supervisor is notified of a queued turn",
        (
            ours(
                "services/turns/opening.py",
                "        watch(self._deps.supervisor, ref, committed.session.lock)\n",
                "",
            ),
        ),
        (
            f"{BACKGROUND}test_on_a_host_without_background_work_a_worker_claims_it_and_counts_no_takeover",
            f"{BACKGROUND}test_a_claim_that_can_not_be_stored_is_tried_again",
        ),
    ),
    Guard(
        Race.OPENING_WITH_SESSION,
        "a session is created with its turn only while its agent is there",
        (
            ours(
                "store/sessions/sessions.py",
                '(AttributeIs("status", ACTIVE),))\n    checks',
                "())\n    checks",
            ),
        ),
        (f"{OPENED}test_without_its_agent_no_session_is_created",),
    ),
    Guard(
        Race.OPENING_WITH_SESSION,
        "the same opening joins the turn in the session that it created",
        (ours("services/turns/turns.py", "if is_own and session.last_request", "if False and session.last_request"),),
        (f"{OPENED}test_the_same_opening_joins_the_turn_that_it_opened",),
    ),
    Guard(
        Race.PATIENCE,
        "a request does not overtake those that wait for its session",
        (
            ours(
                "services/streams/session_queues.py",
                "if first is not None and first is not getattr",
                "if False and first is not getattr",
            ),
        ),
        (f"{OPENED}test_a_request_does_not_overtake_those_that_wait",),
    ),
    Guard(
        Race.PATIENCE,
        "the next request is the first of its session once the one before it has left",
        (
            ours(
                "services/streams/session_queues.py",
                "        if was_first and following is not None:\n            self._watch(following)\n",
                "",
            ),
        ),
        (f"{OPENED}test_a_client_that_leaves_is_not_served_and_the_next_one_is",),
    ),
)
