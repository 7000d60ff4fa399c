"""Conversations: sessions under an id of their own, with metadata, and items that no run added."""

from collections.abc import Mapping
from typing import NamedTuple

from turnstone.domain.messages.messages import Message
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.responses.requests import Given, SentRequest
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.values.frozen import Frozen, JsonObject


class ConversationMetadata(Frozen):
    """What a session has as a conversation. Any session is one, without metadata at first."""

    metadata: dict[str, str] = {}


class AddedItems(NamedTuple):
    """Items to add to a conversation, and the messages that they are for a model.

    Attributes:
        given: the answers to calls that the items themselves do not contain.
    """

    messages: tuple[Message, ...] = ()
    input: tuple[JsonObject, ...] = ()
    given: tuple[Given, ...] = ()


class NewConversation(NamedTuple):
    """A caller's request of a conversation.

    Attributes:
        agent_id: the agent whose session it is, None for no agent's.
        session_id: a session of the agent that exists, None for a new one.
    """

    agent_id: str | None = None
    metadata: Mapping[str, str] = {}
    items: AddedItems = AddedItems()
    session_id: str | None = None


class StoredConversation(NamedTuple):
    """A conversation as stored."""

    ref: SessionRef
    session: Session
    conversation: ConversationMetadata


class ConversationTurn(NamedTuple):
    """A turn of a conversation.

    Attributes:
        sent: the request of its response, or the items that were added as this turn; None if another API began it.
    """

    ref: TurnRef
    state: TurnState
    sent: SentRequest | None
