"""Answers have the shapes of recorded exchanges with Letta 0.6.12, except for the differences listed here.

Covers: functions/letta, dialects/letta
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.contract.letta.recorded_differences import BY_SHAPE, BY_STATUS, UNSERVED
from tests.fakes.models.openai_answers import Answer, HttpAnswer, call_chunk, chunk, text_chunk, usage_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.needs import skip
from tests.support.server.asgi_client import Answered, Raw, Served, served

RECORDED = Path(__file__).parents[4] / "shared" / "contract" / "letta-shapes.json"
EXCHANGES = 104
AGENT = "agent-1ae7d9f9-a85e-4cb9-a7f7-377f736cfa22"  # of most exchanges
TOOL = "tool-e45be5b4-f7ed-4916-96b1-1f89d447ffd0"
PASSAGE = "passage-6c830b0b-a343-469e-a571-047d3c033922"
SOURCE = "source-e56a4b00-16f7-4110-82fb-c11832777b48"
RUN = "run-81dbb67f-6ff5-4093-8b1e-4e5f5457dc1a"
ANSWER = "message-77f1aae7-7294-4ae1-93c0-c6b63999ffc4"  # of a tool
PLACEHOLDER = re.compile(r"<(\w+) id>")
LACKS = ("path_not_found", "method_not_allowed", "not_implemented")
# texts whose length alone is recorded
ROLL = '''def roll(sides: int) -> int:
    """Roll a die.

    Args:
        sides (int): number of sides
    """
    return sides
'''
TEXTS = {
    "25_tool_create": ROLL,
    "26_tool_create_409": ROLL,
    "40_block_patch_over": "x" * 300,
    "41_block_patch_over2": "x" * 6_000,
    "62_send_memtool": '@@tool core_memory_append {"label": "human", "content": "likes tea"}@@',
    "64_send_toolerr": '@@tool core_memory_replace {"label": "human", "old_content": "no", "new_content": ""}@@',
    "65_send_archsearch": '@@tool archival_memory_search {"query": "sky"}@@',
    "66_send_convsearch": '@@tool conversation_search {"query": "hi"}@@',
}


def model(body: Mapping[str, Any]) -> Answer:
    """Answer by the newest message, as the model of the recording did."""
    text = str(body["messages"][-1]["content"])
    if "@@error@@" in text:
        return HttpAnswer(400, {"error": {"message": "no"}})
    if found := re.search(r"@@text (.*)@@", text):
        return (text_chunk(found[1]), chunk({}, "stop"), usage_chunk(10, 5))
    found = re.search(r"@@tool (\w+) (.*)@@", text)
    name, arguments = (found[1], json.loads(found[2])) if found else ("send_message", {"message": "hello"})
    arguments = {"inner_thoughts": "thinking", **arguments, "request_heartbeat": name != "send_message"}
    return (call_chunk(0, name, json.dumps(arguments)), chunk({}, "tool_calls"), usage_chunk(10, 5))


def differences(path: str, theirs: Any, ours: Any) -> Iterator[str]:
    """Yield where the shapes of two answers differ: keys, types, and which are null."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted({*theirs, *ours}):
            if key not in theirs or key not in ours:
                yield f"{path}.{key}: {'missing' if key in theirs else 'more'}"
            else:
                yield from differences(f"{path}.{key}", theirs[key], ours[key])
    elif isinstance(theirs, list) and isinstance(ours, list):
        recorded = _by_kind(theirs)
        for kind, item in _by_kind(ours).items():
            if kind in recorded:
                yield from differences(f"{path}[{kind}]", recorded[kind], item)
    elif kind_of(theirs) != kind_of(ours):
        yield f"{path}: {kind_of(theirs)} is {kind_of(ours)}"


def _by_kind(items: list[Any]) -> dict[str, Any]:
    """Return the first item of each kind: messages by their type or role, tools and agents by name, others one."""
    found: dict[str, Any] = {}
    for item in items:
        if isinstance(item, str) and item.startswith(("<", "...")):
            continue
        found.setdefault(_kind_in(item) or kind_of(item), item)
    return found


def _kind_in(item: Any) -> str:
    if not isinstance(item, dict):
        return ""
    own = item.get("name") if {"json_schema", "llm_config"} & item.keys() else None
    return str(item.get("message_type") or item.get("role") or own or item.get("function", {}).get("name") or "")


def kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
    return "list" if isinstance(value, list) else "object"


