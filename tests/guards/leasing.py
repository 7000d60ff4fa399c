"""Guards of a running turn: only the holder of its lease writes, and no step is lost or emitted too early."""

from tests.guards.guard import Guard, ours
from tests.guards.races import Race
from tests.guards.revisions import BOTH, DOUBLED

EXPIRY = "tests/integration/turns/supervision/test_expiry_and_supervisor.py::"
HAND_OVER = "tests/integration/turns/supervision/test_hand_over.py::"
LEASES = "tests/integration/turns/test_leases.py::"
HELD = "(unchanged, *_held(session.lock.fence))"

LOST_LEASES = (
    Guard(
        Race.LEASE_LOST,
        "a run checks its lease before it publishes an event",
        (
            ours(
                "services/turns/running.py",
                "                self.lease.check()\n                if isinstance(event, TextsProgressed)",
                "                if isinstance(event, TextsProgressed)",
            ),
        ),
        (f"{LEASES}test_a_failed_renewal_stops_the_engine_at_its_next_event",),
    ),
    Guard(
        Race.LEASE_LOST,
        "a renewal that is refused loses the lease",
        (
            ours(
                "services/turns/leases.py",
                "            except LeaseLost:\n                lease.lose()",
                "            except LeaseLost:\n                pass",
            ),
        ),
        (f"{LEASES}test_a_failed_renewal_stops_the_engine_at_its_next_event",),
    ),
    Guard(
        Race.LEASE_LOST,
        "a model that is silent is not waited for any longer",
        (
            ours(
                "services/turns/leases.py",
                "        self.is_lost = True\n        self.stop.set()",
                "        self.is_lost = True",
            ),
        ),
        ("tests/e2e/turns/test_silent_models.py::test_its_slot_is_free_as_soon_as_its_turn_is_cancelled_or_deleted",),
    ),
    Guard(
        Race.LEASE_LOST,
        "a store that is away for a moment loses no lease",
        (
            ours(
                "services/turns/leases.py",
                '            except StoreUnavailable as unavailable:\n                log.warning("lease of turn',
                "            except StoreUnavailable as unavailable:\n                lease.lose()\n"
                '                log.warning("lease of turn',
            ),
        ),
        (f"{LEASES}test_a_store_that_is_unavailable_for_some_renewals_is_survived",),
    ),
)
DEAD_WRITERS = (
    Guard(
        Race.DEAD_WRITER,
        f"a late close: {DOUBLED}",
        BOTH,
        (f"{LEASES}test_a_writer_whose_turn_was_repaired_by_a_new_one_writes_nothing[at the close]",),
    ),
    Guard(
        Race.DEAD_WRITER,
        "a late step: the header is as it was read, runs, and has this fence; the step is not "
        "there (they double each other)",
        (
            ours("store/sessions/turns.py", HELD, "()"),
            ours(
                "store/sessions/turn_records.py",
                "body=frame(private, wire), when=(Absent(),))",
                "body=frame(private, wire))",
            ),
        ),
        (f"{LEASES}test_a_writer_whose_turn_was_repaired_by_a_new_one_writes_nothing[at a step]",),
    ),
    Guard(
        Race.DEAD_WRITER,
        "a late renewal: the fence is the writer's own",
        (ours("store/sessions/turns.py", "return is_mine, is_running", "return (is_running,)"),),
        (f"{HAND_OVER}test_a_turn_that_others_took_over_already_is_left_to_them",),
    ),
    Guard(
        Race.DEAD_WRITER,
        "a late renewal: the turn still runs",
        (ours("store/sessions/turns.py", "return is_mine, is_running", "return (is_mine,)"),),
        (f"{LEASES}test_a_renewal_that_comes_too_late_changes_nothing",),
    ),
    Guard(
        Race.DEAD_WRITER,
        "each owner of the lock has a fence of its own",
        (ours("domain/sessions/sessions.py", "fence=self.fence + 1, reopened", "fence=self.fence, reopened"),),
        (f"{HAND_OVER}test_a_turn_that_others_took_over_already_is_left_to_them",),
    ),
    Guard(
        Race.DEAD_WRITER,
        "a step moves the header's revision, which an end or takeover detects",
        (
            ours("store/sessions/turns.py", HELD, "_held(session.lock.fence)"),
            ours(
                "store/sessions/turns.py",
                '        return session.model_copy(update={"rev": session.rev + 1})\n\n    def renew(',
                "        return session\n\n    def renew(",
            ),
        ),
        (
            f"{LEASES}test_a_step_published_while_the_turn_is_being_repaired_is_kept",
            f"{LEASES}test_a_step_published_while_the_turn_is_being_taken_over_is_kept",
        ),
    ),
    Guard(
        Race.DEAD_WRITER,
        "a run removes the steps beside a turn only if it ended it itself",
        (
            ours(
                "services/turns/running.py",
                "self._deps.tidies_up and self._steps_at_end and self._has",
                "self._deps.tidies_up and self._has",
            ),
            ours(
                "services/turns/running.py",
                "self.launch.state.order, self._steps_at_end)",
                "self.launch.state.order, 99)",
            ),
        ),
        (
            f"{LEASES}test_a_writer_that_lost_its_lease_keeps_the_steps_of_the_continued_turn",
            f"{LEASES}test_a_paused_turns_clean_up_leaves_the_steps_of_its_resume",
        ),
    ),
)
HEIRS = (
    Guard(
        Race.TWO_HEIRS,
        f"the later heir: {DOUBLED}",
        BOTH,
        (f"{EXPIRY}test_two_processes_at_once_take_a_turn_over_once",),
    ),
    Guard(
        Race.TWO_HEIRS,
        "an heir: the lease is over",
        (ours("services/turns/recovery.py", "if lock.is_live(now):", "if False:"),),
        (f"{LEASES}test_until_its_lease_is_over_a_turn_is_left_alone",),
    ),
)
SET_BACK = (
    Guard(
        Race.TWO_TURNS,
        "a lease without renewal ends though the clock was set back",
        (ours("services/turns/leases.py", "until <= now + self._duration", "until"),),
        (f"{LEASES}test_a_lease_that_is_not_renewed_ends_in_its_time_though_the_clock_was_set_back",),
    ),
    Guard(
        Race.TWO_TURNS,
        "a renewed lease is watched again",
        (
            ours(
                "services/turns/leases.py",
                "if watched is None or (watched.fence, watched.lease_until) != (lock.fence, until):",
                "if watched is None:",
            ),
        ),
        (f"{LEASES}test_a_lease_that_is_renewed_stays_though_the_clock_was_set_back",),
    ),
)
LEASINGS = (*LOST_LEASES, *DEAD_WRITERS, *HEIRS, *SET_BACK)
