"""The routes of this family as one function: they are rarely requested, and share a warm one."""

from turnstone.edge.cold_start import for_good
from turnstone.edge.gateway import LambdaHandler

with for_good():
    # relative: in a function this family is a package of its own, here a part of functions
    from . import get_context, get_usage

ROUTES = (get_usage.ROUTE, get_context.ROUTE)
handler = LambdaHandler(__name__, *ROUTES, loads=("usage", "contexts"))
