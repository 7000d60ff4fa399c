"""Agents: the configuration, a turn's overrides of it, and the record."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.values.frozen import Frozen, JsonObject, Many, NullMeansDefault
from turnstone.domain.values.lazy_type import Late
from turnstone.domain.values.numbers import Count, Flag, Number, Positive, Whole

if TYPE_CHECKING:
    from turnstone.domain.tools.agent_tools import AgentTool
else:
    AgentTool = Annotated[Any, Late("turnstone.domain.tools.agent_tools", "AgentTool")]

ToolChoice = Literal["auto", "required", "none"]
ToolPromptFormat = Literal["json", "function_tag", "python_list"]
SystemMessageBehavior = Literal["append", "replace"]


class Greedy(Frozen):
    type: Literal["greedy"] = "greedy"


class TopP(Frozen):
    """Nucleus sampling. The key `temperature` must be sent; null uses the model's default."""

    type: Literal["top_p"] = "top_p"
    temperature: Positive | None
    top_p: Number | None = 0.95


class TopK(Frozen):
    type: Literal["top_k"] = "top_k"
    top_k: Count


Strategy = Annotated[Greedy | TopP | TopK, Field(discriminator="type")]


class SamplingParams(NullMeansDefault):
    """Sampling of tokens. `max_tokens` 0 sets no limit."""

    strategy: Strategy = Greedy.model_construct()
    max_tokens: Whole = 0
    repetition_penalty: Number = 1.0
    stop: Many[str] | None = None


class ToolConfig(NullMeansDefault):
    """How tools are offered. `tool_choice` is auto, required, none or the name of a tool.

    For a model that is configured or registered as one without native tools, `tool_prompt_format` is the style in
    which its prompt describes them, and `system_message_behavior` appends that to the instructions or replaces it by
    them. Other models are offered tools natively, and ignore both.
    """

    tool_choice: str = "auto"
    tool_prompt_format: ToolPromptFormat | None = None
    system_message_behavior: SystemMessageBehavior = "append"


class JsonSchemaFormat(Frozen):
    type: Literal["json_schema"] = "json_schema"
    json_schema: JsonObject


class GrammarFormat(Frozen):
    """A grammar for providers that support one: `bnf` is `{"grammar": TEXT}`, in the provider's own notation."""

    type: Literal["grammar"] = "grammar"
    bnf: JsonObject


ResponseFormat = Annotated[JsonSchemaFormat | GrammarFormat, Field(discriminator="type")]


class ToolGroupWithArgs(Frozen):
    name: str
    args: JsonObject


ToolGroup = str | ToolGroupWithArgs
MAX_TOOLS = 1_000  # more than any model accepts
ToolGroups = Annotated[Many[ToolGroup], Field(max_length=MAX_TOOLS)]
ClientTools = Annotated[Many[ToolDef], Field(max_length=MAX_TOOLS)]
DefinedTools = Annotated[Many[AgentTool], Field(max_length=MAX_TOOLS, exclude_if=lambda tools: not tools)]


MOST_BLOCKS = 40  # so that one write detaches them all
BlockIds = Annotated[Many[str], Field(max_length=MOST_BLOCKS, exclude_if=lambda blocks: not blocks)]


def toolgroup_name(toolgroup: ToolGroup) -> str:
    """Return the group's name, `group` or `group/tool`, without its arguments."""
    return toolgroup if isinstance(toolgroup, str) else toolgroup.name


class AgentConfig(NullMeansDefault):
    """Configuration of an agent. Field order is the order on the wire.

    `tools` are definitions as in September 2024, `memory_blocks` the ids of blocks in the order of the prompt; both are
    omitted from answers where there are none.
    """

    sampling_params: SamplingParams = SamplingParams.model_construct()
    input_shields: Many[str] = ()
    output_shields: Many[str] = ()
    toolgroups: ToolGroups = ()
    client_tools: ClientTools = ()
    tools: DefinedTools = ()
    tool_choice: ToolChoice | None = None
    tool_prompt_format: ToolPromptFormat | None = None
    tool_config: ToolConfig = ToolConfig.model_construct()
    max_infer_iters: Count = 10
    model: str
    instructions: str
    name: str | None = None
    enable_session_persistence: Flag = False
    response_format: ResponseFormat | None = None
    memory_blocks: BlockIds = ()

    @model_validator(mode="before")
    @classmethod
    def fill_tool_config(cls, fields: Any) -> Any:
        return tool_config_from_deprecated(fields)

    @model_validator(mode="after")
    def agree_with_deprecated(self) -> Self:
        refuse_contradiction(self.tool_config, self.tool_choice, self.tool_prompt_format)
        return self


class TurnOverrides(NullMeansDefault):
    """A turn's overrides of its agent; a missing or null field changes nothing.

    Toolgroups are added to the agent's; every other field replaces the agent's.
    """

    instructions: str | None = None
    sampling_params: SamplingParams | None = None
    input_shields: Many[str] | None = None
    output_shields: Many[str] | None = None
    toolgroups: ToolGroups | None = None
    client_tools: ClientTools | None = None
    tool_choice: ToolChoice | None = None
    tool_prompt_format: ToolPromptFormat | None = None
    tool_config: ToolConfig | None = None
    max_infer_iters: Count | None = None

    @model_validator(mode="after")
    def agree_with_deprecated(self) -> Self:
        if self.tool_config is not None:
            refuse_contradiction(self.tool_config, self.tool_choice, self.tool_prompt_format)
        return self

    def applied_to(self, config: AgentConfig) -> AgentConfig:
        """Return the configuration with the overrides applied."""
        changes = {name: value for name in OVERRIDING if (value := getattr(self, name)) is not None}
        deprecated = {name: value for name in DEPRECATED if (value := getattr(self, name)) is not None}
        if self.tool_config is None and deprecated:
            changes["tool_config"] = config.tool_config.model_copy(update=deprecated)
        if self.toolgroups is not None:
            changes["toolgroups"] = (*config.toolgroups, *(g for g in self.toolgroups if g not in config.toolgroups))
        return config.model_copy(update=changes)


DEPRECATED = ("tool_choice", "tool_prompt_format")
OVERRIDING = tuple(name for name in TurnOverrides.model_fields if name not in (*DEPRECATED, "toolgroups"))


def tool_config_from_deprecated(fields: Any) -> Any:
    """Fill `tool_config` from the two deprecated fields if only those were sent.

    Source: the Llama Stack Agents contract (`tool_config` is always filled).
    """
    if not isinstance(fields, dict) or fields.get("tool_config") is not None:
        return fields
    deprecated = {name: fields[name] for name in DEPRECATED if fields.get(name) is not None}
    return {**fields, "tool_config": deprecated} if deprecated else fields


def refuse_contradiction(
    tool_config: ToolConfig, tool_choice: ToolChoice | None, tool_prompt_format: ToolPromptFormat | None
) -> None:
    """Raise ValueError if a deprecated field contradicts `tool_config`.

    Source: the Llama Stack Agents contract, which fixes the sentences.
    """
    if tool_choice is not None and tool_choice != tool_config.tool_choice:
        raise ValueError("tool_choice is deprecated. Use tool_choice in tool_config instead.")
    if tool_prompt_format is not None and tool_prompt_format != tool_config.tool_prompt_format:
        raise ValueError("tool_prompt_format is deprecated. Use tool_prompt_format in tool_config instead.")


class Agent(Frozen):
    agent_id: str
    agent_config: AgentConfig
    created_at: datetime
