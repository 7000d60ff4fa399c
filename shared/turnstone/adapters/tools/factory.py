"""Factory of toolboxes; each provider's module is loaded on first use."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property, partial
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple

from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.domain.registry.registry import BUILTIN, MCP, Toolgroup

if TYPE_CHECKING:
    from turnstone.adapters.tools.images.images import ImageModel
    from turnstone.adapters.tools.web.json_service import Fetcher, Keys
    from turnstone.domain.registry.tool_settings import ToolSettings
    from turnstone.ports.system import Clock
    from turnstone.ports.tools import PythonRunner, Toolbox

CLOCK = "builtin::clock"
WEBSEARCH = "builtin::websearch"
WOLFRAM_ALPHA = "builtin::wolfram_alpha"
PHOTOGEN = "builtin::photogen"
CODE_INTERPRETER = "builtin::code_interpreter"
LOCATION = ("toolgroups",)
# the message for a disabled group; TURNSTONE_CONFIG names the operator's file
TURNED_ON_BY = {
    PHOTOGEN: "[tools.photogen] in the server's file names a provider and a model that makes images",
    CODE_INTERPRETER: "runs in [tools.code_interpreter] of the server's file names where code is run",
}


class ToolDependencies(NamedTuple):
    """Dependencies of toolboxes, from their environment. All but the clock are created on demand.

    Attributes:
        settings: returns the operator's settings of tools.
        keys: returns the key from a variable or secret of this name.
        fetcher: returns the guarded fetcher; it may also reach the operator's address, if given.
        image_model: creates the operator's image model; None without one.
        mcp: creates the toolbox of an MCP server's group.
        code_interpreter: creates the toolbox that runs code; None where that is not supported.
        python: creates the runner of tools of Python; None where they are off.
        close: releases the resources opened for toolboxes.
    """

    settings: Callable[[], ToolSettings]
    clock: Clock
    keys: Keys
    fetcher: Callable[[str | None], Fetcher]
    image_model: Callable[[], ImageModel] | None
    mcp: Callable[[Toolgroup], Toolbox]
    code_interpreter: Callable[[], Toolbox] | None
    close: Callable[[], None]
    python: Callable[[], PythonRunner] | None = None


class EveryToolKind:
    """Creates toolboxes; those of builtin groups only once."""

    def __init__(self, deps: ToolDependencies) -> None:
        self._deps = deps
        self._lock = RLock()
        self._made: dict[str, Toolbox] = {}
        self._python: PythonRunner | None = None
        self._builtin: dict[str, Callable[[], Toolbox]] = {
            CLOCK: self._clock,
            WEBSEARCH: self._websearch,
            WOLFRAM_ALPHA: self._wolfram_alpha,
        }
        if deps.image_model is not None:
            self._builtin[PHOTOGEN] = partial(self._photogen, deps.image_model)
        if deps.code_interpreter is not None:
            self._builtin[CODE_INTERPRETER] = deps.code_interpreter

    def builtin(self) -> tuple[str, ...]:
        """Return the names of this server's builtin toolgroups."""
        return tuple(self._builtin)

    def build(self, group: Toolgroup) -> Toolbox:
        """Return the toolbox. Raises InvalidRequest, Unsupported."""
        if group.provider_id == BUILTIN:
            return self._of_builtin(group.provider_resource_id)
        if group.provider_id != MCP:
            message = f"this server has no tool provider {group.provider_id!r}; it has: {BUILTIN}, {MCP}"
            raise Unsupported(f"toolgroup {group.identifier!r}: {message}", LOCATION)
        if group.mcp_endpoint is None:
            message = f"toolgroup {group.identifier!r} has no mcp_endpoint; register it with one"
            raise InvalidRequest(message, LOCATION)
        return self._deps.mcp(group)

    def offered_as(self, group_id: str, name: str) -> str:
        """Return the name under which models are offered the tool of the group, which lists it as `name`."""
        if group_id != WEBSEARCH:
            return name
        from turnstone.adapters.tools.web.websearch import OFFERED_AS

        return OFFERED_AS.get(name, name)

    def remote(self) -> Toolbox:
        """Return the toolbox of calls that run at the address in their agent's own definition."""
        return self._remote

    def python(self) -> PythonRunner | None:
        """Return the runner of tools of Python, None where they are off."""
        if self._deps.python is None:
            return None
        with self._lock:
            if self._python is None:
                self._python = self._deps.python()
        return self._python

    def close(self) -> None:
        """Close the connections of toolboxes; no toolbox is used after that."""
        self._deps.close()

    @cached_property
    def _remote(self) -> Toolbox:
        from turnstone.adapters.tools.remote.remote import RemoteToolbox

        return RemoteToolbox(self._deps.fetcher(None))

    def _of_builtin(self, name: str) -> Toolbox:
        make = self._builtin.get(name)
        if make is None:
            names = ", ".join(self._builtin)
            if name in TURNED_ON_BY:
                raise Unsupported(f"{name!r} is off on this server; it is on where {TURNED_ON_BY[name]}", LOCATION)
            raise Unsupported(f"this server has no tools {name!r}; it has: {names}", LOCATION)
        with self._lock:
            made = self._made.get(name)
            if made is None:
                made = self._made[name] = make()
        return made

    def _clock(self) -> Toolbox:
        from turnstone.adapters.tools.clock import ClockToolbox

        return ClockToolbox(self._deps.clock)

    def _websearch(self) -> Toolbox:
        from turnstone.adapters.tools.web.websearch import WebSearchToolbox

        return WebSearchToolbox(self._deps.settings().websearch, self._deps.keys, self._deps.fetcher)

    def _wolfram_alpha(self) -> Toolbox:
        from turnstone.adapters.tools.web.wolfram import WolframToolbox

        return WolframToolbox(self._deps.settings().wolfram_alpha, self._deps.keys, self._deps.fetcher)

    def _photogen(self, image_model: Callable[[], ImageModel]) -> Toolbox:
        from turnstone.adapters.tools.images.photogen import PhotogenToolbox

        return PhotogenToolbox(cache(image_model))
