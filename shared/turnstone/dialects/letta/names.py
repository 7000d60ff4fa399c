"""Names of agents that are created without one."""

from secrets import choice

FIRST = (
    *("Brave", "Bright", "Calm", "Clever", "Curious", "Eager", "Gentle", "Happy"),
    *("Jolly", "Kind", "Lively", "Merry", "Noble", "Patient", "Quiet", "Witty"),
)
SECOND = (
    *("Badger", "Beaver", "Curlew", "Dunlin", "Falcon", "Heron", "Ibis", "Jackdaw"),
    *("Lapwing", "Marten", "Otter", "Plover", "Redshank", "Sandpiper", "Turnstone", "Wren"),
)


def random_name() -> str:
    """Return a name of two words."""
    return choice(FIRST) + choice(SECOND)
