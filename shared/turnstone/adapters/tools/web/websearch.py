"""Toolgroup `builtin::websearch`: Brave, Bing or Tavily, with the caller's key or the server's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

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
from turnstone.adapters.tools.web.search_engines import ENGINES, TOP_K, SearchEngine
from turnstone.domain.errors import ToolFailed
from turnstone.domain.registry.tool_settings import WebSearchSettings
from turnstone.domain.tools.cited_results import CitedResult, numbered_from, written_results
from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation, ToolResult
from turnstone.domain.tools.tools import ToolDef, ToolParameter
from turnstone.domain.values.content import Content

WEB_SEARCH = ToolDef(
    name="web_search",
    description="Search the web for what is not known, or newer than what is known.",
    parameters=(
        ToolParameter(name="query", parameter_type="string", description="What to search for, in a few words."),
    ),
)
MOST_RESULTS = 10
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
        """Return the best results as JSON, or each under its mark where the toolgroup cites. Raises ToolFailed."""
        query = query_of(invocation)
        name, engine, key = self._chosen(invocation)
        url = (self._url if name == self._own else None) or engine.url
        service = Service(engine.title, url, self._fetcher(self._url if name == self._own else None))
        domains = [str(domain) for domain in invocation.fixed_arguments.get("allowed_domains") or ()]
        sites = " OR ".join(f"site:{domain}" for domain in domains)
        most = _number(invocation.fixed_arguments.get("max_num_results"))
        question = engine.question(f"{sites} {query}" if sites else query, key, most)
        answer = service.query_service(question, key, invocation)
        results = engine.results(answer, most)
        if invocation.fixed_arguments.get("citations"):
            return ToolResult(_cited(results, domains, invocation.position), {"engine": name})
        return ToolResult(as_text({"query": query, "top_k": results}), {"engine": name})

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


def _number(given: Any) -> int:
    """Return how many results a model is shown, at most."""
    return min(max(given, 1), MOST_RESULTS) if isinstance(given, int) else TOP_K


def _cited(results: Iterable[Any], domains: Sequence[str], position: int) -> Content:
    """Return the results with an address, each under its mark; with domains only those of them."""
    entries = (entry for result in results for entry in (result if isinstance(result, list) else [result]))
    found = [each for each in entries if isinstance(each, dict) and _is_at(each.get("url"), domains)]
    first = numbered_from(position)
    return written_results(
        WEB_SEARCH.name,
        [
            CitedResult(
                first + index,
                {
                    "url": _storable(entry["url"]),
                    "title": _storable(entry.get("title") or entry.get("name") or ""),
                },
                as_text({name: value for name, value in entry.items() if name != "url"}),
            )
            for index, entry in enumerate(found)
        ],
    )


def _storable(text: Any) -> str:
    return str(text).encode("utf-8", "replace").decode()


def _is_at(url: Any, domains: Sequence[str]) -> bool:
    """Return whether it is an address, in one of the domains or their subdomains if there are any."""
    try:
        host = urlsplit(url).hostname if isinstance(url, str) else None
    except ValueError:  # not an address
        return False
    return host is not None and (not domains or any(f".{host}".endswith(f".{domain.lower()}") for domain in domains))
