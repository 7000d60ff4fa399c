"""Input items of calls that a server ran: searches, code and images, as an earlier output had them.

Source: the types of `openai` 3.54.0. Clients that keep their own history send them back. A model gets each as a call
and its answer; a client that did not include the results of a call has none to send.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator
from pydantic_core import to_json

from turnstone.dialects.openai.responses.input.mcp_items import FAILED, Name
from turnstone.dialects.openai.strict import StrictRequest
from turnstone.domain.messages.messages import Message, ToolResponseMessage
from turnstone.domain.tools.tools import ToolCall, call_from_json
from turnstone.domain.values.frozen import JsonObject, Many

PREFIXES = {
    "file_search_call": "fs",
    "web_search_call": "ws",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
}
NOT_SENT = "The results of this call are not in the history."
NOTHING = "The call has no results."
IMAGE = "[image]"


class ResultItem(StrictRequest):
    attributes: JsonObject | None = None
    file_id: str | None = None
    filename: str | None = None
    score: float | None = None
    text: str | None = None


class FileSearchCallItem(StrictRequest):
    type: Literal["file_search_call"]
    id: Name
    queries: Many[str]
    status: Literal["in_progress", "searching", "completed", "incomplete", "failed"] | None = None
    results: Many[ResultItem] | None = None


class SearchSource(StrictRequest):
    type: Literal["url"]
    url: str


class SearchAction(StrictRequest):
    type: Literal["search"]
    query: str | None = None
    queries: Many[str] | None = None
    sources: Many[SearchSource] | None = None


class OpenPageAction(StrictRequest):
    type: Literal["open_page"]
    url: str | None = None


class FindAction(StrictRequest):
    type: Literal["find_in_page"]
    pattern: str
    url: str


class WebSearchCallItem(StrictRequest):
    type: Literal["web_search_call"]
    id: Name
    action: Annotated[SearchAction | OpenPageAction | FindAction, Discriminator("type")]
    status: Literal["in_progress", "searching", "completed", "incomplete", "failed"] | None = None


class Logs(StrictRequest):
    type: Literal["logs"]
    logs: str


class ImageOutput(StrictRequest):
    type: Literal["image"]
    url: str


class CodeCallItem(StrictRequest):
    type: Literal["code_interpreter_call"]
    id: Name
    code: str | None = None
    container_id: str
    outputs: Many[Annotated[Logs | ImageOutput, Discriminator("type")]] | None = None
    status: Literal["in_progress", "interpreting", "completed", "incomplete", "failed"] | None = None


class ImageCallItem(StrictRequest):
    """An image, in base64. The fields after its status describe how a server made it."""

    type: Literal["image_generation_call"]
    id: Name
    result: str | None = None
    status: Literal["in_progress", "generating", "completed", "failed"] | None = None
    revised_prompt: str | None = None
    action: str | None = None
    background: str | None = None
    output_format: str | None = None
    quality: str | None = None
    size: str | None = None


HostedItem = FileSearchCallItem | WebSearchCallItem | CodeCallItem | ImageCallItem


def messages_of(item: StrictRequest) -> tuple[Message | ToolCall, ...]:
    """Return the call and its answer; none for another item, such as reasoning, which no model gets again."""
    match item:
        case FileSearchCallItem():
            name, arguments = "file_search", {"query": " ".join(item.queries)}
            results = None if item.results is None else [found.text or "" for found in item.results]
        case WebSearchCallItem():
            sources = getattr(item.action, "sources", None)
            name, arguments = "web_search", _searched(item.action)
            results = None if sources is None else [source.url for source in sources]
        case CodeCallItem():
            name, arguments = "code_interpreter", {"code": item.code or ""}
            outputs = item.outputs
            results = None if outputs is None else [e.logs if isinstance(e, Logs) else IMAGE for e in outputs]
        case ImageCallItem():
            name, arguments = "image_generation", {"query": item.revised_prompt or ""}
            results = [IMAGE] if item.result else None
        case _:
            return ()
    call = call_from_json(item.id, name, to_json(arguments).decode())
    return call, ToolResponseMessage(call_id=item.id, content=_answer(results, item.status))


def _answer(results: Sequence[str] | None, status: str | None) -> str:
    """Return the answer for a model, of results that the client may not have."""
    if text := "\n".join(filter(None, results or ())):
        return text
    if status in ("failed", "incomplete"):
        return FAILED
    return NOT_SENT if results is None else NOTHING


def _searched(action: SearchAction | OpenPageAction | FindAction) -> dict[str, Any]:
    if isinstance(action, SearchAction):
        return {"query": action.query if action.query is not None else " ".join(action.queries or ())}
    return action.model_dump(exclude={"type"}, exclude_none=True)
