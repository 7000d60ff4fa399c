"""The routes of this folder, each of which is a function of its own."""

from . import get_attachment

ROUTES = (get_attachment.ROUTE,)
