"""The routes of this folder, each of which is a function of its own."""

from . import create_session, delete_session, get_session, list_sessions

ROUTES = (create_session.ROUTE, get_session.ROUTE, list_sessions.ROUTE, delete_session.ROUTE)
