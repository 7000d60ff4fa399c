"""Running the calls that are ours to answer: one step each, stored before it is told."""

from collections.abc import Generator
from typing import assert_never

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from turnstone.domain.errors import ToolFailed
from turnstone.domain.events import StepProgressed, StepStarted, ToolCallDelta, TurnEvent, step_completed
from turnstone.domain.tools import ToolCall, ToolResponse
from turnstone.domain.turns import StepTrace, ToolExecutionStep, TurnState
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
        response = _response(planned, state, deps)
        step = ToolExecutionStep(
            turn_id=state.turn_id,
            step_id=step_id,
            started_at=started_at,
            completed_at=deps.clock.now(),
            tool_calls=(planned.call,),
            tool_responses=(response,),
        )
        state = state.with_step(step, StepTrace(deltas=1))
        deps.recorder.save_step(state)
        yield step_completed(step)
    return RunAgain(state)


def _response(planned: RunOnServer | AnswerAtOnce, state: TurnState, deps: EngineDeps) -> ToolResponse:
    match planned:
        case AnswerAtOnce():
            return _failed(planned.call, planned.answer)
        case RunOnServer():
            return _invoked(planned, state, deps)
        case _:
            assert_never(planned)


def _invoked(planned: RunOnServer, state: TurnState, deps: EngineDeps) -> ToolResponse:
    call = planned.call
    invocation = ToolInvocation(
        call=call,
        arguments=planned.arguments,
        idempotency_key=f"{state.turn_id}:{state.inference_count}:{call.call_id}",
        session_id=state.turn.session_id,
    )
    try:
        result = deps.tools.invoke(invocation)
        metadata = None if result.metadata is None else dict(result.metadata)
        response = ToolResponse(
            call_id=call.call_id, tool_name=call.tool_name, content=result.content, metadata=metadata
        )
        response.model_dump_json()
    except ToolFailed as failure:
        return _failed(call, str(failure))
    except (ValidationError, PydanticSerializationError):
        return _failed(call, "The tool ran, but its answer is no text or JSON that can be kept.")
    return response


def _failed(call: ToolCall, answer: str) -> ToolResponse:
    return ToolResponse(call_id=call.call_id, tool_name=call.tool_name, content=answer, metadata={"error": True})
