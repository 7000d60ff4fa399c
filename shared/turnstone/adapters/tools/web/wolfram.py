"""Toolgroup `builtin::wolfram_alpha`: results of Wolfram|Alpha as plain text in JSON.

Source: the reference of Wolfram|Alpha's Full Results API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from turnstone.adapters.outgoing.quoting import quoted
from turnstone.adapters.tools.web.json_service import (
    Fetcher,
    Json,
    Keys,
    ServerKey,
    Service,
    ServiceRequest,
    as_text,
    caller_key,
    entries_in,
    picked,
    query_of,
    without_key,
)
from turnstone.domain.errors import ToolFailed
from turnstone.domain.registry.tool_settings import WolframSettings
from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation, ToolResult
from turnstone.domain.tools.tools import ToolDef, ToolParameter

URL = "https://api.wolframalpha.com/v2/query"
CALLER_KEY = "wolfram_alpha_api_key"
ANSWER = "Result"
KEPT = ("success", "inputstring", "didyoumeans", "tips", "warnings")
WOLFRAM_ALPHA = ToolDef(
    name="wolfram_alpha",
    description="Compute, or look up facts and data, with Wolfram|Alpha.",
    parameters=(
        ToolParameter(
            name="query", parameter_type="string", description="What to compute or look up, in simple English."
        ),
    ),
)


class WolframToolbox:
    """Queries Wolfram|Alpha."""

    def __init__(self, settings: WolframSettings, keys: Keys, fetcher: Callable[[str | None], Fetcher]) -> None:
        """Take the operator's settings, and a factory of fetchers that may also reach the configured address."""
        self._url = settings.url
        self._key = ServerKey(settings.api_key_env or settings.api_key_secret, keys)
        self._fetcher = fetcher

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:  # noqa: ARG002 - the same for every caller
        """Return the toolgroup's only tool."""
        return (WOLFRAM_ALPHA,)

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        """Return the answer as JSON, up to its result. Raises ToolFailed."""
        query = query_of(invocation)
        key = caller_key(invocation, CALLER_KEY) or self._key.text()
        if key is None:
            raise without_key("Wolfram|Alpha", CALLER_KEY, "tools.wolfram_alpha")
        query_params = {"input": query, "appid": key, "format": "plaintext", "output": "json"}
        service = Service("Wolfram|Alpha", self._url or URL, self._fetcher(self._url))
        answer = service.query_service(ServiceRequest(query_params), key, invocation)
        return ToolResult(as_text(cleaned(answer, key)))


def cleaned(answer: Json, key: str) -> dict[str, Any]:
    """Return the parts of the response for a model. Raises ToolFailed for an error.

    Pods after `Result` only repeat it in other words.
    """
    result = answer.get("queryresult")
    if not isinstance(result, dict):
        raise ToolFailed("Wolfram|Alpha answered with something that holds no result")
    error = result.get("error")
    if isinstance(error, dict):
        raise ToolFailed(f"Wolfram|Alpha refused: {quoted(str(error.get('msg')), (), (key,))}")
    return {"queryresult": {**picked(result, KEPT), "pods": list(_pods(entries_in(result, "pods")))}}


def _pods(pods: list[Any]) -> Iterator[dict[str, Any]]:
    for pod in pods:
        if not isinstance(pod, dict):
            continue
        texts = (picked(subpod, ("title", "plaintext")) for subpod in entries_in(pod, "subpods"))
        yield {"title": pod.get("title"), "subpods": [text for text in texts if "plaintext" in text]}
        if pod.get("title") == ANSWER:
            return
