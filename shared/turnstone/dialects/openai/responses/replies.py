"""The response object on OpenAI's wire, for the API's document and for tests; it is written from plain values.

Source: the types of `openai` 3.54.0.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from turnstone.domain.values.frozen import Frozen

EXAMPLE_ID = "resp_CXJlc3BvbnNlcwABmQAAAABwAIAAAAAAAAAAAAGZAAAAAHAAgAAAAAAAAAE"
EXAMPLE_MESSAGE = {
    "id": "msg_019900000000700080000000000000010000",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Good morning!", "annotations": [], "logprobs": []}],
}
EXAMPLE_INPUT = {
    "id": "msg_019900000000700080000000000000018000",
    "type": "message",
    "role": "user",
    "status": "completed",
    "content": [{"type": "input_text", "text": "hello"}],
}


class ResponseErrorObject(Frozen):
    """Why a response failed."""

    code: Annotated[
        Literal["server_error", "rate_limit_exceeded"],
        Field(description="The kind of the failure.", examples=["server_error"]),
    ]
    message: Annotated[str, Field(description="The reason, for people.", examples=["its model gave no usable answer"])]


class IncompleteDetails(Frozen):
    """Why a response is incomplete."""

    reason: Annotated[
        Literal["max_output_tokens"],
        Field(description="The limit that ended it.", examples=["max_output_tokens"]),
    ]


class InputTokensDetails(Frozen):
    """Kinds of input tokens."""

    cached_tokens: Annotated[int, Field(description="Tokens that the provider read from a cache.", examples=[0])]
    cache_write_tokens: Annotated[int, Field(description="Tokens that it wrote to one.", examples=[0])]


class OutputTokensDetails(Frozen):
    """Kinds of output tokens."""

    reasoning_tokens: Annotated[int, Field(description="Tokens of the model's reasoning.", examples=[0])]


class ResponseUsageObject(Frozen):
    """The tokens of all inferences of a response."""

    input_tokens: Annotated[int, Field(description="Tokens sent to the model.", examples=[12])]
    input_tokens_details: Annotated[InputTokensDetails, Field(description="Kinds of them.")]
    output_tokens: Annotated[int, Field(description="Tokens that the model wrote.", examples=[3])]
    output_tokens_details: Annotated[OutputTokensDetails, Field(description="Kinds of them.")]
    total_tokens: Annotated[int, Field(description="Both together.", examples=[15])]


class ResponseObject(Frozen):
    """A response. Fields that are not described here repeat the request."""

    id: Annotated[str, Field(description="Names the response.", examples=[EXAMPLE_ID])]
    object: Annotated[Literal["response"], Field(description="What this is.", examples=["response"])]
    created_at: Annotated[
        int, Field(description="The time of the request, in seconds since 1970.", examples=[1767225600])
    ]
    completed_at: Annotated[
        int | None, Field(description="The time of its end; null unless it is completed.", examples=[1767225601])
    ]
    status: Annotated[
        Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"],
        Field(description="How far it is, or how it ended.", examples=["completed"]),
    ]
    error: Annotated[ResponseErrorObject | None, Field(description="Why it failed; null otherwise.", examples=[None])]
    incomplete_details: Annotated[
        IncompleteDetails | None, Field(description="Why it is incomplete; null otherwise.", examples=[None])
    ]
    output: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            description="The output items: messages, reasoning and function calls, in the order of the model.",
            examples=[[EXAMPLE_MESSAGE]],
        ),
    ]
    usage: Annotated[ResponseUsageObject | None, Field(description="Its tokens; null before its end.")]
    instructions: Annotated[str | None, Field(description="Of the request.", examples=[None])]
    max_output_tokens: Annotated[int | None, Field(description="Of the request.", examples=[None])]
    max_tool_calls: Annotated[int | None, Field(description="Of the request.", examples=[None])] = None
    metadata: Annotated[dict[str, str], Field(description="Of the request.", examples=[{}])]
    model: Annotated[str, Field(description="Of the request.", examples=["llama"])]
    parallel_tool_calls: Annotated[bool, Field(description="Of the request.", examples=[True])]
    previous_response_id: Annotated[
        str | None, Field(description="The response that this one continues; null without one.", examples=[None])
    ]
    prompt_cache_key: Annotated[str | None, Field(description="Of the request.", examples=[None])]
    prompt_cache_retention: Annotated[str | None, Field(description="Of the request.", examples=[None])]
    safety_identifier: Annotated[str | None, Field(description="Of the request.", examples=[None])]
    service_tier: Annotated[str | None, Field(description="Of the request.", examples=[None])]
    store: Annotated[bool, Field(description="Of the request.", examples=[True])]
    background: Annotated[bool, Field(description="Of the request.", examples=[False])]
    temperature: Annotated[float | None, Field(description="Of the request.", examples=[None])]
    text: Annotated[dict[str, Any], Field(description="Of the request.", examples=[{"format": {"type": "text"}}])]
    tool_choice: Annotated[str | dict[str, Any], Field(description="Of the request.", examples=["auto"])]
    tools: Annotated[tuple[dict[str, Any], ...], Field(description="Of the request.", examples=[[]])]
    top_logprobs: Annotated[int | None, Field(description="Of the request.", examples=[None])]
    top_p: Annotated[float | None, Field(description="Of the request.", examples=[None])]
    truncation: Annotated[str, Field(description="Of the request.", examples=["disabled"])]
    reasoning: Annotated[dict[str, Any] | None, Field(description="Of the request.", examples=[None])]
    user: Annotated[str | None, Field(description="Of the request.", examples=[None])]
    conversation: Annotated[
        dict[str, Any] | None,
        Field(
            description="The conversation that the response belongs to; left out without one.",
            examples=[None],
            exclude_if=lambda conversation: conversation is None,
        ),
    ] = None


class ListedResponseObject(ResponseObject):
    """A response in a list, with its input."""

    input: Annotated[
        tuple[dict[str, Any], ...], Field(description="The input items, with ids.", examples=[[EXAMPLE_INPUT]])
    ]


class ResponseEvent(Frozen):
    """An event of a response's stream; further fields depend on its type."""

    model_config = ConfigDict(extra="allow")

    type: Annotated[str, Field(description="What happened.", examples=["response.output_text.delta"])]
    sequence_number: Annotated[int, Field(description="Counts the events of the stream from 0.", examples=[4])]
