"""Run the tools of one turn: all calls of an inference in parallel, each within its time limit."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple

from turnstone.domain.access.access import Ownership
from turnstone.domain.errors import InvalidRequest, ToolFailed, ToolgroupUnavailable
from turnstone.domain.memory.lent_banks import NO_BANKS, LentBanks
from turnstone.domain.refs import SessionRef
from turnstone.domain.tools.inline_toolgroups import InlineToolgroup
from turnstone.domain.tools.tool_runs import OfferedTool, ProducedFile, ServerCall, ToolInvocation, ToolResult
from turnstone.domain.tools.tool_schemas import input_schema_of
from turnstone.domain.tools.tools import ToolCall, ToolResponse
from turnstone.domain.turns.turns import Attachment
from turnstone.domain.values.cancellation import StopSignal
from turnstone.domain.values.content import text_of
from turnstone.domain.values.object_schemas import names_in
from turnstone.services.threads.daemon_threads import DaemonThreads
from turnstone.services.threads.pending import Pending, Unanswered, awaiting
from turnstone.services.tools.tenant_tools import TenantTools
from turnstone.services.tools.tool_answers import ToolAnswers

log = logging.getLogger(__name__)


class ToolCaller(NamedTuple):
    """A turn that calls tools.

    Attributes:
        chain: the agents whose calls led to it, as in `TurnSettings`.
        banks: the memory banks that it may read.
        own_toolgroups: those of its own request.
        named_by: the owner and access list of its request, as in `TurnSettings`.
    """

    chain: tuple[str, ...] = ()
    banks: LentBanks = NO_BANKS
    own_toolgroups: tuple[InlineToolgroup, ...] = ()
    named_by: Ownership | None = None


class SessionTools:
    """The engine's way to the server's tools."""

    def __init__(
        self,
        tools: TenantTools,
        ref: SessionRef,
        answers: ToolAnswers,
        threads: DaemonThreads,
        timeout_s: float,
        turn: ToolCaller,
    ) -> None:
        """Run tools in the threads, each for `timeout_s` seconds at most."""
        self.of_tenant = tools
        self._ref = ref
        self._turn = turn
        self._answers = answers
        self.max_characters = answers.max_characters
        self._threads, self._timeout_s = threads, timeout_s

    def run(self, calls: Sequence[ServerCall], stop: StopSignal) -> Generator[ToolResult, None, None]:
        """Yield the answer to each call, in this order, while all of them run in parallel."""
        pending = [self._begun(planned) for planned in calls]
        with awaiting(pending, stop):
            for planned, one in zip(calls, pending, strict=True):
                yield self._result(planned, one)

    def keep(
        self, planned: ServerCall, response: ToolResponse, files: Sequence[ProducedFile]
    ) -> tuple[ToolResponse, tuple[Attachment, ...]]:
        """Store the files of an answer, and a too long answer itself; return the stored form for the turn."""
        return self._answers.keep(self._ref, planned.idempotency_key, response, files)

    def query_by(self, name: str, values: Mapping[str, Any], key: str, stop: StopSignal | None) -> str:
        """Return the text of the answer of the tool `group/tool`, called with those of the values that it takes.

        Raises Unsupported without such a tool, and ToolgroupUnavailable for one that gave no answer.
        """
        group, (tool,) = self.of_tenant.chosen(name)
        taken = names_in(input_schema_of(tool))
        fixed = dict(group.args or {})
        offered = OfferedTool(tool, fixed, group.identifier, tool.name)
        arguments = {**{key: value for key, value in values.items() if key in taken}, **fixed}
        call = ToolCall(call_id=key, tool_name=tool.name, arguments=arguments)
        (result,) = self.run([ServerCall(call, offered, arguments, key)], stop or StopSignal())
        if (result.metadata or {}).get("error"):
            raise ToolgroupUnavailable(group.identifier, f"{name!r} made no query: {text_of(result.content)}")
        return text_of(result.content)

    def _begun(self, planned: ServerCall) -> Pending[ToolResult]:
        awaited: Pending[ToolResult] = Pending()
        try:
            box = self.of_tenant.box(planned.tool)
        except InvalidRequest as wrong:
            awaited.fail(ToolFailed(str(wrong)))
            return awaited
        call, runs_as = planned.call, planned.tool.runs_as
        invocation = ToolInvocation(
            call=call if runs_as is None else call.model_copy(update={"tool_name": runs_as}),
            arguments=with_session(planned.arguments, planned.tool, self._ref.session_id),
            idempotency_key=planned.idempotency_key,
            ref=self._ref,
            asker=self.of_tenant.asker_of(planned.tool.toolgroup),
            timeout_s=self._timeout_s,
            options=planned.tool.options,
            stop=awaited.stop,
            chain=self._turn.chain,
            fixed_arguments=planned.tool.fixed_arguments,
            banks=self._turn.banks,
            position=planned.position,
            named_by=self._turn.named_by,
        )
        if planned.tool.is_pure:
            awaited.run(lambda: box.invoke(invocation))
        else:
            awaited.begin(self._threads, lambda: box.invoke(invocation), self._ref.tenant)
        return awaited

    def _result(self, planned: ServerCall, one: Pending[ToolResult]) -> ToolResult:
        try:
            return one.answer(self._timeout_s)
        except ToolFailed as failed:
            return ToolResult(str(failed), {"error": True})
        except Unanswered as why:
            log.warning("tool %r of %r gave no answer: %s", planned.tool.runs_as, planned.tool.toolgroup, why)
            message = (
                f"This tool gave no answer within {self._timeout_s:g} s; it may have done its work, or part of it."
            )
            return ToolResult(message, {"error": True, "timed_out": True})


def with_session(arguments: Mapping[str, Any], tool: OfferedTool, session_id: str) -> Mapping[str, Any]:
    """Return the arguments with the session's id, where the tool takes one.

    Source: the Llama Stack contract; tools that take none would refuse it.
    """
    if "session_id" not in names_in(input_schema_of(tool.definition)):
        return arguments
    return {**arguments, "session_id": session_id}
