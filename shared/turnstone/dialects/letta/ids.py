"""Ids of Letta's API, which are those of this server with the kind before them, and names of agents."""

import re
from secrets import choice
from uuid import uuid5

from turnstone.domain.errors import NotFound
from turnstone.domain.letta.agents import NAMESPACE

ROW_DIGITS = 4
MESSAGE_ID = rf"(?:message-)?([0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})-([0-9a-f]{{{ROW_DIGITS}}})"
FIRST = (
    *("Brave", "Bright", "Calm", "Clever", "Curious", "Eager", "Gentle", "Happy"),
    *("Jolly", "Kind", "Lively", "Merry", "Noble", "Patient", "Quiet", "Witty"),
)
SECOND = (
    *("Badger", "Beaver", "Curlew", "Dunlin", "Falcon", "Heron", "Ibis", "Jackdaw"),
    *("Lapwing", "Marten", "Otter", "Plover", "Redshank", "Sandpiper", "Turnstone", "Wren"),
)


def shown(kind: str, own: str) -> str:
    """Return the id as the API shows it."""
    return f"{kind}-{own}"


def bare(kind: str, text: str) -> str:
    """Return the id of this server in one of the API, which may lack the kind."""
    return text.removeprefix(f"{kind}-")


def user_id(principal: str | None) -> str:
    """Return the id that stands for a principal."""
    return shown("user", str(uuid5(NAMESPACE, f"user:{principal or ''}")))


def organization_id(tenant: str) -> str:
    """Return the id that stands for a tenant."""
    return shown("org", str(uuid5(NAMESPACE, f"org:{tenant}")))


def message_id(owner: str, row: int) -> str:
    """Return the id of a row of a turn, or of the agent's system message."""
    return f"message-{owner}-{row:0{ROW_DIGITS}x}"


def row_in(text: str) -> tuple[str, int]:
    """Return the turn, or the agent, and the row of the id of a message. Raises NotFound for any other text."""
    found = re.fullmatch(MESSAGE_ID, text)
    if found is None:
        raise NotFound("message", text)
    return found[1], int(found[2], 16)


def random_name() -> str:
    """Return a name of two words, for an agent that is created without one."""
    return choice(FIRST) + choice(SECOND)
