"""Approvals of calls: which calls a request decides about, and the calls that its turn runs first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.messages.messages import Message, ToolResponseMessage
from turnstone.domain.responses.addresses import approval_id
from turnstone.domain.responses.requests import Approval, SentRequest, denial
from turnstone.domain.tools.inline_toolgroups import INLINE, server_label

if TYPE_CHECKING:
    from turnstone.domain.refs import TurnRef
    from turnstone.domain.tools.tool_runs import ToolOffer
    from turnstone.domain.tools.tools import ToolCall
    from turnstone.domain.turns.turns import TurnState


class PreviousResponse(NamedTuple):
    """The response to continue, which may wait for approvals.

    Attributes:
        turn: returns the state of its turn, which few requests need.
    """

    ref: TurnRef
    turn: Callable[[], TurnState]
    sent: SentRequest

    @property
    def client_calls(self) -> tuple[str, ...]:
        """The ids of the calls that it leaves for its client to run."""
        calls = self.turn().turn.output_message.tool_calls
        return tuple(call.call_id for call in calls if not self._waits(call))

    def waiting(self) -> dict[str, tuple[ToolCall, str]]:
        """Return the calls that wait for an approval, with their toolgroups, by the ids of their requests."""
        state = self.turn()
        return {
            approval_id(state.order, call.call_id): (call, self.sent.hosted[call.tool_name].group)
            for call in state.turn.output_message.tool_calls
            if self._waits(call)
        }

    def _waits(self, call: ToolCall) -> bool:
        tool = self.sent.hosted.get(call.tool_name)
        return tool is not None and tool.needs_approval


class Decided(NamedTuple):
    """A request's decisions about calls.

    Attributes:
        calls: the approved calls.
        groups: their toolgroups, by the calls' ids.
        requests: the ids of the requests that were approved, likewise.
        noted: the ids of the approved requests of the response to continue; others are in the input itself.
        denials: the answers to the others, for the model.
    """

    calls: tuple[ToolCall, ...] = ()
    groups: dict[str, str] = {}
    requests: dict[str, str] = {}
    noted: tuple[str, ...] = ()
    denials: tuple[Message, ...] = ()

    def refuse_missing(self, offer: ToolOffer) -> None:
        """Raise InvalidRequest unless the offer has the tool of each approved call."""
        for call in self.calls:
            tool, group = offer.server.get(call.tool_name), self.groups[call.call_id]
            if tool is None or tool.toolgroup != group:
                named = f"the tool {call.tool_name!r} of the MCP server {server_label(group)!r}"
                raise InvalidRequest(f"tools: an approval is for {named}; send that server's tool again", ("tools",))


def used_already(approval: Approval) -> InvalidRequest:
    """Return the refusal of an approval whose call another response runs."""
    message = f"the approval {approval.request_id!r} is used already; continue the response that ran its call"
    return InvalidRequest(f"approval_request_id: {message}", ("input", approval.position, "approval_request_id"))


def decided(approvals: Sequence[Approval], continued: PreviousResponse | None, of: str) -> Decided:
    """Return the decisions. Raises InvalidRequest for an approval that no call waits for; `of` names that response."""
    if not approvals:
        return Decided()
    waiting = {} if continued is None else continued.waiting()
    found: dict[str, tuple[Approval, ToolCall, str]] = {}
    for approval in approvals:
        location = ("input", approval.position, "approval_request_id")
        if approval.request_id in found:
            raise InvalidRequest("approval_request_id: this request is decided twice; send one decision", location)
        if approval.call is not None:
            found[approval.request_id] = approval, approval.call, INLINE + approval.label
        elif continued is not None and approval.request_id in continued.sent.approved:
            raise used_already(approval)
        elif approval.request_id in waiting:
            found[approval.request_id] = approval, *waiting[approval.request_id]
        else:
            message = f"no call of {of} waits for the approval {approval.request_id!r}"
            raise InvalidRequest(f"approval_request_id: {message}", location)
    approved = {key: (call, group) for key, (approval, call, group) in found.items() if approval.approves}
    return Decided(
        calls=tuple(call for call, _ in approved.values()),
        groups={call.call_id: group for call, group in approved.values()},
        requests={call.call_id: key for key, (call, _) in approved.items()},
        noted=tuple(key for key in approved if key in waiting and found[key][0].call is None),
        denials=tuple(
            ToolResponseMessage(call_id=call.call_id, content=denial(approval.reason))
            for approval, call, _ in found.values()
            if not approval.approves
        ),
    )
