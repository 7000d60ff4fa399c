"""Routes for methods of the clients that this server does not have: 501, with the method's name.

On Lambda, the gateway also passes to this function the methods that the paths of other functions lack: 405.
"""

from turnstone.dialects.llama_stack.unserved import unserved as of_llama_stack
from turnstone.dialects.openai.unserved import unserved as of_openai
from turnstone.domain.unserved import Unserved
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA, LLAMA_STACK, LLAMA_STACK_2024, OPENAI, RESPONSES, SHARED
from turnstone.http.route import Route
from turnstone.http.server.other_paths import OtherPath
from turnstone.http.unserved_routes import unserved_route

# relative: in a function this family is a package of its own, here a part of functions
from .served import SERVED

DIALECTS = {each.name: each for each in (LETTA, LLAMA_STACK, LLAMA_STACK_2024, OPENAI, RESPONSES, SHARED)}


def route_of(row: Unserved) -> Route:
    return unserved_route(row, next((each for each in (OPENAI, SHARED) if each.claims(row.path)), LLAMA_STACK))


ROUTES = tuple(map(route_of, (*of_llama_stack(), *of_openai())))
OTHERS = tuple(OtherPath(path, methods, DIALECTS[dialect]) for path, dialect, methods in SERVED)
handler = LambdaHandler(__name__, *ROUTES, others=OTHERS)
