"""Toolgroup `builtin::websearch`: Brave, Bing or Tavily, with the caller's key or the server's."""

from __future__ import annotations

from collections.abc import Callable

from turnstone.adapters.tools.web.json_service import (
    Fetcher,
    Keys,
    ServerKey,
    Service,
    as_text,
    caller_key,
    query_of,
    without_key,
)
from turnstone.adapters.tools.web.search_engines import ENGINES, SearchEngine
from turnstone.domain.errors import ToolFailed
from turnstone.domain.registry.tool_settings import WebSearchSettings
from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation, ToolResult
from turnstone.domain.tools.tools import ToolDef, ToolParameter

WEB_SEARCH = ToolDef(
    name="web_search",
    description="Search the web for what is not known, or newer than what is known.",
    parameters=(
        ToolParameter(name="query", parameter_type="string", description="What to search for, in a few words."),
    ),
)
# models were trained to call the search by this name, and clients search steps for it
OFFERED_AS = {WEB_SEARCH.name: "brave_search"}


class WebSearchToolbox:
    """Searches the web.

    The tool's definition selects the engine, else the operator's file does. The server's key and the address from the
    file belong to the file's engine, so no other engine ever receives that key.
    """

    def __init__(self, settings: WebSearchSettings, keys: Keys, fetcher: Callable[[str | None], Fetcher]) -> None:
        """Take the operator's settings, and a factory of fetchers that may also reach the configured address."""
        self._own = settings.engine
        self._url = settings.url
        self._key = ServerKey(settings.api_key_env or settings.api_key_secret, keys)
        self._fetcher = fetcher

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:  # noqa: ARG002 - the same for every caller
        """Return the toolgroup's only tool."""
        return (WEB_SEARCH,)

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        """Return the best results as JSON. Raises ToolFailed."""
        query = query_of(invocation)
        name, engine, key = self._chosen(invocation)
        url = (self._url if name == self._own else None) or engine.url
        service = Service(engine.title, url, self._fetcher(self._url if name == self._own else None))
        answer = service.query_service(engine.question(query, key), key, invocation)
        found = {"query": query, "top_k": engine.results(answer)}
        return ToolResult(as_text(found), {"engine": name})

    def _chosen(self, invocation: ToolInvocation) -> tuple[str, SearchEngine, str]:
        """Return the engine's name, the engine, and its key. Raises ToolFailed."""
        named = invocation.options.engine
        if named is not None and named not in ENGINES:
            raise ToolFailed(f"there is no search engine {named!r}; there are: {', '.join(ENGINES)}")
        name = named or self._own
        engine = ENGINES[name]
        key = caller_key(invocation, engine.caller_key) or (self._key.text() if name == self._own else None)
        if key is not None:
            return name, engine, key
        if named is None:
            for other_name, other in ENGINES.items():
                passed_on = invocation.asker.provider_data.key(other.caller_key)
                if passed_on is not None:
                    return other_name, other, passed_on.strip()
        raise without_key(f"the web search ({engine.title})", engine.caller_key, "tools.websearch")
