"""The one model double and the one double of server tools: they follow their scripts and keep their requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tests.fakes.models.openai_rules import refusal_of
from turnstone.adapters.models.openai.openai_wire import request_body
from turnstone.domain.agents.agents import ToolGroup, toolgroup_name
from turnstone.domain.errors import ModelFailed, ToolFailed, ToolgroupUnavailable, Unsupported
from turnstone.domain.messages.messages import CompletionMessage
from turnstone.domain.models.requests import Chunk, InferenceRequest, Inferred, ReasoningChunk, TextChunk
from turnstone.domain.models.routing import Target
from turnstone.domain.registry.registry import BUILTIN, Toolgroup
from turnstone.domain.tools.tool_runs import (
    OfferedTool,
    ProducedFile,
    ServerCall,
    ToolAsker,
    ToolInvocation,
    ToolResult,
)
from turnstone.domain.tools.tools import ToolCall, ToolDef, ToolResponse
from turnstone.domain.turns.turns import Attachment
from turnstone.domain.usage.usage import TokenUsage
from turnstone.domain.values.cancellation import StopSignal
from turnstone.domain.values.content import Content, Url
from turnstone.ports.models import Capability
from turnstone.ports.tools import PythonRunner

GATE_TIMEOUT_S = 10.0
USAGE = TokenUsage(prompt_tokens=10, completion_tokens=5, total_tokens=15)


@dataclass(frozen=True)
class ScriptedReply:
    """An answer in so many chunks, with calls after it.

    Attributes:
        error: raised after the chunks, in place of an end.
        gate: waited for before the first chunk.
        chunks: the chunks in place of those of `texts`, with pieces of the calls among them.
    """

    texts: tuple[str, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    is_cut_off: bool = False
    usage: TokenUsage | None = USAGE
    error: BaseException | None = None
    gate: threading.Event | None = None
    chunks: tuple[Chunk, ...] = ()


Reply = str | ToolCall | ScriptedReply | BaseException
Scripted = Reply | Callable[[InferenceRequest], Reply]


def call(tool_name: str, call_id: str, **arguments: Any) -> ToolCall:
    return ToolCall(call_id=call_id, tool_name=tool_name, arguments=arguments)


def calls(*tool_calls: ToolCall, text: str = "") -> ScriptedReply:
    return ScriptedReply(texts=(text,) if text else (), calls=tool_calls)


def words(count: int) -> ScriptedReply:
    return ScriptedReply(texts=tuple(f"word{number} " for number in range(count)))


def cut_off(text: str) -> ScriptedReply:
    return ScriptedReply(texts=(text,), is_cut_off=True)


class ScriptedInference:
    """Answers each request with the next reply of its script; `requests` are those it got.

    A strict one refuses, as real servers do, a history with a call that nothing answers.
    """

    def __init__(self, script: Iterable[Scripted], strict: bool = True) -> None:
        self._script = list(script)
        self._strict = strict
        self._lock = threading.Lock()
        self.requests: list[InferenceRequest] = []

    def stream(self, request: InferenceRequest) -> Iterator[Chunk | Inferred]:
        """Yield the next reply. Raises AssertionError when there is none."""
        with self._lock:
            self.requests.append(request)
            position = len(self.requests) - 1
        refusal = refusal_of(request_body(request, "vllm")) if self._strict else None
        if refusal is not None:
            raise ModelFailed(refusal)
        assert position < len(self._script), f"the model was asked {position + 1} times, scripted are {position}"
        yield from spoken(self._script[position], request)

    def models(self) -> tuple[str, ...]:
        return ("scripted",)

    def capabilities(self, targets: Sequence[Target] = ()) -> frozenset[Capability]:
        return frozenset(("grammar",))


def spoken(scripted: Scripted, request: InferenceRequest) -> Iterator[Chunk | Inferred]:
    reply = scripted_reply(scripted(request) if callable(scripted) else scripted)
    if reply.gate is not None:
        assert reply.gate.wait(GATE_TIMEOUT_S), "nobody opened the gate"
    chunks = reply.chunks or tuple(map(TextChunk, reply.texts))
    yield from chunks
    if reply.error is not None:
        raise reply.error
    stop_reason: Literal["out_of_tokens", "end_of_turn"] = "out_of_tokens" if reply.is_cut_off else "end_of_turn"
    text = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))
    reasoning = "".join(chunk.text for chunk in chunks if isinstance(chunk, ReasoningChunk))
    message = CompletionMessage(content=text, stop_reason=stop_reason, tool_calls=reply.calls)
    yield Inferred(message, reply.usage, reasoning=reasoning)


def scripted_reply(reply: Reply) -> ScriptedReply:
    match reply:
        case ScriptedReply():
            return reply
        case str():
            return ScriptedReply(texts=(reply,) if reply else ())
        case ToolCall():
            return ScriptedReply(calls=(reply,))
        case _:
            return ScriptedReply(error=reply)


ToolFunction = Callable[[Mapping[str, Any]], Content | ToolResult]


class ScriptedTools:
    """Runs the functions it was given, by group and name; `invocations` are its calls, `listings` the number of lists.

    The groups in `unlisted` can't list their tools.
    The engine runs its tools one after the other, and services make toolboxes of it.
    """

    max_characters = 1_000

    def __init__(self, groups: Mapping[str, Mapping[str, ToolFunction]]) -> None:
        self.offer(groups)
        self.invocations: list[ToolInvocation] = []
        self.listings = 0
        self.unlisted: tuple[str, ...] = ()
        self.runner: PythonRunner | None = None

    def offer(self, groups: Mapping[str, Mapping[str, ToolFunction]]) -> None:
        """Replace the groups."""
        self._groups = groups
        self._functions = {name: function for tools in groups.values() for name, function in tools.items()}

    def builtin(self) -> tuple[str, ...]:
        return tuple(self._groups)

    def build(self, group: Toolgroup) -> ScriptedToolbox:
        if group.provider_id == BUILTIN and group.identifier not in self._groups:
            raise Unsupported(f"nobody wrote the tools of {group.identifier!r}", ("toolgroups",))
        return ScriptedToolbox(self, tuple(self._groups.get(group.identifier, ())), group.identifier)

    def offered_as(self, group_id: str, name: str) -> str:
        return name

    def remote(self) -> ScriptedToolbox:
        return ScriptedToolbox(self, ())

    def python(self) -> PythonRunner | None:
        return self.runner

    def offered(self, toolgroups: Sequence[ToolGroup]) -> tuple[OfferedTool, ...]:
        offered: dict[str, OfferedTool] = {}
        for toolgroup in toolgroups:
            group, _, only = toolgroup_name(toolgroup).partition("/")
            names = [name for name in self._groups.get(group, ()) if only in ("", name)]
            if not names:
                raise Unsupported(f"unknown toolgroup {toolgroup_name(toolgroup)!r}", ("toolgroups",))
            fixed = {} if isinstance(toolgroup, str) else toolgroup.args
            offered |= {name: OfferedTool(defined(name), fixed, group, runs_as=name) for name in names}
        return tuple(offered.values())

    def run(self, calls: Sequence[ServerCall], stop: StopSignal) -> Generator[ToolResult, None, None]:
        for planned in calls:
            asker = ToolAsker("local")
            invocation = ToolInvocation(
                planned.call, planned.arguments, planned.idempotency_key, None, asker, timeout_s=1, stop=stop
            )
            try:
                yield self.invoke(invocation)
            except ToolFailed as failed:
                yield ToolResult(str(failed), {"error": True})

    def keep(
        self, planned: ServerCall, response: ToolResponse, files: Sequence[ProducedFile]
    ) -> tuple[ToolResponse, tuple[Attachment, ...]]:
        return response, tuple(Attachment(content=Url(uri=file.name), mime_type=file.mime_type) for file in files)

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        self.invocations.append(invocation)
        function = self._functions.get(invocation.call.tool_name)
        if function is None:
            raise ToolFailed(f"there is no tool {invocation.call.tool_name!r} here")
        result = function(invocation.arguments)
        return result if isinstance(result, ToolResult) else ToolResult(result)


@dataclass(frozen=True)
class ScriptedToolbox:
    runs: ScriptedTools
    names: tuple[str, ...]
    group: str = ""

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:
        self.runs.listings += 1
        if self.group in self.runs.unlisted:
            raise ToolgroupUnavailable(self.group, "its server can't be reached")
        return tuple(map(defined, self.names))

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        return self.runs.invoke(invocation)


def defined(name: str) -> ToolDef:
    return ToolDef(name=name, description=f"Run {name}.")
