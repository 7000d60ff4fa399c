"""The fake model server as a process of its own, and the rules it holds its clients to.

Covers: tests/fakes/models/openai_server, tests/fakes/models/openai_rules
"""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
import urllib3

from tests.fakes.models.openai_rules import refusal_of

USER = {"role": "user", "content": "hi"}
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ANSWERED = {"role": "tool", "tool_call_id": "a", "content": "x"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.fakes.models.openai_server", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
        assert process.stderr.read() == ""


def complete(url: str, model: str, **fields: object) -> urllib3.BaseHTTPResponse:
    body = {"model": model, "messages": [USER], **fields}
    return urllib3.request("POST", f"{url}/v1/chat/completions", json=body, retries=False)


def test_it_counts_its_calls_for_clients_in_other_processes(url: str):
    def count() -> int:
        return urllib3.request("GET", f"{url}/__calls", retries=False).json()["calls"]

    before = count()
    complete(url, "instant")
    complete(url, "instant", tools=[])
    assert count() == before + 2


@pytest.mark.parametrize(
    ("model", "texts"),
    [
        ("anything", ["ok"]),
        ("words-3", ["word0 ", "word1 ", "word2 "]),
        ("slow-0.01", ["ok"]),
        ("stream-0.2", ["word0 "]),
    ],
)
def test_a_built_in_model_streams_by_its_name(url: str, model: str, texts: list[str]):
    events = complete(url, model, stream=True).data.decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    choices = [choice for event in events[:-2] for choice in json.loads(event.removeprefix("data: "))["choices"]]
    assert [choice["delta"]["content"] for choice in choices if choice["delta"]] == texts


def test_a_client_without_stream_receives_one_answer(url: str):
    answer = complete(url, "tool:f").json()["choices"][0]
    assert answer["finish_reason"] == "tool_calls"
    assert answer["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}
    message = complete(url, "tool:f", messages=[USER, CALLING, ANSWERED]).json()["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "ok"}


@pytest.mark.parametrize(
    "messages",
    [[USER], [USER, CALLING, ANSWERED], [USER, CALLING, ANSWERED, {"role": "assistant", "content": "done"}, USER]],
)
def test_a_sound_history_is_accepted(messages: list[dict]):
    assert refusal_of({"messages": messages}) is None


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "messages"),
        ([USER, CALLING], "missing: a"),
        ([USER, CALLING, USER, ANSWERED], "missing: a"),
        ([USER, ANSWERED], "must answer a call"),
        ([USER, CALLING, ANSWERED, ANSWERED], "must answer a call"),
        ([{"role": "ipython", "content": "x"}], "unknown role"),
        ([{"role": "assistant", "content": None}], "null"),
        ([{"role": "assistant", "content": "x", "tool_calls": []}], "tool_calls"),
        ([{**CALLING, "tool_calls": [CALL, CALL]}, ANSWERED], "same id"),
        ([{**CALLING, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "{x"}}]}, ANSWERED], "valid JSON"),
        (
            [{**CALLING, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "1"}}]}, ANSWERED],
            "no JSON object",
        ),
    ],
)
def test_a_history_that_real_servers_refuse_is_refused(messages: list[dict], reason: str):
    refusal = refusal_of({"messages": messages})
    assert refusal is not None
    assert reason in refusal


def test_a_choice_without_tools_and_an_empty_list_of_tools_are_refused():
    assert refusal_of({"messages": [USER], "tool_choice": "none"}) is not None
    assert refusal_of({"messages": [USER], "tools": []}) is not None
