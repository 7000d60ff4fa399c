"""Routes for methods of the clients that this server does not have: 501, with the method's name.

On Lambda, the gateway also passes to this function the methods that the paths of other functions lack: 405.
"""

from typing import NoReturn

from turnstone.dialects.llama_stack.unserved import unserved as of_llama_stack
from turnstone.dialects.openai.unserved import unserved as of_openai
from turnstone.domain.unserved import Unserved
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA, LLAMA_STACK, LLAMA_STACK_2024, OPENAI, RESPONSES, SHARED
from turnstone.http.request import Request
from turnstone.http.route import Route
from turnstone.http.server.other_paths import OtherPath

# relative: in a function this family is a package of its own, here a part of functions
from .served import SERVED

DIALECTS = {each.name: each for each in (LETTA, LLAMA_STACK, LLAMA_STACK_2024, OPENAI, RESPONSES, SHARED)}


def route_of(row: Unserved) -> Route:
    def refuse(_: Request) -> NoReturn:
        raise row.refusal()

    dialect = next((each for each in (OPENAI, SHARED) if each.claims(row.path)), LLAMA_STACK)
    # an id at the end of a path, such as a data set's, may hold slashes
    takes_slashes = row.path.endswith("}")
    return Route(row.method, row.path, refuse, None, takes_slashes=takes_slashes, dialect=dialect, is_rare=True)


ROUTES = tuple(map(route_of, (*of_llama_stack(), *of_openai())))
OTHERS = tuple(OtherPath(path, methods, DIALECTS[dialect]) for path, dialect, methods in SERVED)
handler = LambdaHandler(__name__, *ROUTES, others=OTHERS)
