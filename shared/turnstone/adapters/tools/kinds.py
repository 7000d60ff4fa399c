"""Every kind of toolgroup; each is loaded when one of its groups is first made."""

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
    from turnstone.ports.tools import Toolbox

CLOCK = "builtin::clock"
WEBSEARCH = "builtin::websearch"
WOLFRAM_ALPHA = "builtin::wolfram_alpha"
PHOTOGEN = "builtin::photogen"
CODE_INTERPRETER = "builtin::code_interpreter"
LOCATION = ("toolgroups",)
# what is said of a group that is off; the file is the operator's, which TURNSTONE_CONFIG names
TURNED_ON_BY = {
    PHOTOGEN: "[tools.photogen] in the server's file names a provider and a model that makes images",
    CODE_INTERPRETER: "runs in [tools.code_interpreter] of the server's file names where code is run",
}


class ToolMeans(NamedTuple):
    """What making toolboxes takes, of the place they are made in. All but the clock are asked for when needed.

    Attributes:
        settings: returns what the operator says of tools.
        keys: returns the key that a variable or a secret of this name holds.
        fetcher: returns what asks addresses outside; it may also reach that of the operator it is told, if it is.
        image_model: makes the image model that the operator names; None where there is none.
        mcp: makes the toolbox of a group that an MCP server has.
        code_interpreter: makes the toolbox that runs code; None where nobody does.
        close: lets go of what the making of toolboxes has opened.
    """

    settings: Callable[[], ToolSettings]
    clock: Clock
    keys: Keys
    fetcher: Callable[[str | None], Fetcher]
    image_model: Callable[[], ImageModel] | None
    mcp: Callable[[Toolgroup], Toolbox]
    code_interpreter: Callable[[], Toolbox] | None
    close: Callable[[], None]


class EveryToolKind:
    """Makes toolboxes; those of the groups that come with the server are made once."""

    def __init__(self, means: ToolMeans) -> None:
        self._means = means
        self._lock = RLock()
        self._made: dict[str, Toolbox] = {}
        self._builtin: dict[str, Callable[[], Toolbox]] = {
            CLOCK: self._clock,
            WEBSEARCH: self._websearch,
            WOLFRAM_ALPHA: self._wolfram_alpha,
        }
        if means.image_model is not None:
            self._builtin[PHOTOGEN] = partial(self._photogen, means.image_model)
        if means.code_interpreter is not None:
            self._builtin[CODE_INTERPRETER] = means.code_interpreter

    def builtin(self) -> tuple[str, ...]:
        """Return the names of the groups that come with this server."""
        return tuple(self._builtin)

    def build(self, group: Toolgroup) -> Toolbox:
        """Return the toolbox. Raises InvalidRequest, Unsupported."""
        if group.provider_id == BUILTIN:
            return self._of_builtin(group.provider_resource_id)
        if group.provider_id != MCP:
            said = f"this server has no tool provider {group.provider_id!r}; it has: {BUILTIN}, {MCP}"
            raise Unsupported(f"toolgroup {group.identifier!r}: {said}", LOCATION)
        if group.mcp_endpoint is None:
            said = f"toolgroup {group.identifier!r} has no mcp_endpoint; register it with one"
            raise InvalidRequest(said, LOCATION)
        return self._means.mcp(group)

    def remote(self) -> Toolbox:
        """Return what runs calls where their agent's own definition says."""
        return self._remote

    def close(self) -> None:
        """Let go of connections that toolboxes keep; no toolbox is asked after that."""
        self._means.close()

    @cached_property
    def _remote(self) -> Toolbox:
        from turnstone.adapters.tools.remote.remote import RemoteToolbox

        return RemoteToolbox(self._means.fetcher(None))

    def _of_builtin(self, name: str) -> Toolbox:
        make = self._builtin.get(name)
        if make is None:
            known = ", ".join(self._builtin)
            if name in TURNED_ON_BY:
                raise Unsupported(f"{name!r} is off on this server; it is on where {TURNED_ON_BY[name]}", LOCATION)
            raise Unsupported(f"this server has no tools {name!r}; it has: {known}", LOCATION)
        with self._lock:
            made = self._made.get(name)
            if made is None:
                made = self._made[name] = make()
        return made

    def _clock(self) -> Toolbox:
        from turnstone.adapters.tools.clock import ClockToolbox

        return ClockToolbox(self._means.clock)

    def _websearch(self) -> Toolbox:
        from turnstone.adapters.tools.web.websearch import WebSearchToolbox

        return WebSearchToolbox(self._means.settings().websearch, self._means.keys, self._means.fetcher)

    def _wolfram_alpha(self) -> Toolbox:
        from turnstone.adapters.tools.web.wolfram import WolframToolbox

        return WolframToolbox(self._means.settings().wolfram_alpha, self._means.keys, self._means.fetcher)

    def _photogen(self, image_model: Callable[[], ImageModel]) -> Toolbox:
        from turnstone.adapters.tools.images.photogen import PhotogenToolbox

        return PhotogenToolbox(cache(image_model))
