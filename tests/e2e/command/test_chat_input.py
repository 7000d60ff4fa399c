"""`turnstone chat`: messages from standard input and pastes, and the agents that chats leave behind.

Covers: functions/command/chat
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Answer, call_answer, text_answer
from tests.fakes.models.openai_server import ModelServer
from tests.support.cases import rest_at_night
from tests.support.clients.plain_client import PlainClient
from tests.support.clients.terminal import (
    CTRL_D,
    RETURN,
    Terminal,
    chat_environment,
    chatted,
    is_readable,
)
from tests.support.server.servers import ServerProcess, wait_until
from tests.support.starts.commands import run_command, start

pytestmark = pytest.mark.timeout(120)
PASTE, END_OF_PASTE = "\x1b[200~", "\x1b[201~"
TIMEOUT_S = 30
CHATS = 2  # at once


def repeating(body: Mapping[str, Any]) -> Answer:
    """Answer with a question's number of characters; `asks` calls the tool of a chat first."""
    last = body["messages"][-1]
    if body["model"] == "asks" and last["role"] == "user":
        return call_answer(("get_weather", '{"city": "Oslo"}'))
    return text_answer(f"received {len(last['content'])}")


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer(repeating) as server:
        yield server


@pytest.fixture(scope="module")
def server(model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("chat")
    with ServerProcess(folder, model_url=model.url, lease_seconds=1, max_body_bytes=200_000) as running:
        yield running


@pytest.fixture
def received(model: ModelServer) -> list[Any]:
    """The requests that reach the model during the test."""
    model.requests.clear()
    return model.requests


def questions(received: list[Any]) -> list[str]:
    return [request["messages"][-1]["content"] for request in received]


def piped(url: str, stdin: int | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command("chat", *arguments, "--model", "instant", environment=chat_environment(url), stdin=stdin)


# ── standard input ───────────────────────────────────────────────────────────────────────────────────────────────


def test_piped_input_is_sent_with_the_message(server: ServerProcess, received: list[Any]) -> None:
    diff = "--- a/café.py\n+++ b/café.py\n@@ -1 +1 @@\n-print(1)\n+print(2)\r\n"
    done = chatted(server.url, "Review this", "--model", "instant", typed=diff)
    assert done.returncode == 0, done.stderr
    assert questions(received) == [f"{diff.rstrip()}\n\nReview this"]


def test_a_file_as_standard_input_is_sent_with_the_message(
    server: ServerProcess, received: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("of a file\n")
    with (tmp_path / "notes.txt").open() as notes:
        assert piped(server.url, notes.fileno(), "Sum up").returncode == 0
    assert questions(received) == ["of a file\n\nSum up"]


def test_an_empty_standard_input_leaves_the_message_alone(server: ServerProcess, received: list[Any]) -> None:
    empty = chatted(server.url, "hello", "--model", "instant", typed=" \n")
    assert "standard input is empty" in empty.stderr
    null = piped(server.url, subprocess.DEVNULL, "hello")
    assert "standard input" not in null.stderr
    closed = piped(server.url, None, "hello")
    with open(os.devnull, "w") as nothing:
        unreadable = piped(server.url, nothing.fileno(), "hello")
    for done in (empty, null, closed, unreadable):
        assert done.returncode == 0, done.stderr
    assert questions(received) == ["hello"] * 4


def test_without_message_and_standard_input_there_is_nothing_to_send(server: ServerProcess) -> None:
    closed = piped(server.url, None)
    null = piped(server.url, subprocess.DEVNULL)
    for done in (closed, null):
        assert done.returncode == 2
        assert "there is nothing to send" in done.stderr
        assert "Traceback" not in done.stderr


NO_TEXTS = (
    (b"\x89PNG\r\n\x1a\n\xff\xfe", "is not UTF-8 text"),
    (b"\x7fELF\x00\x01", "is not text"),
    ("für".encode("latin-1"), "is not UTF-8 text"),
    ("two bytes".encode("utf-16"), "is not UTF-8 text"),
)
MESSAGES: tuple[list[str], ...] = ([], ["Review this"])


@pytest.mark.parametrize(
    ("body", "reason", "message"),
    rest_at_night(
        [(*text, message) for text in NO_TEXTS for message in MESSAGES],
        always=[(*text, message) for text, message in zip(NO_TEXTS, MESSAGES, strict=False)],
    ),
)
def test_binary_input_is_refused_before_a_request(
    server: ServerProcess, received: list[Any], body: bytes, reason: str, message: list[str]
) -> None:
    done = chatted(server.url, *message, "--model", "instant", typed=body)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"turnstone: standard input {reason}" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert received == []


@pytest.mark.usefixtures("cold_starts")  # a starting Python chooses how it reads
def test_text_of_another_locale_is_read_as_that(server: ServerProcess, received: list[Any]) -> None:
    typed = "für".encode("latin-1")
    done = chatted(server.url, "Review", "--model", "instant", typed=typed, PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr
    assert questions(received) == ["für\n\nReview"]


@pytest.mark.parametrize("size", rest_at_night((200_001, 3_000_000, 30_000_000), always=(200_001, 3_000_000)))
def test_more_than_the_server_takes_is_an_error_that_names_the_limit(
    server: ServerProcess, received: list[Any], size: int
) -> None:
    begin = time.monotonic()
    done = chatted(server.url, "Review this", "--model", "instant", typed="x" * size)
    assert (done.returncode, done.stdout) == (1, "")
    assert "200000 bytes" in done.stderr.splitlines()[-1]
    assert time.monotonic() - begin < 20
    assert received == []


def test_other_alphabets_take_no_more_bytes_than_they_have(server: ServerProcess, received: list[Any]) -> None:
    text = "漢" * 60_000  # 180,000 bytes of UTF-8, 360,000 as escapes of JSON
    done = chatted(server.url, "Review this", "--model", "instant", typed=text)
    assert done.returncode == 0, done.stderr
    assert questions(received) == [f"{text}\n\nReview this"]


def test_an_endless_pipe_is_an_error(server: ServerProcess, received: list[Any]) -> None:
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        assert endless.stdout
        done = piped(server.url, endless.stdout.fileno(), "Review this")
        endless.kill()
    assert done.returncode == 1
    assert "more than 100 MB" in done.stderr
    assert received == []


def test_a_silent_pipe_is_named_and_late_input_is_sent(server: ServerProcess, received: list[Any]) -> None:
    source, target = os.pipe()
    errors, errors_in = os.pipe()
    output, output_in = os.pipe()
    streams = (source, output_in, errors_in)
    environment = chat_environment(server.url)
    chat = start("chat", "Review this", "--model", "instant", environment=environment, streams=streams)
    for descriptor in streams:
        os.close(descriptor)
    with open(target, "w") as typed, open(output) as answer, open(errors) as complaints:
        assert is_readable(errors, TIMEOUT_S)
        assert "waiting for standard input" in complaints.readline()
        assert received == []
        typed.write("late")
        typed.close()
        assert answer.read() == "received 17\n"
    assert chat.wait(TIMEOUT_S) == 0
    assert questions(received) == ["late\n\nReview this"]


def test_a_terminal_is_not_read_for_a_message(server: ServerProcess, received: list[Any]) -> None:
    with Terminal(server.url, "hello", "--model", "instant") as terminal:
        terminal.type("typed ahead\n")
        assert terminal.ended() == 0
    assert questions(received) == ["hello"]


# ── pastes ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("indent", ["", "    "])
def test_a_bracketed_paste_is_one_message(server: ServerProcess, received: list[Any], indent: str) -> None:
    lines = [f"{indent}def f():", "\treturn 1", "", "/quit", "end"]
    with Terminal(server.url, "--model", "instant", TERM="xterm-256color") as terminal:
        terminal.expect("> ")
        terminal.type(PASTE + "\r".join(lines) + END_OF_PASTE)
        time.sleep(0.3)
        assert received == []  # it can still be edited
        terminal.type("!\r")
        terminal.expect("received ")
        terminal.expect("> ")
        terminal.type("one\r")
        terminal.expect("received 3")
        terminal.expect("> ")
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
    assert questions(received) == ["\n".join(lines) + "!", "one"]


@pytest.mark.parametrize(
    ("term", "to_file"),
    rest_at_night(product(("dumb", "xterm"), (False, True)), always=(("dumb", True), ("xterm", False))),
)
def test_a_paste_without_brackets_is_one_message(
    server: ServerProcess, received: list[Any], term: str, to_file: bool, tmp_path: Path
) -> None:
    lines = ["first", "  second", "", "/quit", "last"]
    more = {"output_to": tmp_path / "answers"} if to_file else {}
    with Terminal(server.url, "--model", "instant", TERM=term, **more) as terminal:
        terminal.expect("> ")
        terminal.type("\n".join(lines) + "\n")
        terminal.expect("tokens")
        terminal.enter_line("one")
        terminal.expect("tokens")
        terminal.enter_line("/help")
        terminal.expect("/quit")
        terminal.expect("> ")
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
    assert questions(received) == ["\n".join(lines), "one"]


def test_the_last_line_of_a_paste_waits_for_enter(server: ServerProcess, received: list[Any]) -> None:
    with Terminal(server.url, "--model", "instant") as terminal:
        terminal.expect("> ")
        terminal.type("first\nsecond")
        time.sleep(0.5)
        assert received == []
        terminal.type(" end\n")
        terminal.expect("tokens")
    assert questions(received) == ["first\nsecond end"]


def test_input_typed_before_the_prompt_is_read_line_by_line(server: ServerProcess, received: list[Any]) -> None:
    with Terminal(server.url, "--model", "instant") as terminal:
        terminal.type("one\ntwo\n")
        terminal.expect("tokens")
        terminal.expect("tokens")
        terminal.enter_line("/quit")
        assert terminal.ended() == 0
    assert questions(received) == ["one", "two"]


def test_a_line_and_the_end_of_the_input_at_once_are_a_message_and_a_farewell(
    server: ServerProcess, received: list[Any]
) -> None:
    with Terminal(server.url, "--model", "instant") as terminal:
        terminal.expect("> ")
        terminal.type(f"one\n{CTRL_D}")
        assert terminal.ended() == 0
    assert questions(received) == ["one"]


# ── agents that chats make ───────────────────────────────────────────────────────────────────────────────────────


def agents_of(url: str, authorization: str | None = None) -> list[dict[str, Any]]:
    with PlainClient(url, authorization=authorization) as client:
        found: list[dict[str, Any]] = client.get("/v1/agents")["data"]
    return found


def session_of(done: subprocess.CompletedProcess[str]) -> str:
    found = RETURN.search(done.stderr)
    assert found, done.stderr
    return found[1]


def test_chats_with_the_same_settings_share_an_agent(model: ModelServer, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, model_url=model.url) as server:
        settings = ["--model", "instant", "--instructions", "Be kind."]
        with ThreadPoolExecutor(CHATS) as pool:
            first = list(pool.map(lambda _: session_of(chatted(server.url, "hello", *settings)), range(CHATS)))
        assert len({session.split("/")[0] for session in first}) == 1
        assert len(set(first)) == CHATS
        others = [["--model", "words-3"], ["--model", "instant"], [*settings, "--toolgroup", "builtin::clock"]]
        agents = {session_of(chatted(server.url, "hello", *other)).split("/")[0] for other in others}
        assert len(agents | {first[0].split("/")[0]}) == 4
        assert len(agents_of(server.url)) == 4
        server.restart()
        assert session_of(chatted(server.url, "hello", *settings)).split("/")[0] == first[0].split("/")[0]
        again = chatted(server.url, "and?", "--session", first[1])
        assert again.returncode == 0, again.stderr
        with PlainClient(server.url) as client:
            client.delete(f"/v1/agents/{first[0].split('/')[0]}")
        replaced = chatted(server.url, "hello", *settings)
        assert replaced.returncode == 0, replaced.stderr
        assert session_of(replaced).split("/")[0] != first[0].split("/")[0]
        assert len(agents_of(server.url)) == 4


def test_an_agent_of_the_same_name_and_another_configuration_is_not_used(model: ModelServer, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, model_url=model.url) as server:
        chatted(server.url, "hello", "--model", "instant")
        (own,) = agents_of(server.url)
        config = {**own["agent_config"], "instructions": "Obey somebody else."}
        with PlainClient(server.url) as client:
            client.delete(f"/v1/agents/{own['agent_id']}")
            foreign = client.post("/v1/agents", {"agent_config": config}).json()["agent_id"]
        done = chatted(server.url, "hello", "--model", "instant")
        assert done.returncode == 0, done.stderr
        assert session_of(done).split("/")[0] not in (foreign, own["agent_id"])


def test_callers_share_no_agent(model: ModelServer, tmp_path: Path) -> None:
    """The creator of an agent may delete it with the sessions of all users."""

    def key(*arguments: str) -> str:
        made = run_command("keys", "create", *arguments, environment=server.key_environment(), folder=tmp_path)
        return made.stdout.strip()

    server = ServerProcess(tmp_path, model_url=model.url, auth="api_keys")
    keys = [key("ann"), key("bob"), key("eve", "--tenant", "other")]
    server.authorization = f"Bearer {keys[0]}"
    with server:
        for api_key in keys * 2:
            done = chatted(server.url, "hello", "--model", "instant", TURNSTONE_API_KEY=api_key)
            assert done.returncode == 0, done.stderr
            assert api_key not in done.stderr
        assert len(agents_of(server.url, f"Bearer {keys[0]}")) == 2
        (other,) = agents_of(server.url, f"Bearer {keys[2]}")
        assert len({agent["agent_config"]["name"] for agent in agents_of(server.url, f"Bearer {keys[1]}")}) == 2
        assert keys[2] not in json.dumps(other)


# ── tools that run here ──────────────────────────────────────────────────────────────────────────────────────────

COUNTING = '''
import subprocess, time
from pathlib import Path

print("loaded")

def get_weather(city: str) -> str:
    """Tell the weather."""
    runs = Path(__file__).with_name("runs")
    runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
    print("printed")
    subprocess.run(["echo", "from a program"], check=True)
    while Path(__file__).with_name("hold").exists():
        time.sleep(0.02)
    return city
'''


def test_output_of_a_tool_is_not_part_of_the_answer(server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(COUNTING)
    done = chatted(server.url, "weather?", "--model", "asks", "--tools", tmp_path / "tools.py", "--yes")
    assert (done.returncode, done.stdout) == (0, "received 4\n"), done.stderr
    printed = [line for line in done.stderr.splitlines() if line in ("loaded", "printed", "from a program")]
    assert printed == ["loaded", "printed", "from a program"]


def test_a_tools_result_waits_for_a_server_that_is_away(server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(COUNTING)
    (tmp_path / "hold").touch()
    with Terminal(server.url, "weather?", "--model", "asks", "--tools", tmp_path / "tools.py", "--yes") as terminal:
        wait_until((tmp_path / "runs").exists, TIMEOUT_S, "the tool did not run")
        server.kill()
        (tmp_path / "hold").unlink()
        terminal.expect("the connection is lost")
        time.sleep(1)
        server.start()
        terminal.expect("received 4")
        assert terminal.ended() == 0
    assert (tmp_path / "runs").read_text() == "x"
