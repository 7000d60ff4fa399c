"""Routes of methods that the server does not have: each is refused with 501 and its name."""

from typing import NoReturn

from turnstone.domain.unserved import Unserved
from turnstone.http.dialects import Dialect
from turnstone.http.request import Request
from turnstone.http.route import Route


def unserved_route(row: Unserved, dialect: Dialect) -> Route:
    """Return the route of a method in its dialect.

    An id at the end of a path, such as a data set's, may hold slashes, except in a dialect that also serves each path
    with a slash at its end.
    """

    def refuse(_: Request) -> NoReturn:
        raise row.refusal()

    takes_slashes = row.path.endswith("}") and not dialect.slashes
    return Route(row.method, row.path, refuse, None, takes_slashes=takes_slashes, dialect=dialect, is_rare=True)