class Player:
    """Plays the exchanges in their order, with the ids of this server in place of the recorded ones."""

    def __init__(self, serving: Served) -> None:
        self._client = serving.client
        self._ids: dict[str, str] = {}

    def play(self, name: str, recorded: Mapping[str, Any]) -> Answered:
        request = recorded["request"]
        path = f"/letta{request['path']}"
        for theirs, ours in self._ids.items():
            path = path.replace(theirs, ours)
        params = {key: self._value(name, key, value) for key, value in request.get("params", {}).items()}
        target = f"{path}?{urlencode(params, doseq=True)}" if params else path
        body = self._body(name, request.get("json"))
        headers = [(key.encode(), b"user-0") for key in request.get("headers", {})]
        answer = self._client.send(Raw(request["method"], target.encode(), (body,), tuple(headers)))
        self._keep(name, answer)
        return answer

    def _body(self, name: str, sent: Any) -> bytes:
        if sent is None:
            return b""
        text = json.dumps(sent)
        if name in TEXTS:
            text = re.sub(r'"<str, \d+ chars>"', lambda _: json.dumps(TEXTS[name]), text)
        return re.sub(r', "<\d+ items in all>"', "", text).encode()

    def _value(self, name: str, key: str, value: Any) -> Any:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, list):
            return [each for each in value if not each.startswith("<")]
        placeholder = PLACEHOLDER.fullmatch(str(value))
        if placeholder is None:
            return value
        if placeholder[1] == "message":
            return self._client.get(f"/letta/v1/agents/{self._ids[AGENT]}/messages?limit=1").json()[0]["id"]
        return self._ids[{"agent": AGENT, "passage": PASSAGE}[placeholder[1]]]

    def _keep(self, name: str, answer: Answered) -> None:
        if name == "05_create":
            self._ids[AGENT] = answer.json()["id"]
        elif name == "25_tool_create":
            self._ids[TOOL] = answer.json()["id"]
        elif name == "46_source_create":
            self._ids[SOURCE] = answer.json()["id"]
        elif name == "50_arch_add":
            self._ids[PASSAGE] = answer.json()[0]["id"]
        elif name == "90_msgs_before":
            listed = self._client.get(f"/letta/v1/agents/{self._ids[AGENT]}/messages?limit=10").json()
            self._ids[ANSWER] = next(each["id"] for each in listed if each["message_type"] == "tool_return_message")
        elif name == "80_async":
            self._ids[RUN] = answer.json()["id"]
            sent = {"messages": [{"role": "user", "text": "after the run"}]}  # its turn waits for that of the run
            assert self._client.post(f"/letta/v1/agents/{self._ids[AGENT]}/messages", sent).status == 200


def shape_of(answer: Answered) -> Any:
    if not answer.body.startswith(b"data: "):
        return answer.json() if answer.body else ""
    lines = answer.body.decode().removesuffix("\n\n").split("\n\n")
    texts = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return {"sse": [text if text == "[DONE]" else json.loads(text) for text in texts]}


@pytest.fixture(scope="module")
def exchanges() -> dict[str, Any]:
    if not RECORDED.exists():
        skip(f"not there: {RECORDED.name}")
    found: dict[str, Any] = json.loads(RECORDED.read_text())
    assert len(found) == EXCHANGES
    return found


def test_answers_have_the_recorded_shapes_except_for_the_listed_differences(
    exchanges: dict[str, Any], tmp_path: Path
) -> None:
    shapes: dict[str, str] = {}
    statuses: dict[str, tuple[int, int]] = {}
    unserved: set[str] = set()
    with ModelServer(model, strict=False) as models, served(tmp_path, model_url=models.url) as serving:
        player = Player(serving)
        for name, recorded in exchanges.items():
            answer = player.play(name, recorded)
            if answer.status in (404, 405, 501) and answer.json()["code"] in LACKS:
                unserved.add(name)
            elif answer.status != recorded["status"]:
                statuses[name] = (recorded["status"], answer.status)
            else:
                for found in differences("", recorded["body"], shape_of(answer)):
                    shapes.setdefault(found, name)
    assert unserved == UNSERVED
    assert statuses == {name: (theirs, ours) for name, (theirs, ours, _) in BY_STATUS.items()}
    assert shapes.keys() == BY_SHAPE.keys(), shapes


@pytest.mark.parametrize(
    ("theirs", "ours", "expected"),
    [
        ({"a": 1}, {"a": 2.5}, []),
        ({"a": 1}, {"a": True}, [".a: number is boolean"]),
        ({"a": None}, {"a": ""}, [".a: null is text"]),
        ({"a": 1}, {"b": 1}, [".a: missing", ".b: more"]),
        ([{"a": 1}, "<2 items in all>"], [{"a": None}], ["[object].a: number is null"]),
        ([], [{"a": None}], []),
        ([{"role": "user", "x": 1}], [{"role": "tool"}, {"role": "user"}], ["[user].x: missing"]),
        ("", [], [": text is list"]),
    ],
)
def test_shapes_differ_by_keys_types_and_nulls(theirs: Any, ours: Any, expected: list[str]) -> None:
    assert list(differences("", theirs, ours)) == expected
