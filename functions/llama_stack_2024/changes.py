"""The routes of September 2024 that make and delete agents and sessions as one function: they share a warm one."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.edge.loading import for_good

with for_good():
    # relative: in a function this family is a package of its own, here a part of functions
    from . import create_agent_2024, create_session_2024, delete_agent_2024, delete_session_2024

MODULES = (create_agent_2024, create_session_2024, delete_agent_2024, delete_session_2024)
ROUTES = tuple(module.ROUTE for module in MODULES)
handler = LambdaHandler(__name__, *ROUTES, loads=("agents", "sessions", "deleting"))
