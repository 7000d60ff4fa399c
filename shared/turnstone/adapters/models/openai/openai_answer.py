"""Assemble a model's answer from the chunks of an OpenAI chat-completions stream. Pure, no I/O.

Source: the OpenAI API reference, and the behaviour of servers. vLLM gave each fragment of a call a new id; Gemini and
Ollama give several calls the same index; others leave out ids, indexes, usage or `[DONE]`, send whole calls in one
chunk, arguments as an object, or split a surrogate pair over two chunks. The reader accepts all of these. Reasoning is
no part of OpenAI's API: DeepSeek, SGLang and older vLLM send `reasoning_content`, OpenRouter, Ollama and newer vLLM
`reasoning`, some both with the same text; Mistral sends it among the parts of the content.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from turnstone.adapters.models.openai.partial_calls import PartialCall, PartialCalls
from turnstone.adapters.models.openai.wire_texts import (
    WholeCharacters,
    mapping_of,
    reasoning_from_wire,
    text_from_wire,
)
from turnstone.domain.errors import ModelFailed
from turnstone.domain.messages.messages import CompletionMessage, Message
from turnstone.domain.models.requests import Inferred
from turnstone.domain.usage.usage import TokenUsage, reported_count

if TYPE_CHECKING:  # rarely requested
    from turnstone.adapters.models.openai.openai_logprobs import Logprobs

END_OF_STREAM = "[DONE]"
ERRORS = frozenset(("error", "detail"))


class AnswerReader:
    """Reads one answer, chunk by chunk.

    Attributes:
        reasoned: the reasoning in the last chunk, empty without any.
        calls: the calls so far, with their pieces.
        is_over: whether the answer is complete.
    """

    def __init__(
        self,
        taken_call_ids: Callable[[], frozenset[str]] = frozenset,
        quote: Callable[[str], str] = str,
        logprobs: "Logprobs | None" = None,
    ) -> None:
        """Start an answer.

        Args:
            taken_call_ids: see `PartialCalls`.
            quote: makes the server's text safe to show.
            logprobs: the reader of token probabilities, None unless requested.
        """
        self._logprobs = logprobs
        self._quote = quote
        self._texts: list[str] = []
        self._characters = WholeCharacters()
        self._reasoning: list[str] = []
        self._reasoning_characters = WholeCharacters()
        self.reasoned = ""
        self.calls = PartialCalls("the model server", taken_call_ids)
        self._last_of_index: dict[int, PartialCall] = {}
        self._last_of_id: dict[str, PartialCall] = {}
        self._finish_reason: str | None = None
        self._usage: TokenUsage | None = None
        self.is_over = False

    def read(self, data: str) -> str:
        """Return the chunk's text, empty without any. After `[DONE]` the answer `is_over`.

        Raises:
            ModelFailed: the chunk is not a JSON object, or carries an error.
        """
        self.reasoned = ""
        if data == END_OF_STREAM:
            self.is_over = True
            return ""
        try:
            chunk = _parsed(data)
        except (ValueError, RecursionError) as exc:
            raise ModelFailed("the model server sent something that is not JSON") from exc
        if not isinstance(chunk, dict):
            raise ModelFailed("the model server sent JSON that is not an object")
        if "choices" not in chunk or not ERRORS.isdisjoint(chunk) or chunk.get("object") == "error":
            error = server_message(chunk)
            if error is not None:
                raise ModelFailed("the model server failed while it answered", quote=self._quote(error))
        if usage := chunk.get("usage"):
            self._usage = usage_from_wire(usage) or self._usage
        choices = chunk.get("choices")
        return self._read_choice(_first_of(choices)) if isinstance(choices, list) else ""

    def read_texts(self, events: Iterable[str], texts: list[str]) -> None:
        """Append the text of each of these chunks that has any, up to the end of the answer. Raises as `read` does."""
        for data in events:
            if text := self.read(data):
                texts.append(text)
            if self.is_over:
                break

    def inferred(self) -> Inferred:
        """Return the complete answer.

        Raises:
            ModelFailed: the answer is incomplete, empty but for a content filter's name, or has a call without a name.
        """
        if not self.is_over and self._finish_reason is None:
            raise ModelFailed("the model server's answer broke off before its end")
        text = "".join(self._texts)
        if self._finish_reason == "content_filter" and not text:
            raise ModelFailed("the model's provider withheld the answer (content_filter)")
        message = CompletionMessage(
            content=text,
            stop_reason="out_of_tokens" if self._finish_reason == "length" else "end_of_turn",
            tool_calls=()
            if self._finish_reason == "content_filter"
            else tuple(self.calls.finished(is_cut_off=self._finish_reason == "length")),
        )
        logprobs = () if self._logprobs is None else self._logprobs.all()
        return Inferred(message, self._usage, logprobs=logprobs, reasoning="".join(self._reasoning))

    def _read_choice(self, choice: dict[str, Any]) -> str:
        if self._logprobs is not None:
            self._logprobs.read(choice.get("logprobs"))
        if finish_reason := choice.get("finish_reason"):
            self._finish_reason = str(finish_reason)
        if "delta" not in choice and "message" in choice:
            self.is_over = True
        delta = mapping_of(choice.get("delta") or choice.get("message"))
        if isinstance(parts := delta.get("tool_calls"), list):
            for part in parts:
                self._read_call(mapping_of(part))
        content = delta.get("content")
        if ("reasoning" in delta or "reasoning_content" in delta or isinstance(content, list)) and (
            reasoning := reasoning_from_wire(delta, content)
        ):
            self.reasoned = self._reasoning_characters.feed(reasoning)
            self._reasoning.append(self.reasoned)
        text = content if isinstance(content, str) and content else text_from_wire(content or delta.get("refusal"))
        if not text:
            return ""
        text = self._characters.feed(text)
        self._texts.append(text)
        return text

    def _read_call(self, part: dict[str, Any]) -> None:
        function = mapping_of(part.get("function"))
        index = part["index"] if isinstance(part.get("index"), int) else None
        call_id, name, arguments = part.get("id"), function.get("name"), function.get("arguments")
        fragment = PartialCall(index, str(call_id or ""), str(name or ""))
        if arguments:
            fragment.arguments.append(arguments if isinstance(arguments, str) else json.dumps(arguments))
        call = self._call_continued_by(fragment)
        if call is None:
            call = fragment
            self.calls.add(call)
        else:
            call.append(fragment)
        if call.index is not None:
            self._last_of_index[call.index] = call
        if call.call_id:
            self._last_of_id[call.call_id] = call
        self.calls.advance(call)

    def _call_continued_by(self, fragment: PartialCall) -> PartialCall | None:
        """Return the call that a fragment continues, None if it begins one, which requires a name."""
        if fragment.index is not None:
            call = self._last_of_index.get(fragment.index)
        else:
            call = self._last_of_id.get(fragment.call_id) if fragment.call_id else None
            call = call or (None if fragment.name else self.calls.last)
        return None if call is None or call.is_followed_by(fragment) else call


def _parsed(data: str) -> Any:
    """Return the value of a JSON text. Raises ValueError and RecursionError."""
    try:
        return from_json(data)
    except ValueError:  # halves of characters, too: the standard library reads them
        return json.loads(data)


def _first_of(choices: list[Any]) -> dict[str, Any]:
    """Return the first choice; ignore others, which were not requested."""
    for choice in map(mapping_of, choices):
        if choice.get("index") in (None, 0):
            return choice
    return {}


def call_ids_of(messages: Iterable[Message]) -> frozenset[str]:
    """Return the ids of all calls in a history."""
    return frozenset(call.call_id for message in messages if message.role == "assistant" for call in message.tool_calls)


def server_message(payload: object) -> str | None:
    """Return the message of a server's error object, None for any other value.

    Recognised: `{"error": {"message": …}}`, `{"error": "…"}`, `{"detail": "…"}`, `{"detail": [{"loc", "msg"}]}` (whose
    `input` repeats the request and is left out) and `{"object": "error", "message": …}`.
    """
    if not isinstance(payload, dict):
        return None
    error = payload.get("error") or payload.get("detail")
    if not error and payload.get("object") == "error":
        error = payload
    if isinstance(error, dict):
        error = error.get("message") or error.get("code") or error.get("type") or "no reason given"
    if isinstance(error, list):
        mapped = (mapping_of(item) for item in error)
        error = "; ".join(f"{item.get('loc')}: {item.get('msg')}" for item in mapped) or "no reason given"
    return str(error) if error else None


def usage_from_wire(usage: object) -> TokenUsage | None:
    """Return the usage, None if missing or implausibly high.

    A missing count is 0 or, for the total, the sum.
    """
    if not isinstance(usage, dict) or not usage:
        return None
    prompt_tokens, completion_tokens = counts_of(usage, "prompt_tokens"), counts_of(usage, "completion_tokens")
    if prompt_tokens is None or completion_tokens is None:
        return None
    return TokenUsage(
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        total_tokens=reported_count(usage.get("total_tokens")) or prompt_tokens + completion_tokens,
    )


def counts_of(usage: Mapping[str, Any], *names: str) -> int | None:
    """Return the sum of these counts, 0 for a missing one; None if one is invalid."""
    counts = [reported_count(usage[name]) for name in names if usage.get(name) is not None]
    return None if None in counts else sum(count for count in counts if count is not None)
