"""Policies of the agent loop: when a turn ends, pauses or continues, and whether its model must call a tool.

A policy is a value in the turn's state, so that every process continues the turn by the same rules.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import Field

from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.tools.tool_rules import ToolRule, has_children, is_terminal
from turnstone.domain.tools.tools import ToolCall, ToolResponse
from turnstone.domain.values.frozen import Frozen

CONTINUED = UserMessage(
    content="[Automated message, not from the user: another inference follows, because a tool call or a rule requested "
    "it.]"
)
FAILED = UserMessage(
    content="[Automated message, not from the user: the tool call failed. Correct it, or continue without it.]"
)
NEARLY_FULL = UserMessage(
    content="[Automated message, not from the user: the conversation has nearly filled the context window. Store what "
    "must be remembered, because the oldest messages will be dropped soon.]"
)


class LoopPolicy(Frozen):
    """The rules of a turn's loop. The defaults are those of the Llama Stack Agents API.

    Attributes:
        at_client_calls: whether calls for the client pause the turn, or end it: then the next turn has their answers.
        calls_per_inference: the number of calls of an inference that count; later ones are dropped.
        must_call: whether each inference must call a tool, as far as the model obeys.
        ends_after: `answer`: the turn ends with an answer without calls. `call`: it also ends after a call, unless
            the call failed, requested another inference or has children by a rule.
        max_steps: inferences of a turn at most, in place of the configuration's; the server's limit holds.
        heartbeat_argument: the argument by which a call requests another inference.
        loop_arguments: other arguments for the loop; like the heartbeat's, the tool does not receive them.
        answer_tool: the tool whose calls are the turn's answers to the user.
        answer_argument: the argument of that tool that is the answer's text.
        alerts_at: the share of the context window above which the model gets an alert, once; the turns that no longer
            fit are then summarized, whatever the server's setting.
        max_output_tokens: tokens of all answers of the model together; the turn ends once they are spent.
        max_tool_calls: calls of the server's tools that are run; later ones get an answer that names the limit.
    """

    at_client_calls: Literal["pause", "end"] = "pause"
    calls_per_inference: int | None = Field(default=None, ge=1)
    must_call: bool = False
    ends_after: Literal["answer", "call"] = "answer"
    max_steps: int | None = Field(default=None, ge=1)
    tool_rules: tuple[ToolRule, ...] = ()
    heartbeat_argument: str | None = None
    loop_arguments: tuple[str, ...] = ()
    answer_tool: str | None = None
    answer_argument: str = "message"
    alerts_at: float | None = None
    max_output_tokens: int | None = Field(default=None, ge=1)
    max_tool_calls: int | None = Field(default=None, ge=0)

    @property
    def summarizes(self) -> bool:
        """Whether the oldest turns are summarized instead of dropped."""
        return self.alerts_at is not None

    def continues_after(self, call: ToolCall, response: ToolResponse) -> bool:
        """Return whether a loop that ends after calls continues after this one."""
        if self.ends_after != "call":
            return False
        if is_failed(response) or has_children(self.tool_rules, call.tool_name):
            return True
        return self.requests_heartbeat(call) and not is_terminal(self.tool_rules, call.tool_name)

    def continues_after_any(self, calls: Iterable[ToolCall], responses: Iterable[ToolResponse]) -> bool:
        """Return whether the loop continues after one of these calls; the responses are in their order."""
        return any(self.continues_after(call, response) for call, response in zip(calls, responses, strict=False))

    def requests_heartbeat(self, call: ToolCall) -> bool:
        """Return whether the call requests another inference; models also write true as a text."""
        if self.heartbeat_argument is None or isinstance(call.arguments, str):
            return False
        value = call.arguments.get(self.heartbeat_argument)
        return value is True or (isinstance(value, str) and value.strip().lower() == "true")

    def for_tool(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments without those that are for the loop."""
        dropped = {self.heartbeat_argument, *self.loop_arguments}
        return arguments if dropped.isdisjoint(arguments) else {n: v for n, v in arguments.items() if n not in dropped}

    def counted(self, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
        """Return the calls of an inference that count."""
        return calls if self.calls_per_inference is None else calls[: self.calls_per_inference]

    def answer_in(self, call: ToolCall) -> str | None:
        """Return the answer to the user that the call is, None for a call of another tool."""
        if call.tool_name != self.answer_tool or isinstance(call.arguments, str):
            return None
        text = call.arguments.get(self.answer_argument)
        return text if isinstance(text, str) else None


def is_failed(response: ToolResponse) -> bool:
    """Return whether the tool's answer reports a failure."""
    return bool((response.metadata or {}).get("error"))


AGENTS = LoopPolicy.model_construct()
RESPONSES = LoopPolicy.model_construct(at_client_calls="end")
LETTA = LoopPolicy.model_construct(
    calls_per_inference=1,
    must_call=True,
    ends_after="call",
    max_steps=50,
    heartbeat_argument="request_heartbeat",
    loop_arguments=("inner_thoughts",),
    answer_tool="send_message",
    alerts_at=0.75,
)
