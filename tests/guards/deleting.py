"""Guards of deletion: nothing restores a deleted record, and it is cleaned up once."""

from tests.guards.guard import Guard, ours
from tests.guards.races import Race
from tests.guards.revisions import BOTH, DOUBLED, HEADER_ALONE

DELETION = "tests/integration/cleanup/test_deletion.py::"
EPHEMERAL = "tests/integration/sessions/test_ephemeral_sessions.py::"
DUE = "tests/integration/cleanup/test_due_jobs.py::"
SWEEPER = "tests/integration/cleanup/test_sweeper.py::"
BRINGS_NOTHING_BACK = f"{DELETION}test_a_turn_whose_session_another_process_deletes_restores_nothing"
OWNER_OR_ADMIN = f"{DELETION}test_only_its_owner_and_an_admin_may_delete_a_session"

DELETIONS = (
    Guard(
        Race.DELETE_DURING_TURN,
        "a close or a pause after the deletion: the header is there, as it was read",
        HEADER_ALONE,
        (f"{BRINGS_NOTHING_BACK}[end-deleted]", f"{BRINGS_NOTHING_BACK}[pause-deleted]"),
    ),
    Guard(
        Race.DELETE_DURING_TURN,
        f"a close or a pause after the clean-up: {DOUBLED}",
        BOTH,
        (f"{BRINGS_NOTHING_BACK}[end-cleaned up]", f"{BRINGS_NOTHING_BACK}[pause-cleaned up]"),
    ),
    Guard(
        Race.DELETE_DURING_TURN,
        "a step after the deletion: the header is there, as it was read",
        (
            ours(
                "store/sessions/turns.py",
                '                    Update(session_key(ref), {"steps": step_count}, (unchanged, '
                "*_held(session.lock.fence))),\n",
            ),
            ours(
                "store/sessions/turns.py",
                '        return session.model_copy(update={"rev": session.rev + 1})\n\n    def renew(',
                "        return session\n\n    def renew(",
            ),
        ),
        (f"{BRINGS_NOTHING_BACK}[step-deleted]", f"{BRINGS_NOTHING_BACK}[step-cleaned up]"),
    ),
    Guard(
        Race.DELETE_DURING_TURN,
        "the run that is here stops",
        (ours("services/turns/leases.py", "                    lease.lose()\n", "                    pass\n"),),
        (f"{DELETION}test_a_listener_in_the_deleting_process_is_notified_at_once_and_the_run_ends_at_its_next_event",),
    ),
    Guard(
        Race.DELETE_DURING_TURN,
        "the newest record of the log is the header: what is left of a session is none",
        (
            ours(
                "store/sessions/turns.py",
                "bool(newest_first) and newest_first[0].key == session_key(ref)",
                "bool(newest_first)",
            ),
        ),
        (f"{DELETION}test_a_deletion_succeeds_while_a_turn_moves_the_header",),
    ),
    Guard(
        Race.DELETE_DURING_TURN,
        "a turn whose agent is gone is not taken over, and stops no supervisor",
        (
            ours(
                "services/turns/recovery.py",
                "            return self._waiting_for_slot(ref, session, state)\n        except NotFound as missing:\n"
                "            return self._gone(ref, missing)\n",
                "            return self._waiting_for_slot(ref, session, state)\n",
            ),
        ),
        (f"{DELETION}test_a_turn_of_a_dead_process_is_not_taken_over_in_a_deleted_session",),
    ),
    Guard(
        Race.DELETE_AGAINST_CREATE,
        "a session begins only with an agent that is there",
        (
            ours(
                "store/sessions/sessions.py",
                '(AttributeIs("status", ACTIVE),))\n    checks',
                "())\n    checks",
            ),
        ),
        (f"{DELETION}test_a_session_whose_agent_is_deleted_during_its_creation_does_not_begin",),
    ),
    Guard(
        Race.DELETE_AGAINST_CREATE,
        "an agent is deleted once",
        (ours("store/agents/agents.py", "Delete(agent, (is_there,))", "Delete(agent)"),),
        (f"{DELETION}test_of_two_deletions_at_once_one_finds_the_session_gone_and_leaves_no_job[delete_agent]",),
    ),
    Guard(
        Race.DELETE_AGAINST_CREATE,
        "a session is deleted once",
        (
            ours(
                "store/sessions/sessions.py",
                "Delete(session_key(ref), (RevIs(session.rev),))",
                "Delete(session_key(ref))",
            ),
        ),
        (f"{DELETION}test_of_two_deletions_at_once_one_finds_the_session_gone_and_leaves_no_job[delete_session]",),
    ),
    Guard(
        Race.DELETE_AGAINST_CREATE,
        "a session that is used while it is being ended stays",
        (
            ours(
                "store/sessions/sessions.py",
                "Delete(session_key(ref), (RevIs(session.rev),))",
                "Delete(session_key(ref))",
            ),
        ),
        (f"{EPHEMERAL}test_a_session_that_is_used_while_it_is_being_ended_stays",),
    ),
    Guard(
        Race.DELETE_AGAINST_CREATE,
        "a deletion succeeds while a turn moves the header",
        (
            ours(
                "store/sessions/sessions.py",
                "                newest = session_of(conflict.found)\n",
                "",
            ),
        ),
        (f"{DELETION}test_a_deletion_succeeds_while_a_turn_moves_the_header",),
    ),
)
CLEAN_UPS = (
    Guard(
        Race.TWO_RUNS_OF_A_JOB,
        "a job that was done or put off is not done again",
        (
            ours(
                "services/cleanup/cleaning.py",
                "        if not self._store.is_open(job):\n            return  # done, or rescheduled\n",
            ),
        ),
        (f"{DELETION}test_a_job_that_is_sent_twice_is_done_once_and_continues_once",),
    ),
    Guard(
        Race.TWO_RUNS_OF_A_JOB,
        "of two runs at once one ends the job",
        (ours("store/cleanup/jobs.py", "Delete(key, (RevIs(1),))", "Delete(key)"),),
        (f"{DELETION}test_two_runs_of_one_job_at_once_leave_one_successor",),
    ),
    Guard(
        Race.TWO_RUNS_OF_A_JOB,
        "a clean-up looks once more for what comes in late",
        (ours("services/cleanup/cleaning.py", "if self._clock.now() < job.since + LATE_PAYLOADS:", "if False:"),),
        (f"{DELETION}test_payloads_are_removed_too_also_those_that_a_dying_process_left",),
    ),
    Guard(
        Race.SWEEP,
        "a turn under a live lease is left alone",
        (ours("services/turns/recovery.py", "if lock.is_live(now):", "if False:"),),
        (f"{SWEEPER}test_a_turn_that_runs_is_left_alone[sqlite]",),
    ),
    Guard(
        Race.SWEEP,
        "an unreadable turn stops no other",
        (
            ours(
                "services/cleanup/sweeping.py",
                "    if problem := future.exception():\n",
                "    future.result()\n    if problem := future.exception():\n",
            ),
        ),
        (f"{SWEEPER}test_one_broken_turn_does_not_stop_the_others[sqlite]",),
    ),
    Guard(
        Race.SWEEP,
        "nothing is begun when the function's time is over (the batch and the turn double each other)",
        (
            ours("services/cleanup/sweeping.py", "if self._clock.now() >= until:", "if False:"),
            ours(
                "services/cleanup/sweeping.py",
                "return self._reconcile(ref) if self._clock.now() < until else None",
                "return self._reconcile(ref)",
            ),
        ),
        (f"{SWEEPER}test_a_sweep_begins_with_nothing_when_its_time_is_over[sqlite]",),
    ),
    Guard(
        Race.SWEEP,
        "one sweep is made at a time",
        (
            ours(
                "store/cleanup/sweeps.py", " > stamp(now):\n            return None", " > stamp(now):\n            pass"
            ),
        ),
        (f"{DUE}test_of_two_sweeps_at_once_one_does_nothing",),
    ),
    Guard(
        Race.SWEEP,
        "of two sweeps that find no lease one takes it",
        (ours("store/cleanup/sweeps.py", "attributes, (guard,))", "attributes)"),),
        (f"{DUE}test_of_two_sweeps_that_find_no_lease_one_takes_it",),
    ),
    Guard(
        Race.SWEEP,
        "a sweep gives back no lease but its own",
        (ours("store/cleanup/sweeps.py", ', (AttributeIs("owner", lease.owner),))', ", ())"),),
        (f"{DUE}test_a_killed_sweep_delays_the_next_one_only_until_its_time_is_over",),
    ),
    Guard(
        Race.NO_RACE,
        "an admin deletes a session that he does not see",
        (ours("services/cleanup/deleting.py", "if not may_delete(caller, session.stamp):", "if True:"),),
        (f"{OWNER_OR_ADMIN}[session-an admin of no team]",),
    ),
    Guard(
        Race.NO_RACE,
        "an admin deletes an agent that he does not see",
        (
            ours(
                "services/access/access.py",
                "        if may_delete(caller, stamp):\n            return\n"
                "        self.check_sight(caller, stamp, kind, identifier)\n",
                "        self.check_sight(caller, stamp, kind, identifier)\n"
                "        if may_delete(caller, stamp):\n            return\n",
            ),
        ),
        (f"{OWNER_OR_ADMIN}[agent-an admin of no team]",),
    ),
)
DELETING = (*DELETIONS, *CLEAN_UPS)
