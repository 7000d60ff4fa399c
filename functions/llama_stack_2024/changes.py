"""The routes of September 2024 that make and delete agents and sessions as one function: they share a warm one."""

from turnstone.edge.cold_start import for_good
from turnstone.edge.gateway import LambdaHandler

with for_good():
    # relative: in a function this family is a package of its own, here a part of functions
    from . import create_agent, create_session, delete_agent, delete_session

MODULES = (create_agent, create_session, delete_agent, delete_session)
ROUTES = tuple(module.ROUTE for module in MODULES)
handler = LambdaHandler(__name__, *ROUTES, loads=("agents", "sessions", "deleting"))
