"""What is asked in the query of an address."""

from collections.abc import Mapping, Sequence

from turnstone.domain.errors import InvalidRequest


def only(query: Mapping[str, Sequence[str]], name: str) -> str | None:
    """Return the one value of that name, None if there is none. Raises InvalidRequest for several."""
    values = query.get(name, ())
    if len(values) > 1:
        raise InvalidRequest(f"{name}: must be one value, not {len(values)}", ("query", name))
    return values[0] if values else None
