"""The routes of this family as one function: they are rarely requested, and share a warm one."""

from turnstone.edge.cold_start import for_good
from turnstone.edge.gateway import LambdaHandler

with for_good():
    # relative: in a function this family is a package of its own, here a part of functions
    from . import (
        get_shield,
        list_shields,
        register_shield,
        run_shield,
        unregister_shield,
    )

ROUTES = tuple(
    module.ROUTE
    for module in (
        get_shield,
        list_shields,
        register_shield,
        run_shield,
        unregister_shield,
    )
)
handler = LambdaHandler(__name__, *ROUTES, loads="shields")
