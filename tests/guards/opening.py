"""Guards of a session's lock: one turn at a time, in the order of their opening, whatever the clocks show."""

from tests.guards.guard import Guard, ours
from tests.guards.races import Race
from tests.guards.revisions import HEADER_ALONE

LEASES = "tests/integration/turns/test_leases.py::"
LOCKING = "tests/integration/turns/test_locking.py::"

OPENINGS = (
    Guard(
        Race.TWO_TURNS,
        "a new turn: no other runs under a live lease",
        (ours("services/turns/opening.py", "return is_live or self", "return self"),),
        (f"{LEASES}test_until_its_lease_is_over_a_turn_is_left_alone",),
    ),
    Guard(
        Race.TWO_TURNS,
        "a new turn: this process runs none itself",
        (
            ours(
                "services/turns/opening.py",
                "return is_live or self._deps.leases.is_held(ref, lock.fence)",
                "return is_live",
            ),
        ),
        (f"{LEASES}test_a_turn_that_lives_here_is_not_declared_dead_by_a_clock_that_jumped",),
    ),
    Guard(
        Race.TWO_TURNS,
        "a new turn: the header is as it was read",
        HEADER_ALONE,
        (f"{LOCKING}test_a_turn_that_opens_before_anothers_write_wins",),
    ),
    Guard(
        Race.TWO_TURNS,
        "a new turn ends the one that was left by a dead process",
        (
            ours(
                "services/turns/opening.py",
                "        if lock.order is not None:\n            old =",
                "        if False:\n            old =",
            ),
        ),
        (f"{LEASES}test_the_repaired_turn_keeps_its_finished_steps",),
    ),
    Guard(
        Race.CLOCK_SKEW,
        "an order key comes after the previous one of its session",
        (ours("domain/values/ids.py", "unix_ms = max(unix_ms, uuid7_milliseconds(previous) + 1)", "pass"),),
        (f"{LOCKING}test_turns_keep_their_order_when_the_clock_goes_back",),
    ),
    Guard(
        Race.CLOCK_SKEW,
        "the machine looks some seconds after a lease is over",
        (ours("domain/turns/supervision.py", "AFTER_LEASE_S = 5", "AFTER_LEASE_S = 0"),),
        ("tests/unit/turns/test_supervision.py::test_a_lease_and_a_deadline_are_waited_for_with_some_time_to_spare",),
    ),
    Guard(
        Race.CLOCK_SKEW,
        "a process whose clock jumped renews the lease of the run it has",
        (ours("services/turns/recovery.py", "if self._deps.leases.is_held(ref, session.lock.fence):", "if False:"),),
        (f"{LEASES}test_a_process_that_stood_still_continues_its_run",),
    ),
)
