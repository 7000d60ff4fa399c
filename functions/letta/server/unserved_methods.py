"""Routes for methods of Letta's client that this server does not have: 501, with the method's name."""

from turnstone.dialects.letta.server.unserved import unserved
from turnstone.http.dialects import LETTA
from turnstone.http.unserved_routes import unserved_route

ROUTES = tuple(unserved_route(row, LETTA) for row in unserved())
