"""The caller of a request."""

from pydantic import Field

from turnstone.domain.values.frozen import Frozen


class AccessAttributes(Frozen):
    """Groups of people, by category."""

    roles: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()

    @property
    def categories(self) -> tuple[tuple[str, ...], ...]:
        return self.roles, self.teams, self.projects, self.namespaces


class Principal(Frozen):
    """A principal of a tenant."""

    tenant: str
    principal: str


class Caller(AccessAttributes, Principal):
    """The identity proved by a request's credentials: a principal and its groups, stored in one flat object.

    Attributes:
        key_id: the key that proved it, for the log; never stored, and without influence on access.
    """

    key_id: str = Field(default="", exclude=True)


NOBODY = Caller.model_construct(tenant="", principal="")
LOCAL_CALLER = Caller.model_construct(tenant="local", principal="local")
