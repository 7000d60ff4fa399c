"""Request bodies of the Agents API of September 2024 that start a turn, or resume one with tool answers.

Source: the contract's file on that API, and the wire of `llama-stack-client` 0.0.40.
"""

from typing import Annotated, Literal

from pydantic import Field

from turnstone.dialects.llama_stack_2024.requests import SessionNamed
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.messages.messages import InputMessage, ToolResponseMessage, UserMessage
from turnstone.domain.turns.turns import Attachment, NewTurn
from turnstone.domain.values.content import Content
from turnstone.domain.values.frozen import Frozen, Many
from turnstone.domain.values.numbers import Flag


class ToolAnswer2024(Frozen):
    """A tool's answer, under the role name of that time."""

    role: Literal["ipython"] = "ipython"
    call_id: str
    tool_name: str | None = None
    content: Content


InputMessage2024 = Annotated[UserMessage | ToolResponseMessage | ToolAnswer2024, Field(discriminator="role")]


def todays_message(message: UserMessage | ToolResponseMessage | ToolAnswer2024) -> InputMessage:
    if isinstance(message, ToolAnswer2024):
        return ToolResponseMessage(call_id=message.call_id, content=message.content)
    return message


class CreateTurn2024(SessionNamed):
    messages: Annotated[Many[InputMessage2024], Field(min_length=1)]
    attachments: Many[Attachment] = ()
    stream: Flag = False

    def to_new_turn(self) -> NewTurn:
        """Return the request of the turn: images are shown to its model. Raises Unsupported, InvalidRequest."""
        messages = tuple(map(todays_message, self.messages))
        if not self.attachments:
            return NewTurn(messages=messages)
        if any(isinstance(message, ToolResponseMessage) for message in messages):
            message = "attachments: tool responses continue a turn, which has its attachments; leave the list empty"
            raise InvalidRequest(message, ("attachments",))
        from turnstone.dialects.llama_stack.turns.documents import documents_of, is_image  # only with attachments

        given = tuple(documents_of(self.attachments, "attachments"))
        images = tuple(document for document in given if is_image(document))
        texts = tuple(document for document in given if not is_image(document))
        return NewTurn(messages=messages, documents=images, attachments=texts)
