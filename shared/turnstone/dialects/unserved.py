"""Methods of clients that this server does not have, each with its name and its request.

The rows have two forms: `METHOD /path name[,name…]` for one method, and `/path name: verb …` for the usual five methods
of a resource that is read and changed as all of them are.
"""

from collections.abc import Iterator

from turnstone.domain.unserved import Unserved

CRUD = {
    "list": ("GET", ""),
    "create": ("POST", ""),
    "retrieve": ("GET", "/{id}"),
    "update": ("POST", "/{id}"),
    "delete": ("DELETE", "/{id}"),
}
# path prefixes, alternatives, and lines
Group = tuple[tuple[str, ...], str, str]


def rows_of(groups: tuple[Group, ...]) -> Iterator[Unserved]:
    """Yield a row for each method under each of its prefixes."""
    for prefixes, instead, lines in groups:
        for line in filter(None, map(str.strip, lines.splitlines())):
            for method, path, called in _methods(line):
                for prefix in prefixes:
                    yield Unserved(method, prefix + path, called, instead)


def _methods(line: str) -> Iterator[tuple[str, str, str]]:
    resource, has_verbs, verbs = line.partition(": ")
    if not has_verbs:
        method, path, called = line.split()
        yield method, path, called.replace(",", " and ")
        return
    path, called = resource.split()
    for verb in verbs.split():
        method, end = CRUD[verb]
        yield method, path + end, f"{called}.{verb}"
