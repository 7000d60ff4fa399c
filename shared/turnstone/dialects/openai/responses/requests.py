"""The request body of a response. Each parameter is honoured, or refused by its name.

Source: `Responses.create` of `openai` 3.54.0; `max_infer_iters` is Llama Stack's.
"""

import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from turnstone.dialects.openai.metadata import Metadata
from turnstone.dialects.openai.responses.input.content import AsList, AsText, Form
from turnstone.dialects.openai.responses.input.items import AnyGivenItem, given_input, stored_items
from turnstone.dialects.openai.responses.references import item_at, items_in, no_turn
from turnstone.dialects.openai.responses.tools import (
    OfferedTools,
    ResponseTools,
    ToolChoiceField,
    offered,
    refuse_clashes,
    tool_extras,
)
from turnstone.dialects.openai.strict import StrictRequest, refuse
from turnstone.domain.agents.agents import (
    AgentConfig,
    Greedy,
    JsonSchemaFormat,
    SamplingParams,
    Strategy,
    ToolConfig,
    TopP,
)
from turnstone.domain.responses.requests import NewResponse, Predecessor, SentRequest
from turnstone.domain.values.frozen import JsonObject, Many
from turnstone.domain.values.numbers import Count, Flag

if TYPE_CHECKING:
    from turnstone.dialects.openai.responses.references import TurnWith
    from turnstone.dialects.openai.responses.stream import EventsOf

