"""Messages and tools of OpenAI's chat completions, and what they are in our words.

Source: the OpenAI API reference.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from turnstone.dialects.openai.strict import Strict, refuse
from turnstone.domain.content import Content, Image, ImageItem, TextItem, Url
from turnstone.domain.messages import CompletionMessage, Message, SystemMessage, ToolResponseMessage, UserMessage
from turnstone.domain.model import Many
from turnstone.domain.numbers import Flag
from turnstone.domain.object_schemas import ObjectSchema
from turnstone.domain.tools import ToolDef, call_from_json

NO_NAMES = "no model here is told the names of who takes part; leave it out"
REFUSED = {
    "name": NO_NAMES,
    "audio": "this server passes no audio on; leave it out",
    "function_call": "is deprecated; use tool_calls",
    "strict": "is not passed on; leave it out, or send false",
}


class TextPart(Strict):
    type: Literal["text"]
    text: str


class ImageUrl(Strict):
    url: str
    detail: Literal["auto"] | None = None


class ImagePart(Strict):
    type: Literal["image_url"]
    image_url: ImageUrl


Texts = str | Annotated[Many[TextPart], Field(min_length=1)]
Parts = Annotated[Many[Annotated[TextPart | ImagePart, Field(discriminator="type")]], Field(min_length=1)]


class Said(Strict):
    """What all messages have in common."""

    name: None = None

    @field_validator("name", mode="before")
    @classmethod
    def refuse_name(cls, value: Any, field: ValidationInfo) -> Any:
        return refuse(value, field, REFUSED)


class SystemSaid(Said):
    role: Literal["system", "developer"]
    content: Texts

    def to_message(self) -> Message:
        return SystemMessage(content=text_of_parts(self.content))


class UserSaid(Said):
    role: Literal["user"] = "user"
    content: str | Parts

    def to_message(self) -> Message:
        return UserMessage(content=content_of(self.content))


class FunctionCall(Strict):
    name: Annotated[str, Field(min_length=1)]
    arguments: str


class Call(Strict):
    id: str
    type: Literal["function"]
    function: FunctionCall


class AssistantSaid(Said):
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
        said = self.content if self.content is not None else self.refusal or ""
        return CompletionMessage(content=text_of_parts(said), stop_reason="end_of_turn", tool_calls=tuple(calls))


class ToolSaid(Said):
    role: Literal["tool"] = "tool"
    content: Texts
    tool_call_id: str

    def to_message(self) -> Message:
        return ToolResponseMessage(call_id=self.tool_call_id, content=text_of_parts(self.content))


AnySaid = Annotated[SystemSaid | UserSaid | AssistantSaid | ToolSaid, Field(discriminator="role")]


class Function(Strict):
    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    parameters: ObjectSchema | None = None
    strict: Flag | None = None

    @field_validator("strict")
    @classmethod
    def refuse_strict(cls, value: bool | None, field: ValidationInfo) -> bool | None:
        return value if not value else refuse(value, field, REFUSED)


class Tool(Strict):
    type: Literal["function"]
    function: Function

    def to_tool(self) -> ToolDef:
        told = self.function
        return ToolDef(name=told.name, description=told.description, input_schema=told.parameters)


class NamedFunction(Strict):
    name: str


class NamedTool(Strict):
    type: Literal["function"]
    function: NamedFunction


def content_of(content: str | tuple[TextPart | ImagePart, ...]) -> Content:
    """Return what a user says; images that are told by value instead of an address are taken as such."""
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
