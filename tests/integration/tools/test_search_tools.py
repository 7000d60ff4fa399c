"""Web searches and questions to Wolfram|Alpha, with loopback services that answer as the real ones do.

Covers: adapters/tools/web/search_engines, adapters/tools/web/websearch, adapters/tools/web/wolfram,
  adapters/tools/web/json_service
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from tests.fakes.tools.search_services import KEY, bing, brave, page, tavily, video, wolfram
from tests.fakes.tools.tool_calls import ASKER, invocation
from tests.fakes.web.web_server import WebAnswer, WebServer, json_answer
from turnstone.adapters.fetching.allowing import NOTHING_ALLOWED
from turnstone.adapters.fetching.fetcher import GuardedFetcher
from turnstone.adapters.tools.web.search_engines import ENGINES
from turnstone.adapters.tools.web.websearch import WebSearchToolbox
from turnstone.adapters.tools.web.wolfram import WolframToolbox
from turnstone.domain.errors import StoreUnavailable, ToolFailed
from turnstone.domain.registry.tool_settings import WebSearchSettings, WolframSettings
from turnstone.domain.tools.cited_results import results_in
from turnstone.domain.tools.tool_runs import ToolOptions

PATHS = {"brave": "/res/v1/web/search", "bing": "/v7.0/search", "tavily": "/search", "wolfram": "/v2/query"}
KEY_NAMES = {name: f"{name}_search_api_key" for name in ENGINES}
NAMED = {"SEARCH_KEY": KEY}
QUERY = {"query": "rain in spain"}


class Services:
    """All services, each at its own address with the usual path of its engine."""

    def __init__(self, servers: dict[str, WebServer]) -> None:
        self.servers = servers

    def url(self, name: str) -> str:
        return self.servers[name].url + PATHS[name]

    def request_counts(self) -> dict[str, int]:
        return {name: len(server.requests) for name, server in self.servers.items() if server.requests}


@pytest.fixture
def services() -> Iterator[Services]:
    answers = {"brave": brave, "bing": bing, "tavily": tavily, "wolfram": wolfram}
    with ExitStack() as stack:
        yield Services({name: stack.enter_context(WebServer(answer)) for name, answer in answers.items()})


def nowhere(host: str, port: int) -> list[str]:
    raise OSError(f"nobody looks up {host}:{port} from here")


def fetcher(url: str | None) -> GuardedFetcher:
    return GuardedFetcher(NOTHING_ALLOWED if url is None else NOTHING_ALLOWED.with_url(url), nowhere)


def searching(services: Services, engine: str, **settings: Any) -> WebSearchToolbox:
    validated = WebSearchSettings.model_validate({"engine": engine, "url": services.url(engine), **settings})
    return WebSearchToolbox(validated, NAMED.get, fetcher)


def found(box: WebSearchToolbox, **call: Any) -> dict[str, Any]:
    result = box.invoke(invocation("web_search", QUERY, **call))
    content: dict[str, Any] = json.loads(str(result.content))
    return content


def test_braves_best_results_keep_its_mixed_order(services: Services) -> None:
    content = found(searching(services, "brave"), provider_data={"brave_search_api_key": KEY})
    first = {name: page(1)[name] for name in ("type", "title", "url", "description", "extra_snippets")}
    videos = [{name: video(n)[name] for name in ("type", "title", "url", "description")} for n in range(3)]
    faq = {"question": "Question 0?", "answer": "Answer 0.", "title": "FAQ 0", "url": "https://faq.test/0"}
    assert content == {"query": "rain in spain", "top_k": [first, videos, [faq]]}
    (request,) = services.servers["brave"].requests
    assert request.params["q"] == ["rain in spain"]


def test_a_query_longer_than_brave_takes_is_cut(services: Services) -> None:
    box = searching(services, "brave")
    for query in ("wet " * 60, "w" * 500):
        box.invoke(invocation("web_search", {"query": query}, provider_data={"brave_search_api_key": KEY}))
    words, letters = (request.params["q"][0] for request in services.servers["brave"].requests)
    assert (len(words.split()), len(letters)) == (50, 400)


@pytest.mark.parametrize(
    ("engine", "fields"), [("bing", ("name", "snippet", "url")), ("tavily", ("content", "score", "title", "url"))]
)
def test_other_engines_results_are_three_with_what_a_model_needs(
    services: Services, engine: str, fields: tuple[str, ...]
) -> None:
    content = found(searching(services, engine), provider_data={KEY_NAMES[engine]: KEY})
    assert [tuple(sorted(result)) for result in content["top_k"]] == [fields] * 3
    assert content["top_k"][2]["url"] == "https://pages.test/2"


def test_the_answer_names_its_engine(services: Services) -> None:
    box = searching(services, "tavily", api_key_env="SEARCH_KEY")
    assert box.invoke(invocation("brave_search", QUERY)).metadata == {"engine": "tavily"}
    assert [tool.name for tool in box.tools(ASKER)] == ["web_search"]


@pytest.mark.parametrize("engine", ENGINES)
def test_results_to_cite_are_each_under_a_mark(services: Services, engine: str) -> None:
    box = searching(services, engine)
    call = invocation("web_search", QUERY, provider_data={KEY_NAMES[engine]: KEY})
    cited = box.invoke(call._replace(fixed_arguments={"citations": True}, position=1))
    results = results_in(cited.content)
    assert [each.number for each in results] == list(range(51, 51 + len(results)))
    assert len(results) >= 3
    assert all(str(each.about["url"]).startswith("https://") and each.about["title"] for each in results)


def test_allowed_domains_are_searched_and_no_others_are_shown(services: Services) -> None:
    box = searching(services, "bing")
    call = invocation("web_search", QUERY, provider_data={"bing_search_api_key": KEY})
    for domains, count in ((["pages.test"], 3), (["test"], 3), (["ages.test"], 0), (["other.test"], 0)):
        fixed = {"citations": True, "allowed_domains": domains}
        assert len(results_in(box.invoke(call._replace(fixed_arguments=fixed)).content)) == count
    assert services.servers["bing"].requests[0].params["q"] == ["site:pages.test rain in spain"]


@pytest.mark.parametrize("engine", ["bing", "tavily"])
@pytest.mark.parametrize(("most", "expected"), [(1, 1), (2, 2), (0, 1), (None, 3), ("many", 3), (99, 10)])
def test_a_fixed_number_limits_the_results_that_are_requested_and_shown(
    services: Services, engine: str, most: object, expected: int
) -> None:
    box = searching(services, engine)
    call = invocation("web_search", QUERY, provider_data={KEY_NAMES[engine]: KEY})
    fixed = {"citations": True, "max_num_results": most}
    shown = len(results_in(box.invoke(call._replace(fixed_arguments=fixed)).content))
    (request,) = services.servers[engine].requests
    requested = request.params["count"][0] if engine == "bing" else json.loads(request.body)["max_results"]
    assert int(requested) == expected
    assert shown <= expected
    assert shown == expected or expected == 10


@pytest.mark.parametrize("engine", ENGINES)
def test_the_callers_key_goes_before_the_definitions_and_that_before_the_servers(
    services: Services, engine: str
) -> None:
    box = searching(services, engine, api_key_secret="SEARCH_KEY")
    assert found(box)["top_k"]
    with pytest.raises(ToolFailed):
        found(box, options=ToolOptions(api_key="wrong-key-of-the-definition"))
    assert found(box, options=ToolOptions(api_key="wrong"), provider_data={KEY_NAMES[engine]: KEY})["top_k"]
    with pytest.raises(ToolFailed):
        found(box, options=ToolOptions(api_key=KEY), provider_data={KEY_NAMES[engine]: "wrong"})


def test_the_servers_key_and_address_are_for_the_engine_of_the_file_only(
    services: Services,
) -> None:
    box = searching(services, "brave", api_key_env="SEARCH_KEY")
    with pytest.raises(ToolFailed, match=r"Bing.*requires a key.*'bing_search_api_key'"):
        found(box, options=ToolOptions(engine="bing"))
    with pytest.raises(ToolFailed, match=r"bing.microsoft.com"):  # its usual address, which is not resolved here
        found(box, options=ToolOptions(engine="bing", api_key=KEY))
    assert services.request_counts() == {}


def test_another_engine_than_the_files_is_called_at_its_usual_address(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = services.url("bing")
    monkeypatch.setitem(ENGINES, "bing", replace(ENGINES["bing"], url=url))
    settings = WebSearchSettings(url=services.url("brave"), api_key_env="SEARCH_KEY")
    box = WebSearchToolbox(settings, NAMED.get, lambda _: fetcher(url))
    for named in (
        {"options": ToolOptions(engine="bing", api_key=KEY)},
        {"provider_data": {"bing_search_api_key": KEY}},
    ):
        call = invocation("web_search", QUERY, **named)
        if "options" not in named:
            box = WebSearchToolbox(WebSearchSettings(), NAMED.get, lambda _: fetcher(url))
        assert box.invoke(call).metadata == {"engine": "bing"}
    assert services.request_counts() == {"bing": 2}


def test_a_callers_key_of_another_engine_selects_that_engine(services: Services) -> None:
    box = searching(services, "brave")
    with pytest.raises(ToolFailed, match=r"api.tavily.com"):
        found(box, provider_data={"tavily_search_api_key": KEY})
    with pytest.raises(ToolFailed, match=r"requires a key"):
        found(box, provider_data={"tavily_search_api_key": KEY}, options=ToolOptions(engine="brave"))


def test_without_a_key_the_error_names_the_settings_for_one(services: Services) -> None:
    with pytest.raises(ToolFailed) as caught:
        found(searching(services, "brave"))
    for setting in ("'brave_search_api_key'", "X-LlamaStack-Provider-Data", "api_key_env", "[tools.websearch]"):
        assert setting in str(caught.value)
    with pytest.raises(ToolFailed, match=r"'wolfram_alpha_api_key'.*\[tools.wolfram_alpha\]"):
        WolframToolbox(WolframSettings(), NAMED.get, fetcher).invoke(invocation("wolfram_alpha", QUERY))


def test_an_unreadable_key_fails_the_call_without_its_name(services: Services) -> None:
    def unreachable(name: str) -> str:
        raise StoreUnavailable(f"the secret {name!r} can't be read: AccessDenied")

    box = WebSearchToolbox(WebSearchSettings(api_key_secret="prod/brave"), unreachable, fetcher)
    with pytest.raises(ToolFailed, match="key") as caught:
        found(box)
    assert "prod/brave" not in str(caught.value)


@pytest.mark.parametrize(
    ("engine", "error_text"),
    [
        ("brave", r"Brave refused or failed \(HTTP 422\): The provided subscription token is invalid\."),
        ("bing", r"Bing does not accept the key \(HTTP 401\): Access denied due to invalid subscription key"),
        ("tavily", r"Tavily does not accept the key \(HTTP 401\): Unauthorized: missing or invalid API key\."),
    ],
)
def test_an_engine_that_refuses_the_key_is_quoted(services: Services, engine: str, error_text: str) -> None:
    with pytest.raises(ToolFailed, match=error_text):
        found(searching(services, engine), provider_data={KEY_NAMES[engine]: "wrong-key"})


@pytest.mark.parametrize(
    ("answer", "error_text"),
    [
        (json_answer({"message": f"you sent {KEY}"}, 500), r"HTTP 500\): you sent \[redacted\]$"),
        (json_answer({"error": {"detail": "slow down"}}, 429), "takes no more requests now .*slow down"),
        (WebAnswer(503, b"<html>", "text/html"), r"HTTP 503\)$"),
        (WebAnswer(200, b"<html>", "text/html"), "other than a JSON object"),
        (WebAnswer(200, b"[" * 100_000), "other than a JSON object"),
        (WebAnswer(200, b"{" + b'"a":1,' * 2_000_000 + b'"b":2}'), "longer than"),
        (WebAnswer(302, headers={"Location": "https://elsewhere.test/"}), "redirects"),
    ],
)
def test_an_invalid_answer_fails_the_call_and_never_shows_the_key(answer: WebAnswer, error_text: str) -> None:
    with WebServer(lambda _: answer) as server:
        box = WebSearchToolbox(WebSearchSettings(url=server.url), NAMED.get, fetcher)
        with pytest.raises(ToolFailed, match=error_text) as caught:
            found(box, provider_data={"brave_search_api_key": KEY})
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"mixed": None, "web": {"results": "none"}},
        {
            "mixed": {"main": [{"type": "web", "index": 7}, {"type": []}, {"type": "summary"}, 5]},
            "web": {"results": []},
        },
        {"mixed": {"main": [{"type": "web", "index": -1}]}, "web": {"results": [None, 5]}},
    ],
)
def test_an_answer_without_results_has_no_results(answer: dict[str, Any]) -> None:
    assert [engine.results(answer, 3) for engine in ENGINES.values()] == [[], [], []]


def test_a_long_or_broken_text_of_a_page_is_cut_and_can_be_stored() -> None:
    result = {"name": "half \ud800 pair", "snippet": "x" * 100_000, "url": ["y" * 10_000] * 100}
    with WebServer(lambda _: json_answer({"webPages": {"value": [result] * 3}})) as server:
        box = WebSearchToolbox(WebSearchSettings(engine="bing", url=server.url), NAMED.get, fetcher)
        answer = box.invoke(invocation("web_search", QUERY, options=ToolOptions(api_key=KEY)))
    content = str(answer.content)
    assert len(content.encode()) < 300_000
    assert json.loads(content)["top_k"][2]["name"] == "half ? pair"


def test_a_missing_entry_of_braves_order_is_skipped() -> None:
    order = [{"type": "web", "index": -1}, {"type": "web", "index": 2}, {"type": "web", "index": 0}]
    answer = {"mixed": {"main": order}, "web": {"results": [{"title": "first"}, {"title": "last"}]}}
    assert ENGINES["brave"].results(answer, 3) == [{"title": "first"}]


def test_brave_without_an_order_of_kinds_returns_its_pages() -> None:
    answer = {"web": {"results": [{"title": str(n), "url": "u", "profile": {}} for n in range(9)]}}
    assert [result["title"] for result in ENGINES["brave"].results(answer, 3)] == ["0", "1", "2"]


@pytest.mark.parametrize("query", [None, "", "  ", 5, ["a"], "x" * 5_000, "\ud800"])
def test_an_invalid_query_is_refused_before_a_request(services: Services, query: object) -> None:
    box = searching(services, "brave", api_key_env="SEARCH_KEY")
    with pytest.raises(ToolFailed, match="query"):
        box.invoke(invocation("web_search", {"query": query}))
    assert services.request_counts() == {}


def test_a_key_invalid_in_a_header_is_refused_and_not_repeated(services: Services) -> None:
    with pytest.raises(ToolFailed, match="not valid in an HTTP header") as caught:
        found(searching(services, "brave"), options=ToolOptions(api_key="k\nX-Evil: 1"))
    assert "X-Evil" not in str(caught.value)


def test_an_unknown_engine_is_named_with_the_available_ones(services: Services) -> None:
    with pytest.raises(ToolFailed, match=r"'altavista'.*brave, bing, tavily"):
        found(searching(services, "brave"), options=ToolOptions(engine="altavista"))


def wolfram_box(services: Services) -> WolframToolbox:
    return WolframToolbox(WolframSettings(url=services.url("wolfram"), api_key_env="SEARCH_KEY"), NAMED.get, fetcher)


def test_wolfram_s_answer_ends_with_its_result(services: Services) -> None:
    result = wolfram_box(services).invoke(invocation("wolfram_alpha", {"query": "2+2"}))
    pods = [
        {"title": "Input", "subpods": [{"plaintext": "2 + 2"}]},
        {"title": "Result", "subpods": [{"plaintext": "4"}]},
    ]
    assert json.loads(str(result.content)) == {"queryresult": {"success": True, "inputstring": "2+2", "pods": pods}}


def test_a_question_that_wolfram_does_not_understand_has_its_suggestion(services: Services) -> None:
    content = json.loads(str(wolfram_box(services).invoke(invocation("w", {"query": "gibberish"})).content))
    suggestion = {"score": "0.5", "level": "medium", "val": "gibbous"}
    assert content == {"queryresult": {"success": False, "didyoumeans": suggestion, "pods": []}}


def test_wolfram_refuses_a_wrong_key_in_the_result(services: Services) -> None:
    with pytest.raises(ToolFailed, match="Invalid appid"):
        wolfram_box(services).invoke(invocation("w", QUERY, provider_data={"wolfram_alpha_api_key": "wrong"}))
    assert services.servers["wolfram"].requests[0].params["appid"] == ["wrong"]


@pytest.mark.parametrize("answer", [{}, {"queryresult": []}, {"queryresult": {"error": {"msg": f"no {KEY}"}}}])
def test_an_empty_answer_of_wolfram_fails_the_call_and_never_shows_the_key(answer: dict[str, Any]) -> None:
    with WebServer(lambda _: json_answer(answer)) as server:
        box = WolframToolbox(WolframSettings(url=server.url, api_key_env="SEARCH_KEY"), NAMED.get, fetcher)
        with pytest.raises(ToolFailed, match=r"Wolfram\|Alpha") as caught:
            box.invoke(invocation("wolfram_alpha", QUERY))
    assert KEY not in str(caught.value)
