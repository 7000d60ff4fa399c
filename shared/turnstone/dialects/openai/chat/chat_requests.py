"""The request body of OpenAI's chat completions.

Fields that only servers of OpenAI's API support, including those not in the contract, are passed on to them
unchanged. Other providers ignore them; where such a field is essential to the answer, the request is refused.

Source: the OpenAI API reference, and the types of `llama-stack-client` 0.2.12 and 0.3.5.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from turnstone.dialects.openai.chat.messages import AnyChatMessage, NamedTool, Tool
from turnstone.dialects.openai.metadata import Metadata
from turnstone.dialects.openai.strict import OpenBody, StrictRequest, refuse
from turnstone.domain.agents.agents import (
    MAX_TOOLS,
    AgentConfig,
    Greedy,
    JsonSchemaFormat,
    SamplingParams,
    Strategy,
    ToolConfig,
    TopP,
)
from turnstone.domain.models.inference import Question
from turnstone.domain.values.frozen import JsonObject, Many
from turnstone.domain.values.numbers import Count, Flag

ANY_OBJECT = {"type": "object"}
ONE = "this server gives one answer a request; leave it out, or send 1"
TEXT_ONLY = "this server's models answer with text; leave it out"
REFUSED = {
    "audio": TEXT_ONLY,
    "function_call": "is deprecated; use tool_choice",
    "functions": "is deprecated; use tools",
    "web_search_options": "this server runs no tools in chat completions; leave it out",
}
FORBIDDEN_FLAGS = {
    "include_obfuscation": "this server does not pad its events; leave it out",
}
EXTRAS = (
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "metadata",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "reasoning_effort",
    "safety_identifier",
    "seed",
    "service_tier",
    "top_logprobs",
    "user",
    "verbosity",
)
# fields essential to the answer, unless they are 0, empty or false
NEEDED = ("frequency_penalty", "logit_bias", "logprobs", "presence_penalty", "seed")


class StreamOptions(StrictRequest):
    include_usage: Flag = False
    include_obfuscation: Flag = False

    @field_validator("include_obfuscation")
    @classmethod
    def refuse_set(cls, value: bool | None, field: ValidationInfo) -> Any:
        return value and refuse(value, field, FORBIDDEN_FLAGS)


class PlainFormat(StrictRequest):
    type: Literal["text", "json_object"]


class NamedSchema(StrictRequest):
    name: str
    description: str | None = None
    schema_: JsonObject | None = Field(default=None, alias="schema")
    strict: Flag | None = None


class SchemaFormat(StrictRequest):
    type: Literal["json_schema"] = "json_schema"
    json_schema: NamedSchema


AnyFormat = Annotated[PlainFormat | SchemaFormat, Field(discriminator="type")]


def _no_text(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise PydanticCustomError("number_type", "Input should be a number")
    return value


Seed = Annotated[int, BeforeValidator(_no_text)]
Penalty = Annotated[float, Field(ge=-2, le=2, strict=True)]


class CreateChatCompletion(OpenBody):
    model: str
    messages: Annotated[Many[AnyChatMessage], Field(min_length=1)]
    stream: Flag = False
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0, le=2, strict=True)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1, strict=True)] | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    stop: str | Many[str] | None = None
    tools: Annotated[Many[Tool], Field(max_length=MAX_TOOLS)] = ()
    tool_choice: Literal["none", "auto", "required"] | NamedTool = "auto"
    response_format: AnyFormat | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    logit_bias: dict[str, Annotated[float, Field(strict=True)]] | None = None
    seed: Seed | None = None
    parallel_tool_calls: Flag | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    user: str | None = None
    n: Literal[1] | None = None
    modalities: Annotated[Many[Literal["text"]], Field(max_length=1)] | None = None
    logprobs: Flag | None = None
    store: Flag | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20), BeforeValidator(_no_text)] | None = None
    metadata: Metadata | None = None
    prediction: JsonObject | None = None
    functions: None = None
    function_call: None = None
    audio: None = None
    web_search_options: None = None

    @field_validator(*REFUSED, mode="before")
    @classmethod
    def refuse_without_effect(cls, value: Any, field: ValidationInfo) -> Any:
        return refuse(value, field, REFUSED)

    @field_validator("n", mode="before")
    @classmethod
    def refuse_several(cls, value: Any) -> Any:
        if value is not None and (value != 1 or isinstance(value, bool | float)):
            raise ValueError(ONE)
        return value

    @model_validator(mode="after")
    def agree(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options: has no effect unless stream is true; leave it out")
        if None not in (self.max_tokens, self.max_completion_tokens) and self.max_tokens != self.max_completion_tokens:
            raise ValueError("max_completion_tokens: is the newer name of max_tokens; send one of them")
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs: has no effect unless logprobs is true; leave it out")
        names = [tool.function.name for tool in self.tools]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"tools: two are named {name!r}; rename one")
        choice = self._choice()
        if choice == "required" and not names:
            raise ValueError("tool_choice: there is no tool to choose; add one, or leave it out")
        if isinstance(self.tool_choice, NamedTool) and choice not in names:
            raise ValueError(f"tool_choice: names {choice!r}, but there is no such tool in tools")
        return self

    def to_question(self) -> Question:
        config = AgentConfig(
            model=self.model,
            instructions="",
            sampling_params=self._sampling(),
            response_format=self._format(),
            client_tools=tuple(tool.to_tool() for tool in self.tools),
            tool_config=ToolConfig(tool_choice=self._choice()),
        )
        return Question(
            messages=tuple(message.to_message() for message in self.messages),
            config=config,
            extras=self._extras(),
            message_extras={
                index: more for index, message in enumerate(self.messages) if (more := message.to_extras())
            },
            tool_extras={tool.function.name: more for tool in self.tools if (more := tool.to_extras())},
            needed_extras=tuple(name for name in NEEDED if getattr(self, name) or (name == "seed" and self.seed == 0)),
        )

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    def _extras(self) -> dict[str, Any]:
        sent = self.model_dump(mode="json", by_alias=True, exclude_none=True, include={*EXTRAS, "response_format"})
        if isinstance(self.response_format, PlainFormat) and self.response_format.type == "text":
            del sent["response_format"]
        if not self.logprobs:
            sent.pop("logprobs", None)
        if self.store:
            sent.pop("metadata", None)  # it is stored with the completion here; the provider stores nothing
        return {**self.further, **sent}

    def _choice(self) -> str:
        return self.tool_choice.function.name if isinstance(self.tool_choice, NamedTool) else self.tool_choice

    def _sampling(self) -> SamplingParams:
        """Return the sampling; an omitted field has the model's own default, unlike an agent's."""
        strategy: Strategy = TopP(temperature=self.temperature or None, top_p=self.top_p)
        if self.temperature == 0:
            strategy = Greedy()
        stop = (self.stop,) if isinstance(self.stop, str) else self.stop
        limit = self.max_tokens or self.max_completion_tokens or 0
        return SamplingParams.model_construct(
            strategy=strategy, max_tokens=limit, repetition_penalty=1.0, stop=stop or None
        )

    def _format(self) -> JsonSchemaFormat | None:
        match self.response_format:
            case SchemaFormat(json_schema=told):
                return JsonSchemaFormat(json_schema=told.schema_ or ANY_OBJECT)
            case PlainFormat(type="json_object"):
                return JsonSchemaFormat(json_schema=ANY_OBJECT)
        return None
