"""The request body of OpenAI's chat completions.

What only servers of OpenAI's API take is passed on to them as it is, and refused where others are asked.

Source: the OpenAI API reference, and the types of `llama-stack-client` 0.2.12 and 0.3.5.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from turnstone.dialects.openai.messages import AnySaid, NamedTool, Tool
from turnstone.dialects.openai.stored_completions import Metadata
from turnstone.dialects.openai.strict import Strict, refuse
from turnstone.domain.agents import (
    MAX_TOOLS,
    AgentConfig,
    Greedy,
    JsonSchemaFormat,
    SamplingParams,
    Strategy,
    ToolConfig,
    TopP,
)
from turnstone.domain.inference import Question
from turnstone.domain.model import JsonObject, Many
from turnstone.domain.numbers import Count, Flag

ANY_OBJECT = {"type": "object"}
ONE = "there is one answer to a question here; leave it out, or send 1"
LOGPROBS = "this server has no log probabilities from its models; leave it out"
TEXT_ONLY = "models answer with text here; leave it out"
REFUSED = {
    "audio": TEXT_ONLY,
    "function_call": "is deprecated; use tool_choice",
    "functions": "is deprecated; use tools",
    "prediction": "is not passed on; leave it out",
    "top_logprobs": LOGPROBS,
    "web_search_options": "no tools are run here; leave it out",
}
FORBIDDEN_FLAGS = {
    "include_obfuscation": "events are as long as what they say; leave it out",
    "logprobs": LOGPROBS,
}
EXTRAS = (
    "frequency_penalty",
    "logit_bias",
    "max_completion_tokens",
    "parallel_tool_calls",
    "presence_penalty",
    "prompt_cache_key",
    "reasoning_effort",
    "safety_identifier",
    "seed",
    "service_tier",
    "user",
    "verbosity",
)


class StreamOptions(Strict):
    include_usage: Flag = False
    include_obfuscation: Flag = False

    @field_validator("include_obfuscation")
    @classmethod
    def refuse_set(cls, value: bool | None, field: ValidationInfo) -> Any:
        return value and refuse(value, field, FORBIDDEN_FLAGS)


class PlainFormat(Strict):
    type: Literal["text", "json_object"]


class NamedSchema(Strict):
    name: str
    description: str | None = None
    schema_: JsonObject | None = Field(default=None, alias="schema")
    strict: Flag | None = None


class SchemaFormat(Strict):
    type: Literal["json_schema"] = "json_schema"
    json_schema: NamedSchema


AnyFormat = Annotated[PlainFormat | SchemaFormat, Field(discriminator="type")]


def _no_text(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise PydanticCustomError("number_type", "Input should be a number")
    return value


Seed = Annotated[int, BeforeValidator(_no_text)]
Penalty = Annotated[float, Field(ge=-2, le=2, strict=True)]


class CreateChatCompletion(Strict):
    model: str
    messages: Annotated[Many[AnySaid], Field(min_length=1)]
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
    metadata: Metadata | None = None
    top_logprobs: None = None
    functions: None = None
    function_call: None = None
    audio: None = None
    prediction: None = None
    web_search_options: None = None

    @field_validator(*REFUSED, mode="before")
    @classmethod
    def refuse_without_effect(cls, value: Any, field: ValidationInfo) -> Any:
        return refuse(value, field, REFUSED)

    @field_validator("logprobs")
    @classmethod
    def refuse_set(cls, value: bool | None, field: ValidationInfo) -> Any:
        return value and refuse(value, field, FORBIDDEN_FLAGS)

    @field_validator("n", mode="before")
    @classmethod
    def refuse_several(cls, value: Any) -> Any:
        if value is not None and (value != 1 or isinstance(value, bool | float)):
            raise ValueError(ONE)
        return value

    @model_validator(mode="after")
    def agree(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options: means nothing unless stream is true")
        if None not in (self.max_tokens, self.max_completion_tokens) and self.max_tokens != self.max_completion_tokens:
            raise ValueError("max_completion_tokens: is max_tokens by its newer name; send one of them")
        names = [tool.function.name for tool in self.tools]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"tools: two are named {name!r}")
        choice = self._choice()
        if choice == "required" and not names:
            raise ValueError("tool_choice: there is no tool to choose")
        if isinstance(self.tool_choice, NamedTool) and choice not in names:
            raise ValueError(f"tool_choice: names {choice!r}, which is no tool here")
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
        sent = self.model_dump(mode="json", by_alias=True, exclude_none=True, include={*EXTRAS, "response_format"})
        if isinstance(self.response_format, PlainFormat) and self.response_format.type == "text":
            del sent["response_format"]
        return Question(tuple(said.to_message() for said in self.messages), config, sent)

    @property
    def tells_usage(self) -> bool:
        """Whether a stream ends with what was used."""
        return self.stream_options is not None and self.stream_options.include_usage

    def _choice(self) -> str:
        return self.tool_choice.function.name if isinstance(self.tool_choice, NamedTool) else self.tool_choice

    def _sampling(self) -> SamplingParams:
        """Return the sampling; of what is left out the model has a default of its own, unlike an agent's."""
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
