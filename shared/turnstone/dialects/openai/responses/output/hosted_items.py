"""Calls of this server's tools in an output, while they run: searches, code and images.

Such an item begins with the model's call, and ends with the answer of the tool.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from turnstone.dialects.openai.responses.output.text_items import Annotation, Event, OpenItem
from turnstone.domain.responses.hosted import HostedTool
from turnstone.domain.tools.cited_results import CitedResult, results_in
from turnstone.domain.tools.inline_toolgroups import server_label
from turnstone.domain.tools.tools import ToolCall, ToolResponse
from turnstone.domain.turns.loop_policies import is_failed
from turnstone.domain.values.content import text_of

RESULTS, SOURCES = "file_search_call.results", "web_search_call.action.sources"
OUTPUTS = "code_interpreter_call.outputs"
CONTAINER = "auto"  # each call has one of its own


class OfResponse(NamedTuple):
    """The response that has the items.

    Attributes:
        include: details to show.
        image_at: returns the base64 of the image at an address, None if it is gone. Reads the store.
    """

    turn_id: str
    include: tuple[str, ...] = ()
    image_at: Callable[[str], str | None] = lambda _: None


class OpenHosted(OpenItem):
    """A call of a server's tool.

    Attributes:
        sources: those that its answer gives to citations, by their numbers.
        is_over: whether its answer has come, or it waits for its client.
    """

    works = ""  # the event that follows the call

    def __init__(self, of: OfResponse, index: int, tool: HostedTool) -> None:
        super().__init__(of.turn_id, index)
        self._of = of
        self._tool = tool
        self.sources: dict[int, Annotation] = {}
        self.is_over = False

    def begun(self) -> Iterator[Event]:
        yield from super().begun()
        yield self._emitted("in_progress")

    def grown(self, text: str) -> Iterator[Event]:
        """Take a part of the call's arguments, which these items show once they are whole."""
        self.text += text
        yield from ()

    def called(self, call: ToolCall) -> Iterator[Event]:
        """Take the whole call, which the server now runs."""
        self._take({} if isinstance(call.arguments, str) else call.arguments)
        yield self._emitted(self.works)

    def answered(self, response: ToolResponse) -> Iterator[Event]:
        """Take the tool's answer, and end the item."""
        self.is_over = True
        if not is_failed(response):
            self._take_answer(response)
        yield self._emitted("completed")
        yield from self.ended("failed" if is_failed(response) else "completed")

    def left(self) -> Iterator[Event]:
        """End the item of a call that was not run, because its response ends before."""
        self.is_over = True
        yield from self.ended("incomplete")

    def _take(self, arguments: Mapping[str, Any]) -> None:
        """Take the arguments of the whole call."""

    def _take_answer(self, response: ToolResponse) -> None:
        """Take the answer of a tool that did not fail."""

    def _emitted(self, what: str) -> Event:
        return self._event(f"response.{self._tool.kind}_call.{what}", item_id=self.item_id)


class OpenFileSearch(OpenHosted):
    kind = "fs"
    works = "searching"

    def __init__(self, of: OfResponse, index: int, tool: HostedTool) -> None:
        super().__init__(of, index, tool)
        self._queries: list[str] = []
        self._results: list[CitedResult] = []

    @property
    def item(self) -> dict[str, Any]:
        results = [{**each.about, "text": each.text} for each in self._results]
        return {
            "id": self.item_id,
            "type": "file_search_call",
            "status": self.status,
            "queries": self._queries,
            "results": results if RESULTS in self._of.include and self.is_over else None,
        }

    def _take(self, arguments: Mapping[str, Any]) -> None:
        self._queries = _queries_in(arguments)

    def _take_answer(self, response: ToolResponse) -> None:
        self._results = results_in(response.content)
        for each in self._results:
            file_id, filename = str(each.about.get("file_id")), str(each.about.get("filename"))
            self.sources[each.number] = {"type": "file_citation", "file_id": file_id, "filename": filename}


class OpenWebSearch(OpenHosted):
    kind = "ws"
    works = "searching"

    def __init__(self, of: OfResponse, index: int, tool: HostedTool) -> None:
        super().__init__(of, index, tool)
        self._queries: list[str] = []

    @property
    def item(self) -> dict[str, Any]:
        action: dict[str, Any] = {"type": "search", "query": "".join(self._queries), "queries": self._queries}
        if SOURCES in self._of.include:
            action["sources"] = [{"type": "url", "url": source["url"]} for source in self.sources.values()]
        return {"id": self.item_id, "type": "web_search_call", "status": self.status, "action": action}

    def _take(self, arguments: Mapping[str, Any]) -> None:
        self._queries = _queries_in(arguments)

    def _take_answer(self, response: ToolResponse) -> None:
        for each in results_in(response.content):
            url, title = str(each.about.get("url")), str(each.about.get("title"))
            self.sources[each.number] = {"type": "url_citation", "url": url, "title": title}


