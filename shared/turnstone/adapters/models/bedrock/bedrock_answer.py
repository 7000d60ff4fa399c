"""Assemble a model's answer from the events of a ConverseStream. Pure, no I/O."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from turnstone.adapters.models.bedrock.bedrock_names import Aliases
from turnstone.adapters.models.openai.openai_answer import counts_of
from turnstone.adapters.models.openai.partial_calls import PartialCall, PartialCalls
from turnstone.adapters.models.openai.wire_texts import mapping_of, mended
from turnstone.domain.errors import ModelFailed
from turnstone.domain.messages.messages import CompletionMessage
from turnstone.domain.models.requests import Inferred
from turnstone.domain.usage.usage import TokenUsage

CUT_OFF = frozenset({"max_tokens", "model_context_window_exceeded"})
WITHHELD = frozenset({"guardrail_intervened", "content_filtered"})
UNREADABLE = frozenset({"malformed_model_output", "malformed_tool_use"})
Event = Mapping[str, Any]


class ConverseAnswer:
    """Reads one answer, event by event; skips the provider's own tools, and signed or redacted reasoning.

    Attributes:
        reasoned: the reasoning in the last event, empty without any.
        calls: the calls so far, with their pieces.
        is_over: whether the answer is complete.
    """

    def __init__(
        self, tool_names: Aliases, taken_call_ids: Callable[[], frozenset[str]] = frozenset, may_call: bool = True
    ) -> None:
        """Start an answer.

        Args:
            tool_names: the aliases of the tools' names.
            taken_call_ids: see `PartialCalls`.
            may_call: False to drop calls that the request does not permit.
        """
        self._may_call = may_call
        self._texts: list[str] = []
        self._reasoning: list[str] = []
        self.reasoned = ""
        self.calls = PartialCalls("Bedrock", taken_call_ids, tool_names.name_of)
        self._call_of_block: dict[int, PartialCall] = {}
        self._stop_reason: str | None = None
        self._usage: TokenUsage | None = None
        self._has_metadata = False

    @property
    def is_over(self) -> bool:
        return self._stop_reason is not None and self._has_metadata

    def read(self, event: Event) -> str:
        """Return the event's text, empty without any."""
        self.reasoned = ""
        if "contentBlockDelta" in event:
            return self._read_delta(event["contentBlockDelta"])
        if "contentBlockStart" in event:
            self._read_start(event["contentBlockStart"])
        elif "messageStop" in event:
            self._stop_reason = str(event["messageStop"].get("stopReason") or "end_turn")
        elif "metadata" in event:
            self._has_metadata = True
            self._usage = usage_from_wire(event["metadata"].get("usage"))
        return ""

    def inferred(self) -> Inferred:
        """Return the complete answer.

        Raises:
            ModelFailed: the answer is incomplete, unreadable or withheld, or holds only calls that are not permitted.
        """
        reason = self._stop_reason
        if reason is None:
            raise ModelFailed("the answer of Bedrock broke off before its end")
        if reason in UNREADABLE:
            raise ModelFailed(f"the model's answer can't be read ({reason})")
        text = "".join(self._texts)
        if reason in WITHHELD and not text:
            raise ModelFailed(f"the model's provider withheld the answer ({reason})")
        if self.calls and not self._may_call and not text:
            raise ModelFailed("the model only called tools, although it may call none here")
        has_calls = self._may_call and reason not in WITHHELD
        message = CompletionMessage(
            content=text,
            stop_reason="out_of_tokens" if reason in CUT_OFF else "end_of_turn",
            tool_calls=tuple(self.calls.finished(is_cut_off=reason in CUT_OFF)) if has_calls else (),
        )
        return Inferred(message, self._usage, reasoning="".join(self._reasoning))

    def _read_start(self, block: Mapping[str, Any]) -> None:
        use = mapping_of(mapping_of(block.get("start")).get("toolUse"))
        if use and use.get("type") != "server_tool_use":
            index = _index_of(block)
            call = PartialCall(index, str(use.get("toolUseId") or ""), str(use.get("name") or ""))
            if index in self._call_of_block:
                self.calls.replace(self._call_of_block[index], call)
            else:
                self.calls.add(call)
            self._call_of_block[index] = call

    def _read_delta(self, block: Mapping[str, Any]) -> str:
        delta = mapping_of(block.get("delta"))
        if "toolUse" in delta and (call := self._call_of_block.get(_index_of(block))) is not None:
            self._read_input(call, str(mapping_of(delta["toolUse"]).get("input") or ""))
        if "reasoningContent" in delta:
            self.reasoned = mended(mapping_of(delta["reasoningContent"]).get("text") or "")
            self._reasoning.append(self.reasoned)
        text = mended(delta.get("text") or "")
        if text:
            self._texts.append(text)
        return text

    def _read_input(self, call: PartialCall, part: str) -> None:
        if part:
            call.arguments.append(part)
        if self._may_call:
            self.calls.advance(call)


def events_of(response: Mapping[str, Any]) -> Iterator[Event]:
    """Yield the stream events equivalent to a whole answer of Converse."""
    content = mapping_of(mapping_of(response.get("output")).get("message")).get("content") or []
    for index, block in enumerate(content):
        for text in _texts_in(block):
            yield {"contentBlockDelta": {"contentBlockIndex": index, "delta": {"text": text}}}
        if reasoning := mapping_of(mapping_of(block.get("reasoningContent")).get("reasoningText")).get("text"):
            yield {
                "contentBlockDelta": {"contentBlockIndex": index, "delta": {"reasoningContent": {"text": reasoning}}}
            }
        if "toolUse" in block:
            use = block["toolUse"]
            tool_use = {"toolUse": {"input": json.dumps(use.get("input") or {})}}
            yield {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"contentBlockIndex": index, "delta": tool_use}}
    if "stopReason" in response:
        yield {"messageStop": {"stopReason": response["stopReason"]}}
    yield {"metadata": {"usage": response.get("usage")}}


def usage_from_wire(usage: object) -> TokenUsage | None:
    """Return the usage, None if missing or implausibly high.

    Tokens read from a cache or written to it count as prompt tokens.

    Source: the Bedrock user guide on prompt caching: `inputTokens` excludes the cache.
    """
    counts = mapping_of(usage)
    if not counts:
        return None
    prompt = ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")
    prompt_tokens, completion_tokens = counts_of(counts, *prompt), counts_of(counts, "outputTokens")
    if prompt_tokens is None or completion_tokens is None:
        return None
    return TokenUsage(
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        total_tokens=prompt_tokens + completion_tokens,
    )


def _index_of(block: Mapping[str, Any]) -> int:
    index = block.get("contentBlockIndex")
    return index if isinstance(index, int) else 0


def _texts_in(block: Mapping[str, Any]) -> Iterator[str]:
    yield block.get("text") or ""
    for cited in mapping_of(block.get("citationsContent")).get("content") or []:
        yield cited.get("text") or ""
