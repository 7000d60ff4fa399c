"""Guards of the rules of a turn's loop, and of what a turn keeps for other processes."""

from tests.guards.guard import Guard, ours
from tests.guards.races import Race

SETTINGS = "tests/integration/turns/test_turn_settings.py::"
POLICIES = "tests/unit/turns/loop/test_loop_policies.py::"
PAIRS = "tests/unit/sessions/test_call_pairs.py::"

POLICING = (
    Guard(
        Race.NO_RACE,
        "a snapshot of the configuration: a resume and a takeover run with it",
        (ours("domain/turns/turn_settings.py", "if self.config is None else self.config"),),
        (
            f"{SETTINGS}test_a_turn_with_a_snapshot_is_resumed_with_it_after_its_agent_changed",
            f"{SETTINGS}test_a_takeover_continues_with_snapshot_and_policy",
        ),
    ),
    Guard(
        Race.CRASH_BEFORE_EVENT,
        "a heartbeat is stored with its step",
        (ours("engine/tools.py", '{"heartbeat": True}', "{}"),),
        (
            f"{POLICIES}test_a_heartbeat_survives_a_takeover",
            f"{SETTINGS}test_a_takeover_continues_with_snapshot_and_policy",
        ),
    ),
    Guard(
        Race.NO_RACE,
        "the history: answers are paired with their calls when it is read",
        (
            ours(
                "engine/prompt.py",
                "*paired((*history, *current_messages(state)))",
                "*history, *current_messages(state)",
            ),
        ),
        (
            f"{SETTINGS}test_a_chain_of_turns_that_end_at_client_calls_is_one_conversation_for_the_model",
            f"{POLICIES}test_the_next_turn_begins_with_the_answers_in_any_order_and_the_rest_is_answered",
        ),
    ),
    Guard(
        Race.NO_RACE,
        "a budget: a turn stays with the one that it continues",
        (ours("domain/sessions/context.py", "        if entries[index].continues and index:", "        if False:"),),
        (f"{PAIRS}test_a_budget_never_separates_a_turn_from_the_one_it_continues",),
    ),
    Guard(
        Race.NO_RACE,
        "a summary: no turn is dropped whose calls a later one answers",
        (
            ours(
                "domain/sessions/context.py",
                "    while 0 < index < len(entries) and entries[index].continues:\n        index -= 1\n",
            ),
        ),
        (f"{PAIRS}test_a_budget_never_separates_a_turn_from_the_one_it_continues",),
    ),
    Guard(
        Race.NO_RACE,
        "a tool that needs approval runs only if the turn carries its call",
        (ours("engine/tool_plan.py", ".needs_approval and call not in approved", ".needs_approval and False"),),
        (f"{POLICIES}test_a_call_that_needs_approval_ends_the_turn_and_runs_only_when_carried",),
    ),
    Guard(
        Race.NO_RACE,
        "a tool that rules exclude is not run, even if the model calls it",
        (ours("engine/tool_plan.py", "elif allowed is not None and call.tool_name not in allowed:", "elif False:"),),
        (f"{POLICIES}test_the_first_call_and_the_child_by_answer_are_enforced",),
    ),
    Guard(
        Race.NO_RACE,
        "a loop that continues after failed calls ends at its most steps",
        (ours("engine/turn.py", "is_continued = not is_last and any(", "is_continued = any("),),
        (f"{POLICIES}test_a_tool_that_always_fails_ends_at_the_most_steps_with_all_usage",),
    ),
)