class OpenCode(OpenHosted):
    kind = "ci"
    works = "interpreting"

    def __init__(self, of: OfResponse, index: int, tool: HostedTool) -> None:
        super().__init__(of, index, tool)
        self._code = ""
        self._outputs: list[dict[str, Any]] = []

    @property
    def item(self) -> dict[str, Any]:
        return {
            "id": self.item_id,
            "type": "code_interpreter_call",
            "status": self.status,
            "code": self._code,
            "container_id": CONTAINER,
            "outputs": self._outputs if OUTPUTS in self._of.include and self.is_over else None,
        }

    def called(self, call: ToolCall) -> Iterator[Event]:
        code = "" if isinstance(call.arguments, str) else call.arguments.get("code")
        self._code = code if isinstance(code, str) else ""
        if self._code:
            yield self._of_code("delta", delta=self._code)
        yield self._of_code("done", code=self._code)
        yield self._emitted(self.works)

    def _take_answer(self, response: ToolResponse) -> None:
        files = (response.metadata or {}).get("attachments") or ()
        logs = {"type": "logs", "logs": text_of(response.content)}
        self._outputs = [logs, *({"type": "image", "url": url} for url in files if isinstance(url, str))]

    def _of_code(self, what: str, **fields: Any) -> Event:
        return self._event(f"response.code_interpreter_call_code.{what}", item_id=self.item_id, **fields)


class OpenImage(OpenHosted):
    kind = "ig"
    works = "generating"

    def __init__(self, of: OfResponse, index: int, tool: HostedTool) -> None:
        super().__init__(of, index, tool)
        self._prompt: str | None = None
        self._result: str | None = None

    @property
    def item(self) -> dict[str, Any]:
        return {
            "id": self.item_id,
            "type": "image_generation_call",
            "status": self.status,
            "result": self._result,
            "revised_prompt": self._prompt,
        }

    def left(self) -> Iterator[Event]:
        self.is_over = True
        yield from self.ended("failed")

    def _take(self, arguments: Mapping[str, Any]) -> None:
        self._prompt = "".join(_queries_in(arguments)) or None

    def _take_answer(self, response: ToolResponse) -> None:
        for url in (response.metadata or {}).get("attachments") or ():
            self._result = self._result or self._of.image_at(str(url))


class OpenTool(OpenHosted):
    """A call of a tool of a toolgroup, in the form of a call of an MCP server's tool."""

    kind = "mcp"

    def __init__(self, of: OfResponse, index: int, tool: HostedTool, approval: str | None = None) -> None:
        """Take the id of the request that was approved, if there was one."""
        super().__init__(of, index, tool)
        self._approval = approval
        self._output: str | None = None
        self._error: dict[str, Any] | None = None

    @property
    def item(self) -> dict[str, Any]:
        return {
            "id": self.item_id,
            "type": "mcp_call",
            "status": self.status,
            "server_label": server_label(self._tool.group),
            "name": self._tool.runs_as,
            "arguments": self.text,
            "output": self._output,
            "error": self._error,
            "approval_request_id": self._approval,
        }

    def grown(self, text: str) -> Iterator[Event]:
        self.text += text
        yield self._event("response.mcp_call_arguments.delta", item_id=self.item_id, delta=text)

    def called(self, call: ToolCall) -> Iterator[Event]:  # noqa: ARG002 - its arguments have been streamed
        yield self._event("response.mcp_call_arguments.done", item_id=self.item_id, arguments=self.text)

    def answered(self, response: ToolResponse) -> Iterator[Event]:
        self.is_over = True
        text = text_of(response.content)
        if is_failed(response):
            content = [{"type": "text", "text": text}]
            self._error = {"type": "mcp_tool_execution_error", "content": content}
        else:
            self._output = text
        yield self._emitted("failed" if is_failed(response) else "completed")
        yield from self.ended("failed" if is_failed(response) else "completed")


def _queries_in(arguments: Mapping[str, Any]) -> list[str]:
    query = arguments.get("query")
    return [query] if isinstance(query, str) else []


def opened_hosted(of: OfResponse, index: int, tool: HostedTool) -> OpenHosted:
    """Return the item of a call that has begun."""
    match tool.kind:
        case "file_search":
            return OpenFileSearch(of, index, tool)
        case "web_search":
            return OpenWebSearch(of, index, tool)
        case "code_interpreter":
            return OpenCode(of, index, tool)
        case "image_generation":
            return OpenImage(of, index, tool)
        case "mcp":
            return OpenTool(of, index, tool)
