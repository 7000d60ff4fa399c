"""Who may see what: everything that is created bears a stamp of who created it, and of the groups that one was in.

Source: the access check of Llama Stack 0.2.x: a reader needs a match in every category that a resource names.
"""

from turnstone.domain.access.caller import Caller
from turnstone.domain.values.frozen import Frozen

ADMIN = "admin"


class AccessAttributes(Frozen):
    """Groups of people, by category; a category without groups says nothing."""

    roles: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()

    @property
    def categories(self) -> tuple[tuple[str, ...], ...]:
        return self.roles, self.teams, self.projects, self.namespaces


class Stamp(Frozen):
    """What a resource remembers of its creator; nothing for one that was stored before there were stamps."""

    owner: str | None = None
    attributes: AccessAttributes = AccessAttributes.model_construct()


def stamp_of(caller: Caller) -> Stamp:
    """Return the stamp of what this caller creates."""
    return Stamp(owner=caller.principal, attributes=attributes_of(caller))


def attributes_of(caller: Caller) -> AccessAttributes:
    return AccessAttributes(
        roles=caller.roles, teams=caller.teams, projects=caller.projects, namespaces=caller.namespaces
    )


def may_see(caller: Caller, stamp: Stamp, *, owner_only: bool) -> bool:
    """Tell whether the caller, of the same tenant, may see what bears the stamp.

    `owner_only` hides from others what names no groups.
    """
    if stamp.owner == caller.principal:
        return True
    named = [
        (wanted, had)
        for wanted, had in zip(stamp.attributes.categories, attributes_of(caller).categories, strict=True)
        if wanted
    ]
    if not named:
        return not (owner_only and stamp.owner is not None)
    return all(set(wanted) & set(had) for wanted, had in named)


def may_delete(caller: Caller, stamp: Stamp) -> bool:
    """Tell whether the caller, of the same tenant, may delete what bears the stamp."""
    return stamp.owner == caller.principal or ADMIN in caller.roles
