"""The tools of a process that runs no turns."""

from typing import NoReturn

from turnstone.domain.errors import Unsupported
from turnstone.domain.registry import Toolgroup


class NoTools:
    def builtin(self) -> tuple[str, ...]:
        return ()

    def build(self, group: Toolgroup) -> NoReturn:
        raise Unsupported(f"no tools are run here, those of {group.identifier!r} neither", ("toolgroups",))

    def remote(self) -> NoReturn:
        raise Unsupported("no tools are run here", ("toolgroups",))
