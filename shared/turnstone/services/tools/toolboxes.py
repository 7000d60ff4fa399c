"""The tools of this server, for turns and for direct requests."""

from __future__ import annotations

from copy import copy

from turnstone.domain.provider_data import ProviderData
from turnstone.domain.refs import SessionRef
from turnstone.domain.tools.tool_runs import ToolAsker
from turnstone.ports.tools import ToolKinds
from turnstone.services.threads.daemon_threads import DaemonThreads
from turnstone.services.tools.lookup import ToolgroupLookup
from turnstone.services.tools.tenant_tools import TenantTools
from turnstone.services.tools.tool_answers import ToolAnswers
from turnstone.services.tools.tool_running import SessionTools, ToolCaller

MAX_PARALLEL_TOOLS = 256
MAX_PARALLEL_TOOLS_OF_TENANT = 64
MOST_DEPTH = 3  # of turns that calls of other turns start


class Toolboxes:
    """Dependencies that find and run tools, for every tenant.

    Attributes:
        timeout_s: time limit of a tool in seconds.
    """

    def __init__(self, lookup: ToolgroupLookup, kinds: ToolKinds, answers: ToolAnswers, timeout_s: float) -> None:
        self.lookup = lookup
        self.kinds = kinds
        self._answers = answers
        self.timeout_s = timeout_s
        self.threads = _threads("tool")
        # a call that waits for the turn of another agent takes no thread from the calls of that turn
        self._nested = tuple(_threads(f"tool-{depth}") for depth in range(1, MOST_DEPTH + 1))

    def of(self, ref: SessionRef, provider_data: ProviderData, turn: ToolCaller) -> SessionTools:
        """Return the tools for a turn of the session."""
        asker = ToolAsker(ref.tenant, provider_data)
        tools = TenantTools(self.lookup, self.kinds, asker, self.threads, turn.own_toolgroups)
        threads = (self.threads, *self._nested)[min(len(turn.chain), MOST_DEPTH)]
        return SessionTools(tools, ref, self._answers, threads, self.timeout_s, turn)

    def without_files(self) -> Toolboxes:
        """Return the same tools for turns that are not stored: the addresses of their files contain the files."""
        unstored = copy(self)
        unstored._answers = self._answers._replace(keeps_files=False)
        return unstored

    def of_tenant(self, asker: ToolAsker) -> TenantTools:
        """Return the tools that the tenant may name."""
        return TenantTools(self.lookup, self.kinds, asker, self.threads)


def _threads(name: str) -> DaemonThreads:
    return DaemonThreads(MAX_PARALLEL_TOOLS, name, MAX_PARALLEL_TOOLS_OF_TENANT)
