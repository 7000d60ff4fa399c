"""Content of input messages: texts and images."""

import re
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, field_validator

from turnstone.dialects.openai.strict import StrictRequest
from turnstone.domain.values.content import Content, Image, ImageItem, TextItem, Url
from turnstone.domain.values.frozen import Many

BY_VALUE = re.compile(r"data:image/[\w.+-]+;base64,")
FILES = "this server passes no files on to models; send texts and images by address or by value"


def _form(value: Any) -> str:
    """Return the tag of a text, or of a list; a union with tags names the problems of one member only."""
    return "text" if isinstance(value, str) else "list"


Form = Discriminator(_form)
AsText = Annotated[str, Tag("text")]
AsList = Tag("list")


class InputText(StrictRequest):
    type: Literal["input_text", "output_text", "text"]
    text: str
    annotations: Many[dict[str, Any]] = ()
    logprobs: Many[dict[str, Any]] = ()


class RefusalPart(StrictRequest):
    type: Literal["refusal"]
    refusal: str


class InputImage(StrictRequest):
    type: Literal["input_image"]
    image_url: str
    detail: Literal["auto", "low", "high", "original"] = "auto"
    file_id: None = None

    @field_validator("file_id", mode="before")
    @classmethod
    def refuse_files(cls, value: Any) -> Any:
        if value is not None:
            raise ValueError(FILES)
        return value


class InputFile(StrictRequest):
    """A file, which is refused in any form."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["input_file"]

    @field_validator("type")
    @classmethod
    def refuse_files(cls, _: str) -> str:
        raise ValueError(FILES)


Part = Annotated[InputText | RefusalPart | InputImage | InputFile, Field(discriminator="type")]
Texts = Annotated[InputText | RefusalPart, Field(discriminator="type")]
AnyContent = Annotated[AsText | Annotated[Many[Part], Field(min_length=1), AsList], Form]


def content_of(content: str | tuple[InputText | RefusalPart | InputImage | InputFile, ...]) -> Content:
    """Return the content for a model; a data URL becomes an image by value."""
    if isinstance(content, str):
        return content
    if len(content) == 1 and not isinstance(content[0], InputImage):
        return _text(content[0])
    return tuple(
        ImageItem(image=_image(part.image_url)) if isinstance(part, InputImage) else TextItem(text=_text(part))
        for part in content
    )


def text_of_parts(content: str | tuple[InputText | RefusalPart, ...]) -> str:
    """Return the text of an assistant's content, whose parts continue each other."""
    return content if isinstance(content, str) else "".join(map(_text, content))


def _text(part: InputText | RefusalPart | InputFile) -> str:
    return part.refusal if isinstance(part, RefusalPart) else part.text if isinstance(part, InputText) else ""


def _image(url: str) -> Image:
    return Image(data=url) if BY_VALUE.match(url) else Image(url=Url(uri=url))
