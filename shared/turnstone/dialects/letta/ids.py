"""Ids of Letta's API, which are those of this server with the kind before them, and names of agents."""

from secrets import choice
from uuid import UUID, uuid5

from turnstone.domain.errors import NotFound
from turnstone.domain.letta.agents import NAMESPACE

ROW_DIGITS = 4
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
    owner, _, row = text.removeprefix("message-").rpartition("-")
    try:
        number = int(row, 16)
        UUID(owner)
    except ValueError:
        raise NotFound("message", text) from None
    return owner, number


def random_name() -> str:
    """Return a name of two words, for an agent that is created without one."""
    return choice(FIRST) + choice(SECOND)
