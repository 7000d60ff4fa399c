"""Apply a turn's loop policy: the tools of its next inference, its alerts, and its output. Pure."""

from collections.abc import Iterable, Sequence

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.messages.messages import CompletionMessage, Message, StopReason
from turnstone.domain.tools.tool_rules import allowed_tools
from turnstone.domain.tools.tool_runs import ToolOffer
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.turns.loop_policies import NEARLY_FULL, LoopPolicy, is_failed
from turnstone.domain.turns.turns import InferenceStep, Step, ToolExecutionStep, TurnState
from turnstone.domain.usage.usage import TokenUsage
from turnstone.domain.values.content import text_of
from turnstone.engine.tool_plan import ToolPlan


def allowed_definitions(state: TurnState, offer: ToolOffer) -> tuple[ToolDef, ...]:
    """Return the tools of the next inference. Raises InvalidRequest if the turn's rules allow none of the offered."""
    if not state.policy.tool_rules:
        return offer.definitions
    allowed = allowed_names(state.turn.steps, state.policy, offer)
    if offer.definitions and not allowed:
        last_call, _ = _last_run(state.turn.steps)
        after = f"after {last_call!r} with its last answer" if last_call else "first"
        raise InvalidRequest(f"tool_rules: they allow none of the turn's tools {after}; change the rules or the tools")
    return tuple(tool for tool in offer.definitions if tool.name in allowed)


def allowed_when_called(state: TurnState, offer: ToolOffer) -> frozenset[str] | None:
    """Return the tools that the last inference could call, None for all before the first one."""
    steps = state.turn.steps
    inferred = [index for index, step in enumerate(steps) if isinstance(step, InferenceStep)]
    return allowed_names(steps[: inferred[-1]], state.policy, offer) if inferred else None


def allowed_names(steps: Sequence[Step], policy: LoopPolicy, offer: ToolOffer) -> frozenset[str]:
    """Return the names of the tools that an inference after these steps may call."""
    last_call, last_answer = _last_run(steps)
    return allowed_tools(policy.tool_rules, (tool.name for tool in offer.definitions), last_call, last_answer)


def _last_run(steps: Sequence[Step]) -> tuple[str | None, str]:
    """Return the last tool that ran without failure, and the text of its answer: a failed call changes no rule."""
    for step in reversed(steps):
        if isinstance(step, ToolExecutionStep):
            for call, response in reversed(list(zip(step.tool_calls, step.tool_responses, strict=False))):
                if not is_failed(response):
                    return call.tool_name, text_of(response.content)
    return None, ""


def is_alert_due(state: TurnState, history: Iterable[Message], usage: TokenUsage, window_tokens: int | None) -> bool:
    """Return whether the model gets an alert that its context window is nearly full; once as long as it sees that."""
    share = state.policy.alerts_at
    if share is None or window_tokens is None or usage.total_tokens <= share * window_tokens:
        return False
    return not any(trace.has_alert for trace in state.traces) and NEARLY_FULL not in history


def counted_calls(state: TurnState, message: CompletionMessage) -> CompletionMessage:
    """Return the model's message with the calls that count."""
    counted = state.policy.counted(message.tool_calls)
    return message if counted == message.tool_calls else message.model_copy(update={"tool_calls": counted})


def output_tokens_left(state: TurnState) -> int | None:
    """Return the tokens that the model's next answer may have, None without a limit of the turn's policy."""
    most = state.policy.max_output_tokens
    if most is None:
        return None
    inferred = (
        trace for step, trace in zip(state.turn.steps, state.traces, strict=False) if step.step_type == "inference"
    )
    spent = sum(trace.usage.completion_tokens for trace in inferred if trace.usage is not None)
    return max(0, most - spent)


def runs_last_calls(state: TurnState, plan: ToolPlan) -> bool:
    """Return whether the calls of the last inference that the limit allows are run, or given to the client.

    Where only an answer ends a turn, its tools' answers would need another inference.
    """
    policy = state.policy
    return policy.ends_after == "call" or (policy.at_client_calls == "end" and bool(plan.client or plan.unapproved))


def output_of(state: TurnState, answer: CompletionMessage, stop_reason: StopReason) -> CompletionMessage:
    """Return the output of a turn that ends with this answer, or with the last call that was an answer to the user."""
    texts: list[str] = []
    for step in state.turn.steps:
        if isinstance(step, ToolExecutionStep):
            run = zip(step.tool_calls, step.tool_responses, strict=False)
            answers = (state.policy.answer_in(call) for call, response in run if not is_failed(response))
            texts += (text for text in answers if text is not None)
    content = texts[-1] if texts else answer.content
    return answer.model_copy(update={"content": content, "tool_calls": (), "stop_reason": stop_reason})
