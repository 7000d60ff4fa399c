"""What credentials prove: whom they name, and for how long."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import Unauthenticated, UnusableTenant

MAX_TENANT_BYTES = 256


class Identity(NamedTuple):
    """Whom a token names, and until when it does so of itself; None if that has no end."""

    caller: Caller
    valid_until: datetime | None = None


def caller_named(fields: Mapping[str, object]) -> Caller:
    """Return the caller these fields name; a tenant and a principal are needed.

    Raises:
        UnusableTenant: its name is too long.
        Unauthenticated: nobody is named.
    """
    try:
        caller = Caller.model_validate(fields)
        names = (caller.tenant, caller.principal, *caller.roles, *caller.teams, *caller.projects, *caller.namespaces)
        _ = [name.encode() for name in names]
    except ValueError:  # a field of another type, or half a character, which JSON can hold and UTF-8 can't
        raise Unauthenticated from None
    if not caller.tenant or not caller.principal:
        raise Unauthenticated
    if not is_usable_tenant(caller.tenant):
        raise UnusableTenant
    return caller


def is_usable_tenant(name: str) -> bool:
    """Tell whether a tenant may have the name: a longer one can't be told from the keys under which its turns are kept.

    The keys keep four of the characters in three bytes each.
    """
    try:
        size_bytes = len(name.encode()) + 2 * sum(map(name.count, "%|:#"))
    except UnicodeEncodeError:
        return False
    return 0 < size_bytes <= MAX_TENANT_BYTES
