"""Running the calls that are ours to answer: one step each, stored before it is told."""

from collections.abc import Generator
from typing import Any, assert_never

from turnstone.domain.content import Content
from turnstone.domain.errors import ToolFailed
from turnstone.domain.events import StepProgressed, StepStarted, ToolCallDelta, TurnEvent, step_completed
from turnstone.domain.tools import ToolResponse
from turnstone.domain.turns import ToolExecutionStep, TurnState
from turnstone.engine.steps import EngineDeps, RunAgain
from turnstone.engine.tool_plan import AnswerAtOnce, RunOnServer, ToolPlan
from turnstone.ports import ToolInvocation


def run_tools(plan: ToolPlan, state: TurnState, deps: EngineDeps) -> Generator[TurnEvent, None, RunAgain]:
    """Answer the calls on our side, in the order called. A tool that fails is an answer, not an end."""
    for planned in plan.ours:
        step_id = deps.ids.new_id()
        started_at = deps.clock.now()
        yield StepStarted(step_type="tool_execution", step_id=step_id)
        delta = ToolCallDelta(tool_call=planned.call, parse_status="in_progress")
        yield StepProgressed(step_type="tool_execution", step_id=step_id, delta=delta)
        content, metadata = _answer(planned, state, deps)
        response = ToolResponse(
            call_id=planned.call.call_id, tool_name=planned.call.tool_name, content=content, metadata=metadata
        )
        step = ToolExecutionStep(
            turn_id=state.turn_id,
            step_id=step_id,
            started_at=started_at,
            completed_at=deps.clock.now(),
            tool_calls=(planned.call,),
            tool_responses=(response,),
        )
        state = state.with_step(step)
        deps.recorder.save_step(state)
        yield step_completed(step)
    return RunAgain(state)


def _answer(
    planned: RunOnServer | AnswerAtOnce, state: TurnState, deps: EngineDeps
) -> tuple[Content, dict[str, Any] | None]:
    match planned:
        case AnswerAtOnce():
            return planned.answer, {"error": True}
        case RunOnServer():
            return _invoke(planned, state, deps)
        case _:
            assert_never(planned)


def _invoke(planned: RunOnServer, state: TurnState, deps: EngineDeps) -> tuple[Content, dict[str, Any] | None]:
    invocation = ToolInvocation(
        call=planned.call,
        arguments=planned.arguments,
        idempotency_key=f"{state.turn_id}:{state.inference_count}:{planned.call.call_id}",
        session_id=state.turn.session_id,
    )
    try:
        result = deps.tools.invoke(invocation)
    except ToolFailed as failure:
        return str(failure), {"error": True}
    return result.content, None if result.metadata is None else dict(result.metadata)
