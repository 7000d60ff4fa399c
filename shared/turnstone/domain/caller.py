"""Who calls."""

from turnstone.domain.model import Frozen


class Caller(Frozen):
    """The identity a request's credentials prove."""

    tenant: str
    principal: str


LOCAL_CALLER = Caller(tenant="local", principal="local")
