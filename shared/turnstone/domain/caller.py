"""Who calls."""

from turnstone.domain.model import Frozen


class Caller(Frozen):
    """The identity a request's credentials prove: someone of a tenant, and the groups that one is in."""

    tenant: str
    principal: str
    roles: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()


LOCAL_CALLER = Caller.model_construct(tenant="local", principal="local")
