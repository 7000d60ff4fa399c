"""Request bodies of the Llama Stack Agents API that start or resume a turn.

Source: the Agents contract of Llama Stack 0.2.x; unknown fields are ignored, nulls stand for the default.
"""

from pydantic import Field

from turnstone.domain.agents.agents import TurnOverrides
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.messages.messages import InputMessage, ToolResponseMessage
from turnstone.domain.tools.tools import ToolResponse
from turnstone.domain.turns.turn_settings import TurnDocument
from turnstone.domain.turns.turns import Attachment, NewTurn
from turnstone.domain.values.frozen import Many, NullMeansDefault
from turnstone.domain.values.numbers import Flag


class CreateTurn(TurnOverrides):
    messages: Many[InputMessage] = Field(min_length=1)
    stream: Flag = False
    documents: Many[Attachment] = ()

    @property
    def may_run_in_background(self) -> bool:
        """Whether a client that prefers it is answered before the turn ends: not where it streams or resumes a turn."""
        return not self.stream and not any(isinstance(message, ToolResponseMessage) for message in self.messages)

    def to_new_turn(self) -> NewTurn:
        """Return the request of the turn. Raises Unsupported, InvalidRequest."""
        documents = self._documents() if self.documents else ()
        given = {name: getattr(self, name) for name in TurnOverrides.model_fields}
        # validated already, as parts of this body
        overrides = TurnOverrides.model_construct(**given)
        return NewTurn.model_construct(messages=self.messages, overrides=overrides, documents=documents)

    def _documents(self) -> tuple[TurnDocument, ...]:
        if any(isinstance(message, ToolResponseMessage) for message in self.messages):
            message = "documents: tool responses continue a turn, which has its documents; leave the list empty"
            raise InvalidRequest(message, ("documents",))
        from turnstone.dialects.llama_stack.turns.documents import documents_of  # only for turns with documents

        return tuple(documents_of(self.documents))


class ResumeTurn(NullMeansDefault):
    tool_responses: Many[ToolResponse] = Field(min_length=1)
    stream: Flag = False
