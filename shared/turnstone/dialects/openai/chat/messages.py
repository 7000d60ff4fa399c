"""Messages and tools of OpenAI's chat completions, converted to domain values.

Source: the OpenAI API reference.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from turnstone.dialects.openai.strict import Open, StrictRequest, refuse
from turnstone.domain.messages.messages import (
    CompletionMessage,
    Message,
    SystemMessage,
    ToolResponseMessage,
    UserMessage,
)
from turnstone.domain.tools.tools import ToolDef, call_from_json
from turnstone.domain.values.content import Content, Image, ImageItem, TextItem, Url
from turnstone.domain.values.frozen import Many
from turnstone.domain.values.numbers import Flag
from turnstone.domain.values.object_schemas import ObjectSchema

REFUSED = {
    "audio": "this server passes no audio on; leave it out",
    "function_call": "is deprecated; use tool_calls",
}


class TextPart(Open):
    type: Literal["text"]
    text: str

    @property
    def is_plain(self) -> bool:
        """Whether the domain value holds every field that was sent."""
        return not self.further


class ImageUrl(Open):
    url: str
    detail: Literal["auto", "low", "high"] | None = None


class ImagePart(Open):
    type: Literal["image_url"]
    image_url: ImageUrl

    @property
    def is_plain(self) -> bool:
        """Whether the domain value holds every field that was sent."""
        return not self.further and not self.image_url.further and self.image_url.detail in (None, "auto")


Texts = str | Annotated[Many[TextPart], Field(min_length=1)]
Parts = Annotated[Many[Annotated[TextPart | ImagePart, Field(discriminator="type")]], Field(min_length=1)]


class ChatMessage(Open):
    """Common fields of all messages."""

    content: Any
    name: str | None = None

    def to_extras(self) -> dict[str, Any]:
        """Return the fields of OpenAI's message that the domain value lacks."""
        extras = dict(self.further) if self.name is None else {**self.further, "name": self.name}
        if isinstance(self.content, tuple) and not all(part.is_plain for part in self.content):
            extras["content"] = [part.model_dump(mode="json", exclude_none=True) for part in self.content]
        return extras


class SystemChatMessage(ChatMessage):
    role: Literal["system", "developer"]
    content: Texts

    def to_message(self) -> Message:
        return SystemMessage(content=text_of_parts(self.content))


class UserChatMessage(ChatMessage):
    role: Literal["user"] = "user"
    content: str | Parts

    def to_message(self) -> Message:
        return UserMessage(content=content_of(self.content))


class FunctionCall(Open):
    name: Annotated[str, Field(min_length=1)]
    arguments: str


class Call(Open):
    id: str
    type: Literal["function"]
    function: FunctionCall


class AssistantChatMessage(ChatMessage):
    role: Literal["assistant"] = "assistant"
    content: Texts | None = None
    refusal: str | None = None
    tool_calls: Many[Call] = ()
    audio: None = None
    function_call: None = None

    @field_validator("audio", "function_call", mode="before")
    @classmethod
    def refuse_without_effect(cls, value: Any, field: ValidationInfo) -> Any:
        return refuse(value, field, REFUSED)

    def to_message(self) -> Message:
        calls = (call_from_json(call.id, call.function.name, call.function.arguments) for call in self.tool_calls)
        shown = self.content if self.content is not None else self.refusal or ""
        return CompletionMessage(content=text_of_parts(shown), stop_reason="end_of_turn", tool_calls=tuple(calls))


class ToolChatMessage(ChatMessage):
    role: Literal["tool"] = "tool"
    content: Texts
    tool_call_id: str

    def to_message(self) -> Message:
        return ToolResponseMessage(call_id=self.tool_call_id, content=text_of_parts(self.content))


AnyChatMessage = Annotated[
    SystemChatMessage | UserChatMessage | AssistantChatMessage | ToolChatMessage, Field(discriminator="role")
]


class Function(Open):
    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    parameters: ObjectSchema | None = None
    strict: Flag | None = None


class Tool(Open):
    type: Literal["function"]
    function: Function

    def to_tool(self) -> ToolDef:
        function = self.function
        return ToolDef(name=function.name, description=function.description, input_schema=function.parameters)

    def to_extras(self) -> dict[str, Any]:
        """Return the fields of OpenAI's tool that the domain value lacks."""
        function = {**self.function.further, **({"strict": True} if self.function.strict else {})}
        return {**self.further, **({"function": function} if function else {})}


class NamedFunction(StrictRequest):
    name: str


class NamedTool(StrictRequest):
    type: Literal["function"]
    function: NamedFunction


def content_of(content: str | tuple[TextPart | ImagePart, ...]) -> Content:
    """Return a user's content; a data URL becomes an image by value."""
    if isinstance(content, str):
        return content
    return tuple(
        TextItem(text=part.text) if isinstance(part, TextPart) else ImageItem(image=_image(part.image_url.url))
        for part in content
    )


def text_of_parts(content: str | tuple[TextPart, ...]) -> str:
    return content if isinstance(content, str) else "\n".join(part.text for part in content)


def _image(url: str) -> Image:
    is_by_value = re.match(r"data:image/[\w.+-]+;base64,", url)
    return Image(data=url) if is_by_value else Image(url=Url(uri=url))
