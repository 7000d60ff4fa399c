"""Who calls."""

from pydantic import Field

from turnstone.domain.values.frozen import Frozen


class Caller(Frozen):
    """The identity a request's credentials prove: someone of a tenant, and the groups that one is in.

    Attributes:
        key_id: which key proved it, for the log; it is not stored, and decides nothing.
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
