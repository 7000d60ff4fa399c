"""Request bodies of the Llama Stack API for direct inference.

Source: the types of `llama-stack-client` 0.2.12; unknown fields are ignored, nulls stand for the default.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from turnstone.domain.agents.agents import (
    MAX_TOOLS,
    AgentConfig,
    ResponseFormat,
    SamplingParams,
    ToolChoice,
    ToolConfig,
    ToolPromptFormat,
    refuse_contradiction,
    tool_config_from_deprecated,
)
from turnstone.domain.messages.messages import Message
from turnstone.domain.models.inference import Question, TextsToEmbed
from turnstone.domain.models.requests import EmbeddingPurpose
from turnstone.domain.tools.tools import ToolDef, ToolParameter
from turnstone.domain.values.frozen import Frozen, JsonValue, Many, NullMeansDefault
from turnstone.domain.values.numbers import Count, Flag

MAX_TEXTS = 10_000
REFUSED = {"logprobs": "this server answers without log probabilities here; leave it out"}


def refuse(value: Any, field: str | None) -> Any:
    """Return null for null. Raises ValueError for a field that would have no effect."""
    if value is not None:
        raise ValueError(REFUSED[str(field)])
    return value


class ToolParamDefinition(NullMeansDefault):
    param_type: str
    description: str = ""
    required: Flag = True
    default: JsonValue = None


class ToolDefinition(NullMeansDefault):
    """A tool in the form of these routes; elsewhere the dialect writes its parameters as a list."""

    tool_name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    parameters: dict[str, ToolParamDefinition] | None = None

    def to_tool(self) -> ToolDef:
        parameters = (
            ToolParameter(
                name=name,
                parameter_type=parameter.param_type,
                description=parameter.description,
                required=parameter.required,
                default=parameter.default,
            )
            for name, parameter in (self.parameters or {}).items()
        )
        return ToolDef(name=self.tool_name, description=self.description, parameters=tuple(parameters))


class InferChatCompletion(NullMeansDefault):
    model_id: str
    messages: Annotated[Many[Message], Field(min_length=1)]
    sampling_params: SamplingParams = SamplingParams()
    response_format: ResponseFormat | None = None
    tools: Annotated[Many[ToolDefinition], Field(max_length=MAX_TOOLS)] = ()
    tool_choice: ToolChoice | None = None
    tool_prompt_format: ToolPromptFormat | None = None
    tool_config: ToolConfig = ToolConfig()
    stream: Flag = False
    logprobs: None = None

    @field_validator("logprobs", mode="before")
    @classmethod
    def refuse_without_effect(cls, value: Any) -> Any:
        return refuse(value, "logprobs")

    @model_validator(mode="before")
    @classmethod
    def fill_tool_config(cls, fields: Any) -> Any:
        return tool_config_from_deprecated(fields)

    @model_validator(mode="after")
    def agree(self) -> Self:
        refuse_contradiction(self.tool_config, self.tool_choice, self.tool_prompt_format)
        names = [tool.tool_name for tool in self.tools]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"tools: two are named {name!r}; rename one")
        return self

    def to_question(self) -> Question:
        config = AgentConfig(
            model=self.model_id,
            instructions="",
            sampling_params=self.sampling_params,
            response_format=self.response_format,
            client_tools=tuple(tool.to_tool() for tool in self.tools),
            tool_config=self.tool_config,
        )
        return Question(self.messages, config)


class TextContent(Frozen):
    type: Literal["text"]
    text: str


class EmbedContents(NullMeansDefault):
    """`text_truncation` start or end cuts a text too long for the model there, if the model's length is configured.

    With none, or without a configured length, nothing is cut: the provider then reports a text that is too long.
    `task_type` makes a difference for models that embed questions differently.
    """

    model_id: str
    contents: Annotated[Many[str | TextContent], Field(min_length=1, max_length=MAX_TEXTS)]
    text_truncation: Literal["none", "start", "end"] = "none"
    output_dimension: Count | None = None
    task_type: EmbeddingPurpose = "document"

    def to_texts(self) -> TextsToEmbed:
        texts = tuple(content if isinstance(content, str) else content.text for content in self.contents)
        cut_at = None if self.text_truncation == "none" else self.text_truncation
        return TextsToEmbed(
            self.model_id, texts, self.output_dimension, "output_dimension", cut_at=cut_at, purpose=self.task_type
        )
