"""What registering has in common, whatever is registered."""

from turnstone.domain.errors import Unsupported


def refuse_unknown_provider(provider_id: str, *known: str) -> None:
    """Raise Unsupported if none of the known providers is meant."""
    if provider_id not in known:
        there = ", ".join(known)
        raise Unsupported(f"provider_id: this server has no {provider_id!r}; it has: {there}", ("provider_id",))
