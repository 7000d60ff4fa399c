"""Toolgroup `letta::custom`: the tools of Python of a tenant, and runs of their functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnstone.domain.errors import NotFound, ToolFailed
from turnstone.domain.letta.python_runs import OFF, PythonCall, PythonOutcome, SourceResult, SourceRun
from turnstone.domain.letta.python_source import with_types
from turnstone.domain.letta.tools import values_of

if TYPE_CHECKING:
    from turnstone.domain.access.caller import Caller
    from turnstone.domain.letta.tools import CustomTool
    from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation, ToolResult
    from turnstone.domain.tools.tools import ToolDef
    from turnstone.domain.values.cancellation import StopSignal
    from turnstone.ports.system import Clock
    from turnstone.ports.tools import PythonRunner
    from turnstone.services.threads.executor import TurnExecutor
    from turnstone.store.agents.blocks import BlockStore
    from turnstone.store.letta.agents import LettaAgentStore
    from turnstone.store.letta.tools import ToolStore


@dataclass(frozen=True, slots=True)
class PythonToolDeps:
    """Dependencies of runs. `runner` returns None where tools of Python are off."""

    tools: ToolStore
    agents: LettaAgentStore
    blocks: BlockStore
    runner: Callable[[], PythonRunner | None]
    executor: TurnExecutor
    clock: Clock
    timeout_s: float


class PythonTools:
    def __init__(self, deps: PythonToolDeps) -> None:
        self._deps = deps

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:  # noqa: ARG002 - an agent names each tool
        """Return no tool: the group as a whole offers none."""
        return ()

    def named(self, tenant: str, tool_ids: Sequence[str]) -> Mapping[str, ToolDef]:
        """Return those of the tools that exist, by their ids, by one request."""
        return {each.tool.tool_id: each.tool.definition for each in self._deps.tools.gather(tenant, tool_ids)}

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        """Run the function with the environment variables of the agent of the turn. Raises ToolFailed."""
        tenant, ref = invocation.asker.tenant, invocation.ref
        if ref is None:
            raise ToolFailed("Outside a session there is no agent whose tool could be run.")
        try:
            tool = self._deps.tools.get(tenant, invocation.call.tool_name).tool
            stored, fields = self._deps.agents.read(tenant, ref.agent_id)
        except NotFound as missing:
            raise ToolFailed(str(missing)) from missing
        runner = self._deps.runner()
        if runner is None:
            raise ToolFailed(OFF)
        state = None
        if tool.takes_agent_state:
            config = stored.agent.agent_config
            blocks = self._deps.blocks.gather(tenant, config.memory_blocks)
            shown = [each.block.model_dump(include={"label", "value", "limit"}) for each in blocks]
            state = {
                "id": f"agent-{ref.agent_id}",
                "name": config.name,
                "system": config.instructions,
                "description": fields.description,
                "tags": list(fields.tags),
                "metadata_": fields.metadata,
                "memory": {"blocks": shown},
            }
        call = _call(tool, invocation.arguments, values_of(fields.environment), state)
        return runner.run(call, tenant, invocation.timeout_s, invocation.stop).result

    def run_source(self, caller: Caller, run: SourceRun, stop: StopSignal | None) -> SourceResult:
        """Return the result of a function that is not stored; where tools of Python are off, an error with the reason.

        Raises Overloaded.
        """
        runner = self._deps.runner()
        if runner is None:
            return SourceResult(PythonOutcome(OFF, len(OFF), is_error=True), self._deps.clock.now())
        state: dict[str, Any] | None = {"memory": {"blocks": []}} if run.tool.takes_agent_state else None
        call = _call(run.tool, run.arguments, run.environment, state)
        with self._deps.executor.permit(caller.tenant):
            try:
                outcome = runner.run(call, caller.tenant, self._deps.timeout_s, stop)
            except ToolFailed as failed:
                outcome = PythonOutcome(str(failed), len(str(failed)), is_error=True)
        return SourceResult(outcome, self._deps.clock.now())


def _call(
    tool: CustomTool, arguments: Mapping[str, Any], environment: Mapping[str, str], state: Mapping[str, Any] | None
) -> PythonCall:
    return PythonCall(
        source=tool.source_code,
        name=tool.name,
        arguments=with_types(arguments, tool.parameters),
        environment=environment,
        agent_state=state,
        most_characters=tool.return_char_limit,
    )
