"""Access rules: a resource carries its owner, the creator, and the creator's groups at that time.

Source: the access check of Llama Stack 0.2.x: a reader needs a match in every category that a resource names.
"""

from turnstone.domain.access.caller import AccessAttributes, Caller
from turnstone.domain.values.frozen import Frozen

ADMIN = "admin"


class Ownership(Frozen):
    """Owner and access list of a resource; empty for one stored before these existed.

    An empty category of the access list imposes no rule.
    """

    owner: str | None = None
    attributes: AccessAttributes = AccessAttributes.model_construct()


def owner_of(caller: Caller) -> Ownership:
    """Return the owner and access list of a resource that this caller creates."""
    return Ownership(owner=caller.principal, attributes=groups_of(caller))


def groups_of(caller: Caller) -> AccessAttributes:
    """Return the caller's groups alone."""
    return AccessAttributes.model_construct(**{name: getattr(caller, name) for name in AccessAttributes.model_fields})


def may_see(caller: Caller, stamp: Ownership, *, owner_only: bool) -> bool:
    """Return whether the caller, of the same tenant, may see a resource of this owner.

    `owner_only` hides resources without groups from callers other than the owner.
    """
    if stamp.owner == caller.principal:
        return True
    named = [
        (required, had)
        for required, had in zip(stamp.attributes.categories, caller.categories, strict=True)
        if required
    ]
    if not named:
        return not (owner_only and stamp.owner is not None)
    return all(set(required) & set(had) for required, had in named)


def may_delete(caller: Caller, stamp: Ownership) -> bool:
    """Return whether the caller, of the same tenant, may delete a resource of this owner."""
    return stamp.owner == caller.principal or ADMIN in caller.roles
