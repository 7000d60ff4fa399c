"""Convert a prompt to the body of an OpenAI completion, and read the continuation from its chunks.

Source: the OpenAI API reference. vLLM, llama.cpp, Ollama and LM Studio have the route; OpenAI has it for a few models,
and answers 404 for all others; many other providers answer 404, 405 or 501 for every model.
"""

from typing import Any

from turnstone.adapters.models.openai.openai_answer import AnswerReader
from turnstone.adapters.models.openai.openai_wire import sampling_to_wire
from turnstone.adapters.models.openai.wire_texts import mapping_of
from turnstone.domain.agents.agents import SamplingParams
from turnstone.domain.errors import InvalidRequest, ModelFailed
from turnstone.domain.models.requests import InferenceRequest

COMPLETIONS = "/completions"
MISSING_STATUSES = frozenset({404, 405, 501})
UNKNOWN_TO_CHATS = ("suffix",)


class NoCompletions(ModelFailed):
    """The server has no completions, or none for this model."""


class ContinuationReader(AnswerReader):
    """Reads one continuation, chunk by chunk, or from the single body of a server without streaming."""

    def read(self, data: str) -> str:
        """Return the chunk's text. Raises ModelFailed as `AnswerReader.read` does."""
        text = super().read(data)
        self.is_over = self.is_over or (self._finish_reason is not None and self._usage is not None)
        return text

    def _read_choice(self, choice: Any) -> str:
        choice = mapping_of(choice)
        return super()._read_choice({**choice, "delta": {"content": choice.get("text")}})


def completion_body(request: InferenceRequest) -> dict[str, Any]:
    """Return the body of a streamed completion of the request's prompt."""
    body = {
        "model": request.model,
        "prompt": request.prompt,
        "stream": True,
        "stream_options": {"include_usage": True},
        **sampling_to_wire(request.sampling or SamplingParams()),
    }
    return {**body, **request.extras}


def refuse_in_chat(request: InferenceRequest) -> None:
    """Raise InvalidRequest for a field without meaning in a chat, if the prompt is sent as a message."""
    for name in UNKNOWN_TO_CHATS:
        if name in request.extras:
            raise InvalidRequest(
                f"{name}: the provider of {request.model!r} has no completions, and a chat has no such field; "
                "leave it out",
                (name,),
            )
