"""Empty tools of a process that runs no turns."""

from typing import NoReturn

from turnstone.domain.errors import Unsupported
from turnstone.domain.registry.registry import Toolgroup


class NoTools:
    def builtin(self) -> tuple[str, ...]:
        return ()

    def build(self, group: Toolgroup) -> NoReturn:
        raise Unsupported(f"this server runs no tools, also not those of {group.identifier!r}", ("toolgroups",))

    def offered_as(self, group_id: str, name: str) -> str:  # noqa: ARG002 - there is no group
        return name

    def remote(self) -> NoReturn:
        raise Unsupported("this server runs no tools", ("toolgroups",))

    def python(self) -> None:
        """Return no runner."""
