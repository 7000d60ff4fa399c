"""The caller of a request."""

from pydantic import Field

from turnstone.domain.values.frozen import Frozen


class Caller(Frozen):
    """The identity proved by a request's credentials: a principal of a tenant, and its groups.

    Attributes:
        key_id: the key that proved it, for the log; never stored, and without influence on access.
    """

    tenant: str
    principal: str
    roles: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    key_id: str = Field(default="", exclude=True)


NOBODY = Caller.model_construct(tenant="", principal="")
LOCAL_CALLER = Caller.model_construct(tenant="local", principal="local")
