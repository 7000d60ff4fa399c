"""Identity proved by credentials, with its expiry."""

from collections.abc import Mapping
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import Unauthenticated, UnusableTenant

MAX_TENANT_BYTES = 256


class Identity(NamedTuple):
    """The caller that a token names.

    Attributes:
        valid_until: the token's expiry; None if it does not expire.
    """

    caller: Caller
    valid_until: datetime | None = None


def caller_named(fields: Mapping[str, object]) -> Caller:
    """Return the caller with these fields; a tenant and a principal are required.

    Raises:
        UnusableTenant: the tenant's name is too long.
        Unauthenticated: no caller is named.
    """
    try:
        caller = Caller.model_validate(fields)
        names = (caller.tenant, caller.principal, *chain.from_iterable(caller.categories))
        _ = [name.encode() for name in names]
    except ValueError:  # a field of another type, or a lone surrogate, which JSON can hold and UTF-8 cannot
        raise Unauthenticated from None
    if not caller.tenant or not caller.principal:
        raise Unauthenticated
    if not is_usable_tenant(caller.tenant):
        raise UnusableTenant
    return caller


def is_usable_tenant(name: str) -> bool:
    """Return whether a tenant may have the name: a longer one does not fit the supervisor's keys of its turns.

    The keys encode four characters in three bytes each.
    """
    try:
        size_bytes = len(name.encode()) + 2 * sum(map(name.count, "%|:#"))
    except UnicodeEncodeError:
        return False
    return 0 < size_bytes <= MAX_TENANT_BYTES
