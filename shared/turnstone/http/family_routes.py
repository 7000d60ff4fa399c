"""The routes of a family, whose modules are loaded at the first request to one of their paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import NamedTuple, overload

from turnstone.http.route import Route, served_paths_of

GREEDY = "+}"


class Named(NamedTuple):
    """A route by name.

    Attributes:
        path: as the module declares it.
        module: the module in the family's folder.
        has_slashes: whether its dialect also serves each path with a slash at its end.
    """

    method: str
    path: str
    module: str
    takes_slashes: bool
    has_slashes: bool

    @property
    def paths(self) -> tuple[str, ...]:
        return served_paths_of(self.path, has_slashes=self.has_slashes and not self.takes_slashes)


class FamilyRoutes(Sequence[Route]):
    """The routes of a family in the order of its table. To iterate over them loads all of their modules.

    Attributes:
        package: the family's package.
        named: the table.
        below: path that the family serves alone, with all paths below it.
    """

    def __init__(
        self,
        package: str,
        table: Mapping[str, str],
        below: str | None = None,
        *,
        has_slashes: bool = False,
        unserved: str | None = None,
    ) -> None:
        """Take the family's package, and its modules by method and path, such as `GET /v1/models/{model_id+}`.

        A plus sign marks a last parameter whose values may hold slashes, as API Gateway writes it.

        Args:
            below: path that the family serves alone, with all paths below it: API Gateway passes them all on as one
                greedy resource, and the family answers 404 and 405. None for a resource of each path.
            has_slashes: whether the family's dialect also serves each path with a slash at its end.
            unserved: the module of the routes below that path that are refused by name; None without any.
        """
        self._unserved = unserved
        self.package = package
        self.below = below
        self.named = tuple(_named(request, module, has_slashes=has_slashes) for request, module in table.items())

    def load(self, named: Named) -> Route:
        """Return the route that the module declares."""
        route: Route = import_module(f"{self.package}.{named.module}").ROUTE
        return route

    def unserved(self) -> tuple[Route, ...]:
        """Return the routes that are refused by name."""
        if self._unserved is None:
            return ()
        routes: tuple[Route, ...] = import_module(f"{self.package}.{self._unserved}").ROUTES
        return routes

    @property
    def has_unserved(self) -> bool:
        """Whether there are routes that are refused by name."""
        return self._unserved is not None

    @cached_property
    def _all(self) -> tuple[Route, ...]:
        return tuple(map(self.load, self.named))

    def __iter__(self) -> Iterator[Route]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self.named)

    @overload
    def __getitem__(self, index: int) -> Route: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Route]: ...
    def __getitem__(self, index: int | slice) -> Route | Sequence[Route]:
        return self._all[index]


def _named(request: str, module: str, *, has_slashes: bool) -> Named:
    method, _, path = request.partition(" ")
    takes_slashes = path.endswith(GREEDY)
    return Named(method, path.removesuffix(GREEDY) + "}" if takes_slashes else path, module, takes_slashes, has_slashes)
