"""Requests of Letta's API about messages."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field

from turnstone.dialects.letta.ids import row_in
from turnstone.dialects.letta.messages import NO_ANSWER_TOOL, AnswerTool, Note, Row, rows_of, system_row
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.letta.agents import LettaAgent
from turnstone.domain.messages.messages import Message, SystemMessage, UserMessage
from turnstone.domain.tools.tool_runs import SEND_NAME
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.values.frozen import Many, NullMeansDefault
from turnstone.domain.values.numbers import Flag

DEFAULT_ROWS, MOST_ROWS = 10, 1_000
MOST_MESSAGES = 100
TRUE, FALSE = ("true", "1"), ("false", "0")
TOOL_CHARACTERS = 256
ToolName = Annotated[str, Field(max_length=TOOL_CHARACTERS)]
TEXT: Mapping[str, Any] = {"type": "string"}
TOOL_NAME: Mapping[str, Any] = {**TEXT, "maxLength": TOOL_CHARACTERS}
AFTER: Mapping[str, Any] = {"description": "The same as `cursor`, as later clients call it.", "schema": TEXT}
LIMIT: Mapping[str, Any] = {"type": "integer", "minimum": 1, "maximum": MOST_ROWS}
TOOL_PARAMETERS = ("assistant_message_tool_name", "assistant_message_tool_kwarg")
QUERY: Mapping[str, str | Mapping[str, Any]] = {
    "before": {"description": "The id of a message; only older ones are returned.", "schema": TEXT},
    "limit": {
        "description": "How many messages to return at most, of the newest; an inference counts once.",
        "schema": LIMIT,
    },
    "msg_object": {
        "description": "Whether messages are returned as the model sees them.",
        "schema": {"enum": ["true", "false"]},
    },
    "assistant_message_tool_name": {
        "description": "The tool whose calls are shown as messages to the user.",
        "schema": TOOL_NAME,
    },
    "assistant_message_tool_kwarg": {
        "description": "The argument of that tool that holds the message.",
        "schema": TOOL_NAME,
    },
}


def refuse_no_steps(value: bool) -> bool:
    """Return true. Raises ValueError for false."""
    if not value:
        raise ValueError("this server streams each message as it is made; leave it out")
    return value


def refuse_tokens(value: bool) -> bool:
    """Return false. Raises ValueError for true."""
    if value:
        raise ValueError("a run has no stream; leave it out, or stream the messages")
    return value


def refuse_name(name: str | None) -> None:
    """Return no name. Raises ValueError for one."""
    if name:
        raise ValueError("a message has no name here; leave it out")


class MessageCreate(NullMeansDefault):
    """A message to an agent."""

    role: Literal["user", "system"]
    text: str
    name: Annotated[str | None, AfterValidator(refuse_name)] = None

    def to_message(self) -> Message:
        """Return the message of a turn."""
        return SystemMessage(content=self.text) if self.role == "system" else UserMessage(content=self.text)


class RequestConfig(NullMeansDefault):
    """How calls of the tool that answers the user are shown: as messages to the user, or as any other call."""

    use_assistant_message: Flag = True
    assistant_message_tool_name: ToolName = SEND_NAME
    assistant_message_tool_kwarg: ToolName = "message"

    @property
    def answers_by(self) -> AnswerTool:
        """The tool whose calls are shown as messages to the user."""
        if not self.use_assistant_message:
            return NO_ANSWER_TOOL
        return AnswerTool(self.assistant_message_tool_name, self.assistant_message_tool_kwarg)


class LettaRequest(NullMeansDefault):
    """Messages to an agent, which answers them in one turn."""

    messages: Annotated[Many[MessageCreate], Field(min_length=1, max_length=MOST_MESSAGES)]
    config: RequestConfig = RequestConfig.model_construct()

    def to_messages(self) -> tuple[Message, ...]:
        """Return the messages of the turn."""
        return tuple(each.to_message() for each in self.messages)


class StreamingRequest(LettaRequest):
    """Messages to an agent, whose turn is streamed."""

    stream_steps: Annotated[Flag, AfterValidator(refuse_no_steps)] = True
    stream_tokens: Flag = False


class BackgroundRequest(LettaRequest):
    """Messages to an agent, whose turn runs in the background."""

    stream_tokens: Annotated[Flag, AfterValidator(refuse_tokens)] = False


class MessagesQuery(NamedTuple):
    """The requested part of an agent's messages.

    Attributes:
        before: the id of the first message that is too new, None for the newest.
        has_objects: whether messages are returned as the model sees them.
    """

    before: str | None
    limit: int
    answers_by: AnswerTool
    has_objects: bool = False

    @property
    def last_turn(self) -> str | None:
        """The newest turn that may have such messages, None for all. Raises NotFound for an id that is none."""
        return None if self.before is None else row_in(self.before)[0]

    def notes(self, agent: LettaAgent, turns: Iterator[TurnState]) -> tuple[Note, ...]:
        """Return the messages of these turns, which come newest first; the result is oldest first.

        Raises NotFound if the agent has no message `before`.
        """
        return tuple(note for row in self.rows(agent, turns) for note in row.notes)

    def rows(self, agent: LettaAgent, turns: Iterator[TurnState]) -> tuple[Row, ...]:
        """Return the rows of the messages, oldest first. Raises NotFound as `notes` does."""
        newest_first: list[Row] = []
        if self.before is not None and self.last_turn == agent.agent_id:
            return ()
        is_found = self.before is None
        for state in turns:
            for row in reversed(rows_of(state, self.answers_by)):
                if not is_found:
                    is_found = (state.turn_id, row.number) == row_in(str(self.before))
                elif len(newest_first) < self.limit:
                    newest_first.append(row)
            if not is_found:
                break
            if len(newest_first) >= self.limit:
                break
        if not is_found:
            raise NotFound("message", str(self.before))
        if len(newest_first) < self.limit:
            newest_first.append(system_row(agent))
        return tuple(reversed(newest_first))


def messages_query(query: Mapping[str, list[str]]) -> MessagesQuery:
    """Return the query of a request. Raises InvalidRequest."""
    texts = {name: values[-1] for name, values in query.items() if values}
    tool, argument = (tool_name_in(name, texts.get(name)) for name in TOOL_PARAMETERS)
    answers_by = AnswerTool(tool or SEND_NAME, argument or "message") if tool or argument else NO_ANSWER_TOOL
    refuse_parameters(query, "after", "order", "order_by")
    has_objects = flag_in("msg_object", texts.get("msg_object"))
    return MessagesQuery(texts.get("before"), limit_in(texts.get("limit"), DEFAULT_ROWS), answers_by, has_objects)


def refuse_parameters(query: Mapping[str, list[str]], *names: str) -> None:
    """Raise InvalidRequest for parameters of later clients that the list does not have: they would not end it."""
    for name in names:
        if name in query:
            raise InvalidRequest(f"{name}: this list has no such parameter; leave it out", ("query", name))


def cursor_in(query: Mapping[str, list[str]]) -> str | None:
    """Return the item after which a list continues. Raises InvalidRequest for another order, or the other direction."""
    texts = {name: values[-1] for name, values in query.items() if values}
    for name in ("before", "order_by", "order"):
        if name in texts and (name, texts[name]) != ("order", "asc"):
            raise InvalidRequest(f"{name}: this list has one order; continue it with after", ("query", name))
    return texts.get("cursor", texts.get("after"))


def limit_in(text: str | None, otherwise: int) -> int:
    """Return the limit of a list. Raises InvalidRequest."""
    if text is None:
        return otherwise
    if not (text.isascii() and text.isdigit() and len(text) < 5 and 1 <= int(text) <= MOST_ROWS):
        raise InvalidRequest(f"limit: must be a whole number from 1 to {MOST_ROWS}", ("query", "limit"))
    return int(text)


def tool_name_in(name: str, text: str | None) -> str | None:
    """Return the name of a tool, or of its argument, as given. Raises InvalidRequest."""
    if text is not None and len(text) > TOOL_CHARACTERS:
        raise InvalidRequest(f"{name}: must have at most {TOOL_CHARACTERS} characters", ("query", name))
    return text


def flag_in(name: str, text: str | None, otherwise: str = FALSE[0]) -> bool:
    """Return the truth value of a parameter, false without one or as given. Raises InvalidRequest."""
    lowered = (text or otherwise).lower()
    if lowered not in (*TRUE, *FALSE):
        raise InvalidRequest(f"{name}: must be true or false", ("query", name))
    return lowered in TRUE
