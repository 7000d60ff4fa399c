"""Guards of the queue for slots: a slot and a waiting request may miss each other."""

from tests.guards.guard import Guard, ours
from tests.guards.races import Race

SLOTS = "tests/unit/turns/test_slots.py::"
WAITING = "tests/integration/turns/queueing/test_waiting.py::"

QUEUEING = (
    Guard(
        Race.SLOT_AGAINST_LEAVING,
        "a waiter that leaves releases the slot it received in the meantime",
        (
            ours(
                "services/threads/slots.py",
                "        if not is_queued:\n            self.release(waiter.tenant)\n",
            ),
        ),
        (
            f"{SLOTS}test_a_waiter_that_leaves_with_a_slot_passes_it_to_the_next",
            f"{SLOTS}test_slots_are_neither_lost_nor_made_and_no_free_one_is_waited_for",
        ),
    ),
    Guard(
        Race.SLOT_AGAINST_LEAVING,
        "a request leaves the queue however its wait ends",
        (
            ours(
                "http/server/waiting.py",
                "        if not has_slot:\n            executor.leave(waiter)\n",
            ),
        ),
        (
            f"{WAITING}test_a_client_that_leaves_while_waiting_leaves_the_queue_at_once_and_takes_no_slot",
            f"{WAITING}test_a_request_that_the_server_cancels_takes_no_slot",
        ),
    ),
    Guard(
        Race.SLOT_AGAINST_LEAVING,
        "a place that was waited for and is not needed any more is given back",
        (
            ours(
                "services/threads/executor.py",
                "            del self._of_request.permit\n            permit.release_if_unused()\n",
                "            del self._of_request.permit\n",
            ),
        ),
        (
            f"{WAITING}test_a_request_and_its_repetition_both_wait_and_are_one_turn",
            f"{WAITING}test_the_session_is_read_again_after_the_wait",
        ),
    ),
    Guard(
        Race.SLOT_AGAINST_LEAVING,
        "a place that is given back goes to the queue before anybody else",
        (
            ours(
                "services/threads/slots.py",
                "            served = list(self._served())",
                "            served: list[Waiter] = []",
            ),
        ),
        (f"{SLOTS}test_tenants_are_served_in_turns_however_many_requests_one_has",),
    ),
    Guard(
        Race.SLOT_AGAINST_LEAVING,
        "whoever begins to wait takes a place that became free since it was refused",
        (
            ours(
                "services/threads/slots.py",
                "            try:\n                self._take(waiter.tenant)\n            except Overloaded as full:\n"
                "                self._refuse_beyond_limits(waiter, full)\n                self._enqueue(waiter)\n"
                "                return\n            waiter.has_slot = True\n        waiter.settle(waiter)\n",
                "            self._refuse_beyond_limits(waiter, Overloaded(self._capacity))\n"
                "            self._enqueue(waiter)\n",
            ),
        ),
        (f"{SLOTS}test_a_free_slot_is_granted_at_once",),
    ),
    Guard(
        Race.SLOT_AGAINST_LEAVING,
        "a takeover waits among the requests",
        (
            ours(
                "services/turns/recovery.py",
                "            return self._waiting_for_slot(ref, session, state)\n",
                "            return self._soon(state)\n",
            ),
        ),
        (
            "tests/integration/turns/supervision/test_expiry_and_supervisor.py::"
            "test_a_takeover_gets_a_slot_under_an_endless_queue_of_requests",
        ),
    ),
)
