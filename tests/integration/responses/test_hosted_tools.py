"""Web search, code and images in responses over both stores: their items, events and details on request.

Covers: dialects/openai/responses/output, dialects/openai/responses/hosted_tools, store/files/attachments
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from tests.fakes.models.scripted import Scripted, call
from tests.support.engine.either_store import DICE, Make
from tests.support.engine.harness import Server
from tests.support.engine.responses import live, read, replayed, responded, started
from turnstone.domain.errors import InvalidRequest, ToolFailed
from turnstone.domain.tools.cited_results import CitedResult, written_results
from turnstone.domain.tools.tool_runs import ProducedFile, ToolResult

PNG = b"\x89PNG\r\n\x1a\n" + b"image" * 9
FOUND = written_results("web_search", [CitedResult(1, {"url": "https://a.example/b", "title": "Birds"}, "Terns.")])
TOOLS: dict[str, Any] = {
    **DICE,
    "builtin::websearch": {"brave_search": lambda arguments: FOUND},
    "builtin::code_interpreter": {
        "code_interpreter": lambda arguments: ToolResult(
            "completed\n[stdout]\n3\n[/stdout]", files=(ProducedFile("a.png", "image/png", PNG),)
        )
    },
    "builtin::photogen": {
        "photogen": lambda arguments: ToolResult("Made it.", files=(ProducedFile("a.png", "image/png", PNG),))
    },
}
WEB, CODE = {"type": "web_search"}, {"type": "code_interpreter", "container": {"type": "auto"}}
IMAGE = {"type": "image_generation"}
SOURCES, OUTPUTS = "web_search_call.action.sources", "code_interpreter_call.outputs"


def made(make: Make, *script: Scripted, **tools: Any) -> Server:
    server = make(*script)
    server.tools.offer({**TOOLS, **tools})
    return server


def kinds_of(events: list[dict[str, Any]], *prefixes: str) -> list[str]:
    kinds = [event["type"].removeprefix("response.") for event in events]
    return [kind for kind in kinds if kind.startswith(prefixes)]


def test_a_web_search_cites_addresses(make: Make) -> None:
    server = made(make, call("brave_search", "w", query="terns"), "They nest. They fly【1】!")
    search, message = responded(server, tools=[WEB], include=[SOURCES])["output"]
    sources = [{"type": "url", "url": "https://a.example/b"}]
    assert search["action"] == {"type": "search", "query": "terns", "queries": ["terns"], "sources": sources}
    (part,) = message["content"]
    (annotation,) = part["annotations"]
    assert (annotation["type"], annotation["url"], annotation["title"]) == (
        *("url_citation", "https://a.example/b"),
        "Birds",
    )
    assert part["text"][annotation["start_index"] : annotation["end_index"]] == "They fly"


def test_sources_and_outputs_are_shown_on_request_only(make: Make) -> None:
    server = made(make, call("brave_search", "w", query="terns"), call("code_interpreter", "c", code="1"), "Yes.")
    search, code, _ = responded(server, tools=[WEB, CODE])["output"]
    assert "sources" not in search["action"]
    assert code["outputs"] is None


def test_code_and_its_outputs_are_an_item(make: Make) -> None:
    server = made(make, call("code_interpreter", "c", code="print(3)"), "3")
    response = responded(server, tools=[CODE], include=[OUTPUTS])
    code, _ = response["output"]
    assert (code["type"], code["code"], code["container_id"]) == ("code_interpreter_call", "print(3)", "auto")
    logs, image = code["outputs"]
    assert (logs["type"], "3" in logs["logs"], image["type"]) == ("logs", True, "image")
    events = replayed(server, response["id"])
    assert kinds_of(events, "code_interpreter") == [
        *("code_interpreter_call.in_progress", "code_interpreter_call_code.delta", "code_interpreter_call_code.done"),
        *("code_interpreter_call.interpreting", "code_interpreter_call.completed"),
    ]


def test_an_image_is_an_item_with_its_bytes(make: Make) -> None:
    server = made(make, call("photogen", "i", query="a tern"), "Here.")
    response = responded(server, tools=[IMAGE])
    image, _ = response["output"]
    assert (image["status"], image["result"], image["revised_prompt"]) == (
        *("completed", b64encode(PNG).decode()),
        "a tern",
    )
    kinds = kinds_of(replayed(server, response["id"]), "image_generation")
    assert kinds == [f"image_generation_call.{kind}" for kind in ("in_progress", "generating", "completed")]


def test_a_stream_is_what_is_read_later(make: Make) -> None:
    script = call("brave_search", "w", query="terns"), call("code_interpreter", "c", code="1"), "Both【1】."
    server = made(make, *script)
    begun = started(server, tools=[WEB, CODE], include=[SOURCES, OUTPUTS])
    events = live(begun)
    response = events[-1]["response"]
    assert response == read(server, response["id"])
    assert events == replayed(server, response["id"])
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == response["output"]


@pytest.mark.parametrize(("tool", "name"), [(WEB, "brave_search"), (CODE, "code_interpreter"), (IMAGE, "photogen")])
def test_a_failed_tool_is_a_failed_item(make: Make, tool: dict[str, Any], name: str) -> None:
    def fail(arguments: object) -> str:
        raise ToolFailed("out of order")

    group = {"brave_search": "websearch"}.get(name, name)
    server = made(make, call(name, "x", query="a", code="b"), "Sorry.", **{f"builtin::{group}": {name: fail}})
    item, message = responded(server, tools=[tool], include=[SOURCES, OUTPUTS])["output"]
    assert (item["status"], message["content"][0]["text"]) == ("failed", "Sorry.")
    assert not item.get("outputs")
    assert not item.get("result")


def test_a_tool_that_is_off_is_refused_at_its_position(make: Make) -> None:
    server = make()
    with pytest.raises(InvalidRequest) as refused:
        responded(server, tools=[{"type": "function", "name": "add"}, IMAGE])
    assert refused.value.location == ("tools",)
