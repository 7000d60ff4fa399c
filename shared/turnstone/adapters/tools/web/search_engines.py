"""The engines that search the web, each as it is asked and as it answers.

Source: the references of Brave's Web Search API, of Bing's v7 and of Tavily's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from turnstone.adapters.tools.web.json_service import Json, ServiceRequest, entries_in, picked

TOP_K = 3
MAX_BRAVE_WORDS, MAX_BRAVE_CHARACTERS = 50, 400  # it refuses longer queries
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
    """One engine.

    Attributes:
        url: where it is asked, unless the operator names another place.
        caller_key: what a caller's own key for it is called.
        question: makes what it is sent, of a query and a key.
        results: picks of its answer what a model needs, `TOP_K` of them at most.
    """

    title: str
    url: str
    caller_key: str
    question: Callable[[str, str], ServiceRequest]
    results: Callable[[Json], list[Any]]


def brave_results(answer: Json) -> list[Any]:
    """Return the best results in the order that Brave mixes their kinds in.

    A place in that order may be that of one result, or of all results of its kind, which are a list then.
    """
    mixed = (_at_place(answer, place) for place in entries_in(answer, "mixed", "main"))
    found = list(islice(filter(None, mixed), TOP_K))
    return found or _each_of(entries_in(answer, "web", "results"), WEB_FIELDS)


def _at_place(answer: Json, place: Any) -> dict[str, Any] | list[dict[str, Any]] | None:
    kind = place.get("type") if isinstance(place, dict) else None
    if not isinstance(kind, str) or kind not in FIELDS_OF_KINDS:
        return None
    results, fields = entries_in(answer, kind, "results"), FIELDS_OF_KINDS[kind]
    index = place.get("index")
    if isinstance(index, int) and not place.get("all"):
        return picked(results[index], fields) if 0 <= index < len(results) else None
    return _each_of(results, fields)


def _bing_results(answer: Json) -> list[Any]:
    return _each_of(entries_in(answer, "webPages", "value"), ("name", "url", "snippet"))


def _tavily_results(answer: Json) -> list[Any]:
    return _each_of(entries_in(answer, "results"), ("title", "url", "content", "score"))


def _each_of(results: Iterable[Any], fields: tuple[str, ...]) -> list[dict[str, Any]]:
    return list(islice(filter(None, (picked(result, fields) for result in results)), TOP_K))


def _ask_brave(query: str, key: str) -> ServiceRequest:
    asked = " ".join(query.split()[:MAX_BRAVE_WORDS])[:MAX_BRAVE_CHARACTERS]
    return ServiceRequest(params={"q": asked, "text_decorations": "false"}, headers={"X-Subscription-Token": key})


def _ask_bing(query: str, key: str) -> ServiceRequest:
    told = {"q": query, "count": str(TOP_K), "textFormat": "Raw"}
    return ServiceRequest(params=told, headers={"Ocp-Apim-Subscription-Key": key})


def _ask_tavily(query: str, key: str) -> ServiceRequest:
    return ServiceRequest(posted={"query": query, "max_results": TOP_K}, headers={"Authorization": f"Bearer {key}"})


ENGINES = {
    "brave": SearchEngine(
        "Brave", "https://api.search.brave.com/res/v1/web/search", "brave_search_api_key", _ask_brave, brave_results
    ),
    "bing": SearchEngine(
        "Bing", "https://api.bing.microsoft.com/v7.0/search", "bing_search_api_key", _ask_bing, _bing_results
    ),
    "tavily": SearchEngine(
        "Tavily", "https://api.tavily.com/search", "tavily_search_api_key", _ask_tavily, _tavily_results
    ),
}
