"""The routes of this folder, each of which is a function of its own."""

from . import cancel_turn, create_turn, get_events, get_turn, resume_turn

ROUTES = (create_turn.ROUTE, resume_turn.ROUTE, cancel_turn.ROUTE, get_turn.ROUTE, get_events.ROUTE)
