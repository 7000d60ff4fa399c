"""Brave, Bing, Tavily and Wolfram|Alpha as their references describe them, each strict about its key.

Source: the references of these APIs; the values are made up.
"""

from __future__ import annotations

from typing import Any

from tests.fakes.web.web_server import WebAnswer, WebRequest, json_answer

KEY = "right-key-0123456789"


def page(number: int) -> dict[str, Any]:
    return {
        "title": f"Page {number}",
        "url": f"https://pages.test/{number}",
        "is_source_local": False,
        "is_source_both": False,
        "description": f"What page {number} says",
        "language": "en",
        "family_friendly": True,
        "type": "search_result",
        "subtype": "generic",
        "meta_url": {"scheme": "https", "netloc": "pages.test", "hostname": "pages.test", "favicon": "", "path": ""},
        "extra_snippets": [f"More of page {number}"],
    }


def video(number: int) -> dict[str, Any]:
    return {
        "type": "video_result",
        "url": f"https://videos.test/{number}",
        "title": f"Video {number}",
        "description": f"What video {number} shows",
        "age": "May 1, 2024",
        "video": {"duration": "05:00", "creator": "somebody"},
        "thumbnail": {"src": "https://imgs.test/1", "original": "https://imgs.test/2"},
    }


def question(number: int) -> dict[str, Any]:
    return {
        "question": f"Question {number}?",
        "answer": f"Answer {number}.",
        "title": f"FAQ {number}",
        "url": f"https://faq.test/{number}",
        "meta_url": {"scheme": "https", "netloc": "faq.test"},
    }


def mixed_slot(kind: str, index: int | None = None) -> dict[str, Any]:
    return {"type": kind, "all": True} if index is None else {"type": kind, "index": index, "all": False}


MIXED_SLOTS = [
    mixed_slot("web", 1),
    mixed_slot("videos"),
    mixed_slot("faq"),
    mixed_slot("web", 0),
    mixed_slot("web", 2),
]
BRAVE_ANSWER: dict[str, Any] = {
    "query": {"original": "rain in spain", "show_strict_warning": False, "more_results_available": True},
    "mixed": {"type": "mixed", "main": MIXED_SLOTS, "top": [], "side": []},
    "type": "search",
    "videos": {"type": "videos", "results": [video(n) for n in range(5)], "mutated_by_goggles": False},
    "faq": {"type": "faq", "results": [question(0)]},
    "web": {"type": "search", "results": [page(n) for n in range(20)], "family_friendly": True},
}
BING_ANSWER: dict[str, Any] = {
    "_type": "SearchResponse",
    "queryContext": {"originalQuery": "rain in spain"},
    "webPages": {
        "webSearchUrl": "https://www.bing.com/search?q=rain+in+spain",
        "totalEstimatedMatches": 5_000,
        "value": [
            {
                "id": f"https://api.bing.microsoft.com/api/v7/#WebPages.{n}",
                "name": f"Page {n}",
                "url": f"https://pages.test/{n}",
                "isFamilyFriendly": True,
                "displayUrl": f"https://pages.test/{n}",
                "snippet": f"What page {n} says",
                "dateLastCrawled": "2024-05-01T00:00:00.0000000Z",
                "language": "en",
                "isNavigational": False,
            }
            for n in range(5)
        ],
    },
    "rankingResponse": {"mainline": {"items": []}},
}
TAVILY_ANSWER: dict[str, Any] = {
    "query": "rain in spain",
    "follow_up_questions": None,
    "answer": None,
    "images": [],
    "results": [
        {
            "title": f"Page {n}",
            "url": f"https://pages.test/{n}",
            "content": f"What page {n} says",
            "score": 0.9,
            "raw_content": None,
        }
        for n in range(3)
    ],
    "response_time": 1.2,
    "request_id": "123e4567-e89b-12d3-a456-426614174111",
}


def pod(title: str, text: str, **more: Any) -> dict[str, Any]:
    return {
        "title": title,
        "scanner": "Identity",
        "id": title,
        "position": 100,
        "error": False,
        "numsubpods": 1,
        "subpods": [{"title": "", "plaintext": text}],
        "expressiontypes": {"name": "Default"},
        **more,
    }


WOLFRAM_ANSWER: dict[str, Any] = {
    "queryresult": {
        "success": True,
        "error": False,
        "numpods": 4,
        "datatypes": "Math",
        "timedout": "",
        "timedoutpods": "",
        "timing": 0.6,
        "parsetiming": 0.1,
        "parsetimedout": False,
        "recalculate": "",
        "id": "MSP1",
        "host": "https://www6b3.wolframalpha.com",
        "server": "4",
        "related": "https://www6b3.wolframalpha.com/api/v1/relatedQueries.jsp?id=MSP2",
        "version": "2.6",
        "inputstring": "2+2",
        "pods": [
            pod("Input", "2 + 2"),
            pod("Result", "4", primary=True, states=[{"name": "Step-by-step", "input": "R"}]),
            pod("Number name", "four"),
            pod("Number line", ""),
        ],
    }
}


def brave(request: WebRequest) -> WebAnswer:
    assert (request.method, request.path) == ("GET", "/res/v1/web/search")
    if request.headers.get("x-subscription-token") != KEY:
        return _brave_error(422, "SUBSCRIPTION_TOKEN_INVALID", "The provided subscription token is invalid.")
    query = request.params.get("q", [""])[0]
    if not query or len(query) > 400 or len(query.split()) > 50:
        return _brave_error(422, "VALIDATION", "Unable to validate request parameter(s)")
    return json_answer(BRAVE_ANSWER)


def bing(request: WebRequest) -> WebAnswer:
    assert (request.method, request.path) == ("GET", "/v7.0/search")
    if request.headers.get("ocp-apim-subscription-key") != KEY:
        reason = "Access denied due to invalid subscription key or wrong API endpoint."
        return json_answer({"error": {"code": "401", "message": reason}}, 401)
    assert request.params["q"]
    return json_answer(BING_ANSWER)


def tavily(request: WebRequest) -> WebAnswer:
    assert (request.method, request.path) == ("POST", "/search")
    assert request.headers["content-type"] == "application/json"
    if request.headers.get("authorization") != f"Bearer {KEY}":
        return json_answer({"detail": {"error": "Unauthorized: missing or invalid API key."}}, 401)
    body = request.json_body
    assert body["query"]
    return json_answer({**TAVILY_ANSWER, "results": TAVILY_ANSWER["results"][: body["max_results"]]})


def wolfram(request: WebRequest) -> WebAnswer:
    assert (request.method, request.path) == ("GET", "/v2/query")
    assert (request.params["format"], request.params["output"]) == (["plaintext"], ["json"])
    if request.params.get("appid") != [KEY]:
        error = {"code": "1", "msg": "Invalid appid"}
        return json_answer({"queryresult": {"success": False, "error": error, "numpods": 0, "version": "2.6"}})
    if request.params["input"] == ["gibberish"]:
        suggestion = {"score": "0.5", "level": "medium", "val": "gibbous"}
        return json_answer({"queryresult": {"success": False, "error": False, "numpods": 0, "didyoumeans": suggestion}})
    return json_answer(WOLFRAM_ANSWER)


def _brave_error(status: int, code: str, detail: str) -> WebAnswer:
    error = {"id": "5d83", "status": status, "code": code, "detail": detail, "meta": {"component": "authentication"}}
    return json_answer({"type": "ErrorResponse", "error": error, "time": 1_663_072_993}, status)
