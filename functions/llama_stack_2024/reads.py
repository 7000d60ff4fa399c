"""The routes of September 2024 that read turns as one function: they are rarely requested, and share a warm one."""

from turnstone.edge.cold_start import for_good
from turnstone.edge.gateway import LambdaHandler

with for_good():
    # relative: in a function this family is a package of its own, here a part of functions
    from . import get_step, get_turn, read_step, read_turn

ROUTES = tuple(module.ROUTE for module in (get_step, get_turn, read_step, read_turn))
handler = LambdaHandler(__name__, *ROUTES, loads="reader")
