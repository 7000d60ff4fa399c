"""Discovery of every route of the API, for its document."""

import re
import sys
from importlib import import_module
from pathlib import Path

from turnstone.http.route import Route

DECLARES = re.compile(r"^ROUTE\b", re.MULTILINE)


def declared_routes(family: str) -> tuple[Route, ...]:
    """Return the routes that the modules of this family and its sibling packages declare.

    A family is a package of its own in a Lambda (`server`), and a part of another one elsewhere (`functions.server`).
    """
    above = family.rpartition(".")[0]
    folder = Path(sys.modules[family].__path__[0]).parent
    found = []
    for source in sorted(folder.glob("*/**/*.py")):
        if DECLARES.search(source.read_text()):
            names = source.relative_to(folder).with_suffix("").parts
            module = import_module(".".join(filter(None, (above, *names))))
            found.append(module.ROUTE)
    return tuple(found)
