"""Ids of responses, conversations and items: each contains the address of the named value, so no record maps them.

A response is a turn, a conversation a session. The bytes of an id hold each name of the address: a UUID as a zero and
its 16 bytes, any other text as its length and its UTF-8.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from turnstone.domain.errors import NotFound
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.values.ids import UUID_TEXT, uuid_text

RESPONSE, CONVERSATION = "resp_", "conv_"
RESPONSE_KIND, CONVERSATION_KIND, ITEM_KIND = "response", "conversation", "item"
UUID_BYTES = 16
MOST_TEXT_BYTES = 255
ITEM = re.compile(r"([a-z]+)_([0-9a-f]{32})([0-9a-f]{4})(?:[0-9a-f]{16})?")
APPROVALS = 0x7FFF  # the index of all approval requests, which differ by the ids of their calls
FIRST_INPUT = 0x8000  # the index of the first input item; those of the output are below


class ItemAddress(NamedTuple):
    """The turn of an item, and its position among the items of that turn."""

    turn_id: str
    position: int

    @property
    def is_input(self) -> bool:
        return self.position >= FIRST_INPUT


def response_id(ref: TurnRef) -> str:
    """Return the id of the turn's response."""
    return RESPONSE + _encoded(ref.agent_id, ref.session_id, ref.turn_id)


def conversation_id(ref: SessionRef) -> str:
    """Return the id of the session's conversation."""
    return CONVERSATION + _encoded(ref.agent_id, ref.session_id)


def turn_of(tenant: str, text: str) -> TurnRef:
    """Return the turn of a response's id, in the tenant. Raises NotFound for a text that is no such id."""
    names = _names_in(text, RESPONSE, 3)
    if names is None:
        raise NotFound(RESPONSE_KIND, text)
    agent_id, session_id, turn_id = names
    return TurnRef(tenant=tenant, agent_id=agent_id, session_id=session_id, turn_id=turn_id)


def session_of(tenant: str, text: str) -> SessionRef:
    """Return the session of a conversation's id, in the tenant. Raises NotFound for a text that is no such id."""
    names = _names_in(text, CONVERSATION, 2)
    if names is None:
        raise NotFound(CONVERSATION_KIND, text)
    agent_id, session_id = names
    return SessionRef(tenant=tenant, agent_id=agent_id, session_id=session_id)


def item_id(kind: str, turn_id: str, index: int) -> str:
    """Return the id of an item of the turn, which is a UUID; `kind` is a prefix such as `msg`."""
    return f"{kind}_{turn_id.replace('-', '')}{index:04x}"


def approval_id(turn_id: str, call_id: str) -> str:
    """Return the id of the item that requests an approval of the turn's call."""
    return item_id("mcpr", turn_id, APPROVALS) + sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def item_address(text: str) -> ItemAddress | None:
    """Return the address in an item's id, None for a text that is no such id."""
    found = ITEM.fullmatch(text)
    return None if found is None else ItemAddress(uuid_text(found[2]), int(found[3], 16))


@lru_cache(maxsize=1_024)  # a response shows its id several times, and the next request names it again
def _encoded(*names: str) -> str:
    return urlsafe_b64encode(b"".join(map(_framed, names))).decode().rstrip("=")


def _framed(name: str) -> bytes:
    """Return the bytes of one name. Raises ValueError for an empty or a long one."""
    if UUID_TEXT.fullmatch(name):
        return b"\0" + bytes.fromhex(name.replace("-", ""))
    text = name.encode()
    if not 0 < len(text) <= MOST_TEXT_BYTES:
        raise ValueError(f"a name in an id must have 1 to {MOST_TEXT_BYTES} bytes")
    return bytes((len(text),)) + text


def _names_in(text: str, prefix: str, count: int) -> list[str] | None:
    """Return the names in an id, None unless this module would write exactly that id of them."""
    encoded = text.removeprefix(prefix)
    if encoded == text or not re.fullmatch(r"[A-Za-z0-9_-]+", encoded):
        return None
    try:
        left = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
        names = []
        while left:
            size = left[0] or UUID_BYTES
            part = left[1 : 1 + size]
            names.append(part.decode() if left[0] else uuid_text(part.hex()))
            left = left[1 + size :]
        return names if len(names) == count and _encoded(*names) == encoded else None
    except ValueError:
        return None
