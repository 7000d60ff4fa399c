"""Toolgroups whose tools are services of this server, beside the kinds of the adapters.

Such a toolbox gets its services when it is built, and the session of the turn that calls it with each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from typing import NamedTuple

from turnstone.domain.errors import Unsupported
from turnstone.domain.registry.registry import BUILTIN, Toolgroup
from turnstone.ports.tools import PythonRunner, Toolbox, ToolKinds
from turnstone.services.tools.lookup import no_registration_of


class OwnToolgroup(NamedTuple):
    """A toolgroup of a service of this server, the same for every tenant.

    Attributes:
        identifier: its name in an agent's toolgroups, such as `builtin::…`.
        build: builds the toolbox over its services, at the first use.
        is_listed: whether lists of toolgroups and tools show it; without that it is found by its name only.
        may_be_registered: whether a tenant may register it, also under another name.
    """

    identifier: str
    build: Callable[[], Toolbox]
    is_listed: bool = False
    may_be_registered: bool = False


class OwnToolboxes:
    """ToolKinds of the adapters, and the toolgroups of the server's services, whose toolboxes are built once."""

    def __init__(self, kinds: ToolKinds, toolgroups: Sequence[OwnToolgroup]) -> None:
        """Raise ValueError for a name that is taken twice."""
        self._kinds = kinds
        self.toolgroups = {toolgroup.identifier: toolgroup for toolgroup in toolgroups}
        names = (*kinds.builtin(), *(toolgroup.identifier for toolgroup in toolgroups))
        if len(set(names)) < len(names):
            raise ValueError(f"two builtin toolgroups have one name: {names}")
        self._lock = RLock()
        self._built: dict[str, Toolbox] = {}

    def builtin(self) -> tuple[str, ...]:
        """Return the names of this server's builtin groups, those of its services last."""
        return (*self._kinds.builtin(), *self.toolgroups)

    def build(self, group: Toolgroup) -> Toolbox:
        """Return the toolbox. Raises InvalidRequest, Unsupported."""
        own = self.toolgroups.get(group.provider_resource_id) if group.provider_id == BUILTIN else None
        if own is None:
            return self._kinds.build(group)
        if group.identifier != own.identifier and not own.may_be_registered:
            raise Unsupported(no_registration_of(own.identifier), ("toolgroups",))
        with self._lock:
            built = self._built.get(own.identifier)
            if built is None:
                built = self._built[own.identifier] = own.build()
        return built

    def offered_as(self, group_id: str, name: str) -> str:
        """Return the name under which models are offered the tool: its own, for a tool of a service."""
        return name if group_id in self.toolgroups else self._kinds.offered_as(group_id, name)

    def remote(self) -> Toolbox:
        """Return the toolbox of calls that run at the address in their agent's own definition."""
        return self._kinds.remote()

    def python(self) -> PythonRunner | None:
        """Return the runner of tools of Python, None where they are off."""
        return self._kinds.python()
