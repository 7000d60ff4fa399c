"""What registering has in common, whatever is registered."""

from collections.abc import Mapping

from pydantic import BaseModel

from turnstone.domain.errors import Unsupported


def refuse_unknown_provider(provider_id: str, *known: str) -> None:
    """Raise Unsupported if none of the known providers is meant."""
    if provider_id not in known:
        there = ", ".join(known)
        raise Unsupported(
            f"provider_id: this server has no provider {provider_id!r}; it has: {there}", ("provider_id",)
        )


def given_fields(body: BaseModel, names: Mapping[str, str]) -> frozenset[str]:
    """Return the fields that a body gives, by what they are called where it is registered."""
    return frozenset(names[name] for name in body.model_fields_set if name in names)
