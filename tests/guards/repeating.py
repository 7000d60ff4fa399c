"""Guards of requests and writes that are repeated because their answer was lost."""

from tests.guards.guard import Guard, ours
from tests.guards.races import Race

DYNAMO = "tests/contract/store/test_dynamo_store.py::TestDynamoConformance::"
FOLLOWING = "tests/integration/turns/supervision/test_following.py::"
IDEMPOTENCY = "tests/integration/turns/test_idempotency.py::"
REQUESTS = "tests/unit/store/test_dynamo_requests.py::"
SQLITE = "tests/contract/store/test_sqlite_store.py::"
CONFORMANCE = f"{SQLITE}TestSqliteConformance::"

LOST_ANSWERS = (
    Guard(
        Race.LOST_ANSWER,
        "SQLite: a conflict with one's own nonce is no conflict",
        (ours("adapters/sqlite/sqlite.py", "if not was_applied(connection, operations, nonce):", "if True:"),),
        (f"{CONFORMANCE}test_the_same_write_again_succeeds_and_changes_nothing",),
    ),
    Guard(
        Race.LOST_ANSWER,
        "SQLite: a write without a nonce has no owner",
        (ours("adapters/sqlite/sqlite_writes.py", "    if nonce is None:\n        return False\n", ""),),
        (f"{CONFORMANCE}test_another_nonce_conflicts[None-None]",),
    ),
    Guard(
        Race.LOST_ANSWER,
        "SQLite: a nonce that another has overwritten is not one's own",
        (
            ours(
                "adapters/sqlite/sqlite_writes.py",
                "row = row_of(_revision(operation.when, state.rev), merged, nonce)",
                "row = row_of(_revision(operation.when, state.rev), merged, nonce or state.nonce)",
            ),
        ),
        (f"{CONFORMANCE}test_a_nonce_that_was_overwritten_is_no_longer_found",),
    ),
    Guard(
        Race.LOST_ANSWER,
        "DynamoDB: a conflict with one's own nonce is no conflict",
        (
            ours(
                "adapters/aws/dynamodb.py",
                "            if self._was_applied(operations, reasons, nonce):\n                return True\n",
            ),
        ),
        (
            f"{REQUESTS}test_a_write_whose_answer_was_lost_finds_its_nonce_and_is_done",
            "tests/integration/turns/supervision/test_supervised_turns.py::"
            "test_a_pause_whose_answer_was_lost_counts_although_the_machine_stored_its_token_since",
        ),
    ),
    Guard(
        Race.LOST_ANSWER,
        "DynamoDB: the nonce is looked for where no condition failed, too",
        (
            ours(
                "adapters/aws/dynamodb.py",
                "return any(decoded_nonce(item) == nonce for item in self._items(unseen).values())",
                "return False",
            ),
        ),
        (f"{DYNAMO}test_the_nonce_is_found_on_any_record_that_is_left_of_the_write",),
    ),
    Guard(
        Race.LOST_ANSWER,
        "DynamoDB: a write that is tried again has the nonce it had",
        (
            ours(
                "adapters/aws/dynamodb.py",
                "if self._try_write(operations, nonce):",
                "if self._try_write(operations, uuid4().hex):",
            ),
        ),
        (f"{REQUESTS}test_a_transaction_that_met_another_is_tried_again_under_the_same_token",),
    ),
    Guard(
        Race.LOST_ANSWER,
        "DynamoDB: a transaction that the client repeats by itself is one",
        (ours("adapters/aws/dynamodb.py", "TransactItems=items, ClientRequestToken=nonce)", "TransactItems=items)"),),
        (f"{REQUESTS}test_several_writes_and_a_check_are_a_transaction_under_a_token",),
    ),
)
RETRIES = (
    Guard(
        Race.CLIENT_RETRY,
        "a retry joins the turn that its request opened",
        (
            ours(
                "services/turns/turns.py",
                "if attempt.is_retry and session.last_request",
                "if False and session.last_request",
            ),
        ),
        (f"{IDEMPOTENCY}test_a_retry_joins_the_running_turn_from_its_first_event_on",),
    ),
    Guard(
        Race.CLIENT_RETRY,
        "a retry with another body joins nothing",
        (
            ours(
                "services/turns/turns.py",
                "if attempt.is_retry and session.last_request == attempt.fingerprint and",
                "if attempt.is_retry and",
            ),
        ),
        (f"{IDEMPOTENCY}test_a_retry_with_another_body_is_a_request_of_its_own",),
    ),
    Guard(
        Race.CLIENT_RETRY,
        "what is sent for the first time joins nothing",
        (ours("services/turns/turns.py", "if attempt.is_retry and session.last_request", "if session.last_request"),),
        (f"{IDEMPOTENCY}test_a_first_request_never_joins",),
    ),
    Guard(
        Race.CLIENT_RETRY,
        "equal words long after the turn are no retry",
        (
            ours(
                "services/turns/joining.py",
                "if at_rest and self._deps.clock.now() - state.last_moment > within:",
                "if False:",
            ),
        ),
        (f"{IDEMPOTENCY}test_an_equal_message_long_after_a_turn_ended_opens_a_new_turn",),
    ),
    Guard(
        Race.CLIENT_RETRY,
        "a resume is remembered as the session's latest request",
        (
            ours(
                "services/turns/transitions.py",
                '"lock": lock, "last_request": answered.request}), (continued,)',
                '"lock": lock}), (continued,)',
            ),
        ),
        (f"{IDEMPOTENCY}test_a_retried_resume_joins_its_run",),
    ),
    Guard(
        Race.CLIENT_RETRY,
        "a retry refused by its own first copy reads again",
        (ours("services/turns/turns.py", "if was_refused or not (attempt.is_retry or attempt.key):", "if True:"),),
        (
            f"{IDEMPOTENCY}test_a_resume_that_comes_twice_at_the_worst_moment_joins_itself[resume-retry]",
            f"{IDEMPOTENCY}test_a_request_that_reads_key_and_lock_at_different_moments_joins_too",
        ),
    ),
    Guard(
        Race.CLIENT_RETRY,
        "tool messages look for their first copy beside the turn they resume, too (a second look doubles it)",
        (
            ours("services/turns/turns.py", "if was_refused or not (attempt.is_retry or attempt.key):", "if True:"),
            ours(
                "services/turns/turns.py",
                "        if earlier := self._earlier(waiting, view, attempt, now, is_resume=True):\n"
                "            return earlier\n",
            ),
        ),
        (f"{IDEMPOTENCY}test_a_resume_that_comes_twice_at_the_worst_moment_joins_itself[tool messages-key]",),
    ),
    Guard(
        Race.CLIENT_RETRY,
        "a second equal message that is refused is not to be repeated",
        (
            ours(
                "services/turns/turns.py",
                "        refused.may_be_repeated = view.session.last_request != attempt.fingerprint\n",
            ),
        ),
        (f"{IDEMPOTENCY}test_a_second_equal_message_that_the_store_refuses_is_not_to_be_sent_again",),
    ),
    Guard(
        Race.CLIENT_RETRY,
        "a joined request receives past events before live ones",
        (ours("services/streams/broadcast.py", "        with in_order:\n", "        if in_order:\n"),),
        (f"{IDEMPOTENCY}test_a_caller_that_joins_a_resumed_turn_receives_the_past_before_the_present",),
    ),
    Guard(
        Race.CLIENT_RETRY,
        "a joined turn is followed before the supervisor is notified",
        (
            ours(
                "services/turns/joining.py",
                "        self._deps.follow(ref)  # first: a retry after a failed call of the "
                "supervisor finds the turn followed\n"
                "        self._deps.supervisor.watch(ref, lock)\n",
                "        self._deps.supervisor.watch(ref, lock)\n        self._deps.follow(ref)\n",
            ),
        ),
        (f"{FOLLOWING}test_a_retry_after_an_unavailable_supervisor_receives_the_end",),
    ),
    Guard(
        Race.CLIENT_RETRY,
        "a follower that arrives during the last poll is followed, too",
        (
            ours(
                "services/streams/following.py",
                "if self._followed.get(name) is followed:",
                "if name in self._followed:",
            ),
        ),
        (f"{FOLLOWING}test_a_subscriber_that_arrives_during_the_last_poll_is_followed_too",),
    ),
)
KEYS = (
    Guard(
        Race.ONE_KEY_TWICE,
        "an answer is remembered only where none is, or the old one as it was read",
        (ours("store/layout/idempotency.py", "            when=(RevIs(found.rev) if found else Absent(),),\n"),),
        (f"{IDEMPOTENCY}test_a_creation_that_loses_the_race_for_a_new_key_gets_the_winners_answer",),
    ),
    Guard(
        Race.ONE_KEY_TWICE,
        "yesterday's answer gives way only as it was read",
        (
            ours(
                "store/layout/idempotency.py",
                "when=(RevIs(found.rev) if found else Absent(),)",
                "when=() if found else (Absent(),)",
            ),
        ),
        (f"{IDEMPOTENCY}test_a_creation_that_loses_the_race_for_yesterdays_key_gets_the_winners_answer",),
    ),
    Guard(
        Race.ONE_KEY_TWICE,
        "the loser of a race for a key answers as the winner",
        (
            ours(
                "store/layout/idempotency.py",
                "                if not remembered or conflict.key != remembered[0].key:\n                    raise\n",
                "                raise\n",
            ),
        ),
        (f"{IDEMPOTENCY}test_a_creation_that_loses_the_race_for_a_new_key_gets_the_winners_answer",),
    ),
    Guard(
        Race.ONE_KEY_TWICE,
        "a key is for one body",
        (ours("store/layout/idempotency.py", 'if kept["fingerprint"] != attempt.fingerprint:', "if False:"),),
        (f"{IDEMPOTENCY}test_a_key_creates_one_thing_a_day", f"{IDEMPOTENCY}test_a_key_opens_one_turn"),
    ),
    Guard(
        Race.ONE_KEY_TWICE,
        "a key that is over finds nothing",
        (
            ours(
                "store/layout/idempotency.py",
                'if record is None or int(record.attributes["ttl"]) <= now.timestamp():',
                "if record is None:",
            ),
        ),
        (f"{IDEMPOTENCY}test_a_key_creates_one_thing_a_day",),
    ),
    Guard(
        Race.ONE_KEY_TWICE,
        "SQLite: a record renewed between read and removal is kept",
        (
            ours(
                "adapters/sqlite/sqlite.py",
                "_DROP = \"DELETE FROM items WHERE rowid = ? AND json_extract(attributes, '$.ttl') <= ?\"",
                '_DROP = "DELETE FROM items WHERE rowid = ? AND ? IS NOT NULL"',
            ),
        ),
        (f"{SQLITE}test_a_record_renewed_between_the_check_and_the_removal_is_kept",),
    ),
)
REPETITIONS = (*LOST_ANSWERS, *RETRIES, *KEYS)
