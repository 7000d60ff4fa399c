"""Run the server's calls of an inference: in parallel, one step each, stored before the completion is emitted.

The caller stores the last step, because one write does it together with the end of a turn.
"""

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import assert_never

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from turnstone.domain.tools.tool_runs import ProducedFile, ServerCall, ToolResult
from turnstone.domain.tools.tools import ToolCall, ToolResponse
from turnstone.domain.turns.events import StepProgressed, StepStarted, ToolCallDelta, TurnEvent
from turnstone.domain.turns.turns import StepTrace, ToolExecutionStep, TurnState
from turnstone.domain.values.moments import strictly_after
from turnstone.engine.shields import keep_newest
from turnstone.engine.steps import EngineDeps, NextStep, RunAgain, ToolsRan
from turnstone.engine.tool_plan import RefusedCall, ToolPlan
from turnstone.engine.tool_shields import has_stopped, judge_call, judged_answer, stopped_response


def run_tools(plan: ToolPlan, state: TurnState, deps: EngineDeps) -> Generator[TurnEvent, None, NextStep | ToolsRan]:
    """Answer the server's calls, with steps in the order called. A failed tool is an answer, not the end."""
    for planned in plan.ours:
        if isinstance(planned, ServerCall):
            following = yield from judge_call(planned, state, deps)
            if not isinstance(following, RunAgain):
                return following
            state = following.state
    calls = [planned for planned in plan.ours if isinstance(planned, ServerCall)]
    started_at, ended_at = state.next_moment(deps.clock.now()), state.last_moment
    with closing(deps.tools.run(calls, deps.stop)) as results:
        for index, planned in enumerate(plan.ours):
            if index:
                yield from keep_newest(state, deps)
            step_id = deps.ids.new_id()
            yield StepStarted(step_type="tool_execution", step_id=step_id)
            delta = ToolCallDelta(tool_call=planned.call, parse_status="in_progress")
            yield StepProgressed(step_type="tool_execution", step_id=step_id, delta=delta)
            response, trace = _answered(planned, results, state, deps)
            # without tools no call of another inference could succeed
            if deps.offer.definitions and state.policy.continues_after(planned.call, response):
                trace = trace.model_copy(update={"heartbeat": True})
            ended_at = strictly_after(deps.clock.now(), started_at, ended_at)
            step = ToolExecutionStep(
                turn_id=state.turn_id,
                step_id=step_id,
                started_at=started_at,
                completed_at=ended_at,
                tool_calls=(planned.call,),
                tool_responses=(response,),
            )
            started_at = strictly_after(started_at, started_at)
            state = state.with_step(step, trace)
    return ToolsRan(state)


def _answered(
    planned: ServerCall | RefusedCall, results: Iterator[ToolResult], state: TurnState, deps: EngineDeps
) -> tuple[ToolResponse, StepTrace]:
    """Return the answer as stored in the turn. Content stopped by shields is not stored."""
    match planned:
        case RefusedCall():
            return _failed(planned.call, planned.answer), StepTrace(deltas=1)
        case ServerCall():
            result = next(results)
            written = result.query if result.query is not None and result.query.usage is not None else None
            response, files = _response(planned.call, result)
            verdicts = judged_answer(planned, response, files, state, deps)
            if any(map(has_stopped, verdicts)):
                return stopped_response(response), StepTrace(deltas=1, verdicts=verdicts, query=written)
            response, attachments = deps.tools.keep(planned, response, files)
            return response, StepTrace(deltas=1, verdicts=verdicts, attachments=attachments, query=written)
        case _:
            assert_never(planned)


def _response(call: ToolCall, result: ToolResult) -> tuple[ToolResponse, tuple[ProducedFile, ...]]:
    metadata = None if result.metadata is None else dict(result.metadata)
    try:
        response = ToolResponse(
            call_id=call.call_id, tool_name=call.tool_name, content=result.content, metadata=metadata
        )
        response.model_dump_json()
    except (ValidationError, PydanticSerializationError):
        return _failed(call, "The tool ran, but its answer is no text or JSON that can be kept."), ()
    return response, result.files


def _failed(call: ToolCall, answer: str) -> ToolResponse:
    return ToolResponse(call_id=call.call_id, tool_name=call.tool_name, content=answer, metadata={"error": True})
