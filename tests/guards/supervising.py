"""Guards between a waiting turn and the state machine that waits with it."""

from tests.guards.guard import Edit, Guard, ours
from tests.guards.races import Race

FOLLOWING = "tests/integration/turns/supervision/test_following.py::"
EXPIRY = "tests/integration/turns/supervision/test_expiry_and_supervisor.py::"
MACHINE = "tests/integration/turns/supervision/test_state_machine.py::"
REQUESTS = "tests/unit/turns/test_step_functions_requests.py::"
SUPERVISED = "tests/integration/turns/supervision/test_supervised_turns.py::"
TOKEN_TOO_LATE = f"{MACHINE}test_a_turn_resumed_before_its_token_was_stored_is_reconciled_at_once_and_left_as_it_is"


def of_the_machine(found: str, replaced_by: str = "") -> Edit:
    """Return an edit of the state machine's definition."""
    return Edit("functions/turn_supervisor/state_machine.asl.json", found, replaced_by)


NOT_STARTED = (
    Guard(
        Race.PAUSE_WITHOUT_EXECUTION,
        "a pause counts though its machine can't be started",
        (
            ours(
                "services/turns/running.py",
                "        except StoreUnavailable as unavailable:\n            # the pause",
                "        except LeaseLost as unavailable:\n            # the pause",
            ),
        ),
        (f"{SUPERVISED}test_a_pause_whose_machine_can_not_be_started_stands_and_its_resume_works",),
    ),
    Guard(
        Race.PAUSE_WITHOUT_EXECUTION,
        "a read of a turn whose deadline is over has it reconciled",
        (
            ours(
                "services/turns/supervision.py",
                "(lock.is_abandoned(now) or lock.is_overdue(now) or",
                "(lock.is_abandoned(now) or",
            ),
        ),
        (f"{EXPIRY}test_reading_an_overdue_turn_reconciles_it",),
    ),
    Guard(
        Race.PAUSE_WITHOUT_EXECUTION,
        "that read is answered though the state machine can't be started",
        (
            ours(
                "services/turns/supervision.py",
                '        log.warning("turn %s is not watched, its next reader will report it: %s", ref.turn_id, unavailable)\n',
                "        raise\n",
            ),
        ),
        (f"{SUPERVISED}test_a_read_succeeds_when_the_machine_can_not_be_started_by_it_either",),
    ),
    Guard(
        Race.PAUSE_WITHOUT_EXECUTION,
        "a machine that was started already is no failure",
        (
            ours(
                "adapters/aws/step_functions.py",
                '            if code == "ExecutionAlreadyExists":\n                return False\n',
            ),
        ),
        (f"{REQUESTS}test_a_second_start_is_none",),
    ),
    Guard(
        Race.PAUSE_WITHOUT_EXECUTION,
        "a machine is named by its turn: a second start is none",
        (
            ours(
                "adapters/aws/step_functions.py",
                "name, key = _name_of(turn), self._key_of(turn)",
                'name, key = f"{_name_of(turn)[:40]}-{id(check)}", self._key_of(turn)',
            ),
        ),
        (f"{REQUESTS}test_a_second_start_is_none",),
    ),
    Guard(
        Race.PAUSE_WITHOUT_EXECUTION,
        "the fence distinguishes a start from an equal one that runs",
        (ours("adapters/aws/step_functions.py", '            "fence": lock.fence,\n'),),
        (f"{REQUESTS}test_a_later_run_is_not_taken_for_the_first",),
    ),
)
TOKENS = (
    Guard(
        Race.RESUME_BEFORE_TOKEN,
        "the machine's condition: the turn still waits",
        (of_the_machine('"#status = :awaiting_input"', '"#status = :awaiting_input OR attribute_exists(#status)"'),),
        (TOKEN_TOO_LATE,),
    ),
    Guard(
        Race.RESUME_BEFORE_TOKEN,
        "the machine's condition: the turn is there",
        (
            of_the_machine(
                '"#status = :awaiting_input"', '"#status = :awaiting_input OR attribute_not_exists(#status)"'
            ),
            of_the_machine('"SET #token = :token, #rev = #rev + :one"', '"SET #token = :token, #rev = :one"'),
        ),
        (f"{MACHINE}test_a_turn_that_is_gone_gets_no_record_from_its_token",),
    ),
    Guard(
        Race.RESUME_BEFORE_TOKEN,
        "the machine's update moves the revision: a resume that saw no token reads again",
        (of_the_machine('":one": {"N": "1"}', '":one": {"N": "0"}'),),
        (f"{MACHINE}test_storing_the_token_moves_the_revision_and_leaves_all_else_alone",),
    ),
    Guard(
        Race.RESUME_BEFORE_TOKEN,
        "a resume that met the token's update reads again",
        (
            ours(
                "services/turns/turns.py",
                'return retried(act_on_both, "the session changes too fast, try again", TRIES_OF_TURNS)',
                "return act()",
            ),
        ),
        (f"{FOLLOWING}test_a_token_stored_between_read_and_write_is_found_by_a_second_try",),
    ),
    Guard(
        Race.RESUME_BEFORE_TOKEN,
        "a machine whose token comes too late looks at the turn",
        (of_the_machine('      "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": null, "Next": "Attend"}],\n'),),
        (TOKEN_TOO_LATE,),
    ),
    Guard(
        Race.RESUME_BEFORE_TOKEN,
        "a condition that failed is not tried again",
        (of_the_machine('        {"ErrorEquals": ["DynamoDb.ConditionalCheckFailedException"], "MaxAttempts": 0},\n'),),
        (TOKEN_TOO_LATE,),
    ),
    Guard(
        Race.LATE_TOKEN,
        "a token goes with its pause",
        (
            ours(
                "store/sessions/turn_records.py",
                'attributes: dict[str, Scalar] = {"status": state.status.value}',
                'attributes: dict[str, Scalar] = {"status": state.status.value, **({TOKEN: state.token} if '
                "state.token else {})}",
            ),
        ),
        (f"{FOLLOWING}test_a_turn_that_waits_again_waits_under_a_token_of_its_own",),
    ),
    Guard(
        Race.LATE_TOKEN,
        "an unused token is no failure",
        (
            ours(
                "adapters/aws/step_functions.py",
                'NO_WAITER = {"TaskTimedOut", "TaskDoesNotExist", "InvalidToken"}',
                "NO_WAITER = set[str]()",
            ),
        ),
        (
            f"{REQUESTS}test_an_expired_token_is_no_failure",
            f"{SUPERVISED}test_a_token_of_an_older_pause_sent_again_has_no_effect",
        ),
    ),
    Guard(
        Race.LATE_TOKEN,
        "a machine that can't be woken is no failure of the resume",
        (
            ours(
                "services/turns/supervision.py",
                '        log.warning("a supervisor was not woken: %s", unavailable)\n',
                "        raise\n",
            ),
        ),
        (f"{FOLLOWING}test_a_failing_wake_up_is_no_failure_of_the_request",),
    ),
    Guard(
        Race.LATE_TOKEN,
        "the machine attends by itself when the client's time is over, whoever was not woken",
        (of_the_machine('      "TimeoutSecondsPath": "$.seconds",\n'),),
        (f"{MACHINE}test_a_turn_whose_client_stays_away_is_reconciled_when_its_time_is_over",),
    ),
)
SUPERVISIONS = (*NOT_STARTED, *TOKENS)
