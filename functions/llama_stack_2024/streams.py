"""The routes of September 2024 that stream as one function: turns, and sessions, which may be large."""

from turnstone.edge.gateway import LambdaHandler

# relative: in a function this family is a package of its own, here a part of functions
from . import create_turn, get_session

ROUTES = (create_turn.ROUTE, get_session.ROUTE)
handler = LambdaHandler(__name__, *ROUTES, loads=("turns", "sessions"))
