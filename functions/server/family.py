"""The routes of this family as one function: they are rarely requested, and share a warm one."""

from turnstone.edge.cold_start import for_good
from turnstone.edge.gateway import LambdaHandler

with for_good():
    # relative: in a function this family is a package of its own, here a part of functions
    from . import get_docs, get_openapi, get_root, health, version

ROUTES = (get_docs.ROUTE, get_openapi.ROUTE, get_root.ROUTE, health.ROUTE, version.ROUTE)
handler = LambdaHandler(__name__, *ROUTES)