AGENT = re.compile(r"agent/(.+)", re.DOTALL)
REFUSED = {
    "access_programs": "this server has no such programs; leave it out",
    "background_options": "this server runs no responses at other times; leave it out",
    "context_management": "this server compacts no context on request; leave it out",
    "image": "this server compresses no images; leave it out",
    "moderation": "shields of an agent judge its messages; leave it out",
    "prompt": "this server keeps no prompts; send their text as instructions",
    "prompt_cache_options": "this server configures no caches of providers; leave it out",
}
STORED_WITH_IT = "a response in a conversation is stored with it; leave store out, or send true"
READ_LATER = "a response in the background is read from the store; leave store out, or send true"
EXTRAS = (
    "parallel_tool_calls",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "user",
)
ECHOED = (
    *("background", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "model", "parallel_tool_calls"),
    *("previous_response_id", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier"),
    *("store", "temperature", "top_logprobs", "top_p", "truncation", "user"),
)
SERVED_INCLUDES = (
    "message.input_image.image_url",
    "file_search_call.results",
    "web_search_call.action.sources",
    "code_interpreter_call.outputs",
)
NO_PADDING = "this server does not pad its events; leave it out"
ANY_OBJECT = {"type": "object"}


class ResponseStreamOptions(StrictRequest):
    include_obfuscation: Flag = False

    @field_validator("include_obfuscation")
    @classmethod
    def refuse_padding(cls, value: bool) -> bool:
        if value:
            raise ValueError(NO_PADDING)
        return value


class ReasoningOptions(StrictRequest):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: None = None
    generate_summary: None = None
    context: Literal["auto"] | None = None
    mode: Literal["standard"] | None = None

    @field_validator("summary", "generate_summary", mode="before")
    @classmethod
    def refuse_summary(cls, value: Any) -> Any:
        if value is not None:
            raise ValueError("reasoning is shown as the model wrote it, without a summary; leave it out")
        return value


class TextPlainFormat(StrictRequest):
    type: Literal["text", "json_object"]


class TextSchemaFormat(StrictRequest):
    type: Literal["json_schema"]
    name: str
    schema_: JsonObject = Field(alias="schema")
    description: str | None = None
    strict: Flag | None = None


class TextConfig(StrictRequest):
    format: Annotated[TextPlainFormat | TextSchemaFormat, Field(discriminator="type")] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ConversationParam(StrictRequest):
    id: str


class CreateResponse(StrictRequest):
    model: str
    input: Annotated[AsText | Annotated[Many[AnyGivenItem], Field(min_length=1), AsList], Form]
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: Annotated[AsText | Annotated[ConversationParam, AsList], Form] | None = None
    stream: Flag = False
    stream_options: ResponseStreamOptions | None = None
    store: Flag = True
    background: Flag = False
    temperature: Annotated[float, Field(ge=0, le=2, strict=True)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1, strict=True)] | None = None
    max_output_tokens: Count | None = None
    tools: ResponseTools = ()
    tool_choice: ToolChoiceField = "auto"
    parallel_tool_calls: Flag = True
    text: TextConfig | None = None
    reasoning: ReasoningOptions | None = None
    metadata: Metadata | None = None
    include: Many[str] = ()
    truncation: Literal["auto", "disabled"] = "disabled"
    top_logprobs: Literal[0] | None = None
    service_tier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    safety_identifier: str | None = None
    user: str | None = None
    max_infer_iters: Count | None = None
    max_tool_calls: Count | None = None
    access_programs: None = None
    background_options: None = None
    context_management: None = None
    image: None = None
    moderation: None = None
    prompt: None = None
    prompt_cache_options: None = None

    @field_validator(*REFUSED, mode="before")
    @classmethod
    def refuse_without_effect(cls, value: Any, field: ValidationInfo) -> Any:
        return refuse(value, field, REFUSED)

    @field_validator("store")
    @classmethod
    def refuse_unstored(cls, value: bool, field: ValidationInfo) -> bool:
        if not value and field.data.get("conversation") is not None:
            raise ValueError(STORED_WITH_IT)
        return value

    @field_validator("background")
    @classmethod
    def refuse_unread(cls, value: bool, field: ValidationInfo) -> bool:
        if value and not field.data.get("store", True):
            raise ValueError(READ_LATER)
        return value

    @field_validator("include")
    @classmethod
    def refuse_unserved(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            if each not in SERVED_INCLUDES:
                raise ValueError(f"{each!r} is not served here; those are {', '.join(SERVED_INCLUDES)}")
        return value

    @model_validator(mode="after")
    def agree(self) -> Self:
        if self.conversation is not None and self.previous_response_id is not None:
            raise ValueError("conversation: continues another response than previous_response_id; send one of both")
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options: has no effect unless stream is true; leave it out")
        refuse_clashes(self.tools)
        if (
            offered(self.tools, self.tool_choice).choice == "required"
            and not self.tools
            and not AGENT.fullmatch(self.model)
        ):
            raise ValueError("tool_choice: there is no tool to choose; add one, or leave it out")
        return self

    @property
    def predecessor(self) -> Predecessor:
        """The response or the conversation that this one continues."""
        return Predecessor(self.previous_response_id, self._conversation_id)

    def to_new(
        self, turn_with: "TurnWith" = no_turn, events_of: "EventsOf" = lambda _: (), *, is_approved: bool = False
    ) -> NewResponse:
        """Return the request, with the items that it refers to in their turns.

        Args:
            is_approved: whether the tools of an MCP server without `require_approval` need no approval.

        Raises InvalidRequest for items of types that no input has, and as `turn_with` does.
        """
        if is_approved and any(tool.type == "mcp" for tool in self.tools):
            approved = tuple(tool.approved() if tool.type == "mcp" else tool for tool in self.tools)
            return self.model_copy(update={"tools": approved}).to_new(turn_with, events_of)
        items = items_in(self.input, item_at(partial(turn_with, self.predecessor), events_of))
        given = given_input(items)
        named = AGENT.fullmatch(self.model)
        tools = offered(self.tools, self.tool_choice)
        sent = SentRequest(
            echo=self._echo(),
            functions=tuple(tool.name for tool in tools.functions),
            include=tuple(dict.fromkeys(self.include)),
            input=stored_items(items),
            takes_one_call=not self.parallel_tool_calls,
            is_in_background=self.background,
        )
        return NewResponse(
            messages=given.messages,
            config=self._config(tools),
            sent=sent,
            agent_id=named[1] if named else None,
            changed=self._changed,
            given=given.given,
            previous=self.previous_response_id,
            conversation=self._conversation_id,
            needs_whole_history=self.truncation == "disabled",
            max_output_tokens=self.max_output_tokens,
            max_tool_calls=self.max_tool_calls,
            extras=self._extras(),
            tool_extras=tool_extras(tools.functions),
            tool_indexes=tuple(self.tools.index(tool) for tool, _ in tools.toolgroups),
            approvals=given.approvals,
            listed=given.listed,
            own_toolgroups=tuple(tool.to_own() for tool in tools.hosted if tool.type == "mcp"),
            is_stored=self.store,
            is_streamed=self.stream and not self.background,
        )

    @property
    def _conversation_id(self) -> str | None:
        return self.conversation.id if isinstance(self.conversation, ConversationParam) else self.conversation

    def _config(self, tools: OfferedTools) -> AgentConfig:
        limit = {} if self.max_infer_iters is None else {"max_infer_iters": self.max_infer_iters}
        return AgentConfig(
            model=self.model,
            instructions=self.instructions or "",
            sampling_params=self._sampling(),
            response_format=self._format(),
            client_tools=tuple(tool.to_tool() for tool in tools.functions),
            toolgroups=tuple(toolgroup for _, toolgroup in tools.toolgroups),
            tool_config=ToolConfig(tool_choice=tools.choice),
            **limit,
        )

    @property
    def _changed(self) -> frozenset[str]:
        """The fields of the configuration that replace those of an agent."""
        sampled = (self.temperature, self.top_p, self.max_output_tokens)
        changes = {
            "instructions": self.instructions is not None,
            "sampling_params": any(each is not None for each in sampled),
            "response_format": self.text is not None and self.text.format is not None,
            "client_tools": any(tool.type == "function" for tool in self.tools),
            "toolgroups": any(tool.type != "function" for tool in self.tools),
            "tool_config": self.tool_choice != "auto",
            "max_infer_iters": self.max_infer_iters is not None,
        }
        return frozenset(name for name, is_changed in changes.items() if is_changed)

    def _sampling(self) -> SamplingParams:
        """Return the sampling; an omitted field has the model's own default."""
        return _sampling_of(self.temperature, self.top_p, self.max_output_tokens)

    def _format(self) -> JsonSchemaFormat | None:
        match self.text.format if self.text else None:
            case TextSchemaFormat(schema_=schema):
                return JsonSchemaFormat(json_schema=schema)
            case TextPlainFormat(type="json_object"):
                return JsonSchemaFormat(json_schema=ANY_OBJECT)
        return None

    def _extras(self) -> dict[str, Any]:
        """Return the fields for servers of OpenAI's API, in the terms of its chat completions."""
        extras: dict[str, Any] = self.model_dump(
            mode="json", exclude_unset=True, exclude_none=True, include=set(EXTRAS)
        )
        if not self.tools:
            extras.pop("parallel_tool_calls", None)
        if self.reasoning is not None and self.reasoning.effort is not None:
            extras["reasoning_effort"] = self.reasoning.effort
        if self.text is not None and self.text.verbosity is not None:
            extras["verbosity"] = self.text.verbosity
        match self.text.format if self.text else None:
            case TextSchemaFormat() as told:
                schema = told.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"type"})
                extras["response_format"] = {"type": "json_schema", "json_schema": schema}
            case TextPlainFormat(type="json_object"):
                extras["response_format"] = {"type": "json_object"}
        return extras

    def _echo(self) -> JsonObject:
        """Return the fields of the response that repeat the request."""
        text = self.text.model_dump(mode="json", by_alias=True, exclude_none=True) if self.text else {}
        choice = self.tool_choice
        return {
            **self.model_dump(mode="json", include=set(ECHOED)),
            "metadata": self.metadata or {},
            "tools": [tool.to_echo() for tool in self.tools],
            "tool_choice": choice if isinstance(choice, str) else choice.model_dump(mode="json"),
            "text": {"format": {"type": "text"}, **text},
            "reasoning": self.reasoning.model_dump(mode="json") if self.reasoning else None,
            **({} if self.conversation is None else {"conversation": {"id": self._conversation_id}}),
        }


@lru_cache(maxsize=256)  # most requests leave it to the model
def _sampling_of(temperature: float | None, top_p: float | None, max_output_tokens: int | None) -> SamplingParams:
    strategy: Strategy = TopP(temperature=temperature or None, top_p=top_p)
    if temperature == 0:
        strategy = Greedy()
    return SamplingParams(strategy=strategy, max_tokens=max_output_tokens or 0)
