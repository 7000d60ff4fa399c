"""Search engines for the web: the request and the response of each.

Source: the references of Brave's Web Search API, of Bing's v7 and of Tavily's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from turnstone.adapters.tools.web.json_service import Json, ServiceRequest, entries_in, picked

TOP_K = 3
MAX_BRAVE_WORDS, MAX_BRAVE_CHARACTERS = 50, 400  # longer queries are refused
WEB_FIELDS = ("type", "title", "url", "description", "date", "extra_snippets")
FIELDS_OF_KINDS = {
    "web": WEB_FIELDS,
    "news": ("type", "title", "url", "description"),
    "videos": ("type", "title", "url", "description", "date"),
    "faq": ("type", "question", "answer", "title", "url"),
    "infobox": ("type", "title", "url", "description", "long_desc"),
    "locations": (
        "type",
        "title",
        "url",
        "description",
        "coordinates",
        "postal_address",
        "contact",
        "rating",
        "distance",
        "zoom_level",
    ),
}


@dataclass(frozen=True, slots=True)
class SearchEngine:
    """A search engine.

    Attributes:
        url: its address, unless the operator configures another.
        caller_key: the field of a caller's own key in the provider data.
        question: creates the request from a query, a key and a number of results.
        results: extracts the results for a model, so many at most.
    """

    title: str
    url: str
    caller_key: str
    question: Callable[[str, str, int], ServiceRequest]
    results: Callable[[Json, int], list[Any]]


def brave_results(answer: Json, most: int) -> list[Any]:
    """Return the best results in Brave's mixed order of kinds.

    An entry of that order refers to one result, or to all results of its kind as a list.
    """
    mixed = (_at_entry(answer, entry, most) for entry in entries_in(answer, "mixed", "main"))
    found = list(islice(filter(None, mixed), most))
    return found or _each_of(entries_in(answer, "web", "results"), WEB_FIELDS, most)


def _at_entry(answer: Json, entry: Any, most: int) -> dict[str, Any] | list[dict[str, Any]] | None:
    kind = entry.get("type") if isinstance(entry, dict) else None
    if not isinstance(kind, str) or kind not in FIELDS_OF_KINDS:
        return None
    results, fields = entries_in(answer, kind, "results"), FIELDS_OF_KINDS[kind]
    index = entry.get("index")
    if isinstance(index, int) and not entry.get("all"):
        return picked(results[index], fields) if 0 <= index < len(results) else None
    return _each_of(results, fields, most)


def _bing_results(answer: Json, most: int) -> list[Any]:
    return _each_of(entries_in(answer, "webPages", "value"), ("name", "url", "snippet"), most)


def _tavily_results(answer: Json, most: int) -> list[Any]:
    return _each_of(entries_in(answer, "results"), ("title", "url", "content", "score"), most)


def _each_of(results: Iterable[Any], fields: tuple[str, ...], most: int) -> list[dict[str, Any]]:
    return list(islice(filter(None, (picked(result, fields) for result in results)), most))


def _brave_request(query: str, key: str, most: int) -> ServiceRequest:  # noqa: ARG001 - it counts each kind by itself
    cut_query = " ".join(query.split()[:MAX_BRAVE_WORDS])[:MAX_BRAVE_CHARACTERS]
    return ServiceRequest(params={"q": cut_query, "text_decorations": "false"}, headers={"X-Subscription-Token": key})


def _bing_request(query: str, key: str, most: int) -> ServiceRequest:
    query_params = {"q": query, "count": str(most), "textFormat": "Raw"}
    return ServiceRequest(params=query_params, headers={"Ocp-Apim-Subscription-Key": key})


def _tavily_request(query: str, key: str, most: int) -> ServiceRequest:
    return ServiceRequest(posted={"query": query, "max_results": most}, headers={"Authorization": f"Bearer {key}"})


ENGINES = {
    "brave": SearchEngine(
        "Brave", "https://api.search.brave.com/res/v1/web/search", "brave_search_api_key", _brave_request, brave_results
    ),
    "bing": SearchEngine(
        "Bing", "https://api.bing.microsoft.com/v7.0/search", "bing_search_api_key", _bing_request, _bing_results
    ),
    "tavily": SearchEngine(
        "Tavily", "https://api.tavily.com/search", "tavily_search_api_key", _tavily_request, _tavily_results
    ),
}
