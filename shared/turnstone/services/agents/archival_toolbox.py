"""Toolgroup `builtin::archival_memory`: passages that the agent of a turn keeps, and finds again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_core import to_json

from turnstone.domain.errors import InvalidRequest, ModelError, NotFound, ToolFailed
from turnstone.domain.tools.base_tools import ARCHIVAL_INSERT, ARCHIVAL_SEARCH
from turnstone.domain.tools.tool_runs import ToolResult

if TYPE_CHECKING:
    from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation
    from turnstone.domain.tools.tools import ToolDef
    from turnstone.services.agents.archives import Archives

PAGE = 5  # passages
MOST_PAGES = 100


class ArchivalToolbox:
    def __init__(self, archives: Archives) -> None:
        self._archives = archives

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:  # noqa: ARG002 - the same for every caller
        """Return the tools of the group."""
        return (ARCHIVAL_INSERT, ARCHIVAL_SEARCH)

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        """Run the call: an insertion once for its idempotency key. Raises ToolFailed."""
        if invocation.ref is None:
            raise ToolFailed("Outside a session there is no agent with an archival memory.")
        run = self._insert if invocation.call.tool_name == ARCHIVAL_INSERT.name else self._search
        try:
            return run(invocation, invocation.ref.agent_id)
        except (InvalidRequest, ModelError, NotFound) as problem:
            raise ToolFailed(str(problem)) from problem

    def _insert(self, invocation: ToolInvocation, agent_id: str) -> ToolResult:
        tenant, content = invocation.asker.tenant, _text(invocation, "content")
        key, provider_data = invocation.idempotency_key, invocation.asker.provider_data
        made = self._archives.insert(tenant, agent_id, content, key, provider_data)
        return ToolResult(f"Kept in archival memory as {len(made)} {'passage' if len(made) == 1 else 'passages'}.")

    def _search(self, invocation: ToolInvocation, agent_id: str) -> ToolResult:
        query, page = _text(invocation, "query"), page_in(invocation)
        part = slice(page * PAGE, (page + 1) * PAGE)
        found = self._archives.search(invocation.asker.tenant, agent_id, query, part, invocation.asker.provider_data)
        if not found:
            return ToolResult("No results." if page == 0 else f"No results on page {page}.")
        shown = [{"timestamp": each.created_at.isoformat(), "content": each.text} for each in found]
        return ToolResult(f"Page {page}, {len(found)} results: {to_json(shown).decode()}")


def page_in(invocation: ToolInvocation) -> int:
    """Return the page that the call names, by default the first. Raises ToolFailed."""
    page = invocation.arguments.get("page")
    if page is None:
        return 0
    if isinstance(page, bool) or not isinstance(page, int | float) or not 0 <= page < MOST_PAGES or page != int(page):
        raise ToolFailed(f"page: must be a whole number from 0 to {MOST_PAGES - 1}")
    return int(page)


def _text(invocation: ToolInvocation, name: str) -> str:
    given = invocation.arguments.get(name)
    if not isinstance(given, str) or not given.strip():
        raise ToolFailed(f"{name}: must be a text")
    return given
