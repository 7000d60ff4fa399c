"""`turnstone chat`, as a process, at a terminal and in pipes, with the server as another.

Covers: functions/command/chat
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.models.openai_answers import Answer, call_answer, error_answer, text_answer
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.plain_client import PlainClient, turn_body
from tests.support.clients.terminal import CTRL_C, CTRL_D, RETURN, Terminal, chatted
from tests.support.server.served import ONE_SECOND, WORDS, answer_of
from tests.support.server.servers import ServerProcess, free_port

pytestmark = pytest.mark.timeout(120)

TOOLS = '''
"""Tools of a chat."""

def get_weather(city: str) -> dict[str, object]:
    """Tell the weather.

    :param city: Where.
    """
    return {"city": city, "sky": "rain"}
'''
RESULT = '{"city":"Oslo","sky":"rain"}'
QUESTION = "run get_weather? [y]es, [n]o, [a]lways: "
CALL = '· tool get_weather\n  | "city": "Oslo"\n  '


def scripted(body: Mapping[str, Any]) -> Answer:
    """Answer as the scenarios' models do; `asks` calls a tool and repeats its result, `escapes` answers with
    control sequences of a terminal, `fails` fails."""
    last = body["messages"][-1]
    match body["model"]:
        case "asks":
            is_first = last["role"] == "user"
            return (
                call_answer(("get_weather", '{"city": "Oslo"}'))
                if is_first
                else text_answer(f"told: {last['content']}")
            )
        case "escapes":
            return text_answer("\x1b]0;mine\x07", "\x1b[2J", "\x9b1A\u202e", "end")
        case "fails":
            return error_answer(400, "no such model here")
    return answer_of(body)


@pytest.fixture(scope="module")
def chat_model() -> Iterator[ModelServer]:
    with ModelServer(scripted) as server:
        yield server


@pytest.fixture(scope="module")
def server(chat_model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all the tests; a test that kills it restarts it."""
    with ServerProcess(tmp_path_factory.mktemp("chat"), model_url=chat_model.url, lease_seconds=1) as running:
        yield running


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    path = tmp_path / "tools.py"
    path.write_text(TOOLS)
    return path


def session_in(shown: str) -> str:
    """Return the session that the chat names for its continuation."""
    found = RETURN.search(shown)
    assert found, shown
    return found[1]


def path_of(session: str) -> str:
    return "/v1/agents/{}/session/{}".format(*session.split("/"))


# ── one turn ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_only_the_answer_goes_to_standard_output(server: ServerProcess) -> None:
    done = chatted(server.url, "hello", "--model", "words-3")
    assert (done.returncode, done.stdout) == (0, "word0 word1 word2 \n")
    assert "· 13 tokens" in done.stderr
    assert "\x1b" not in done.stderr
    again = chatted(server.url, "and?", "--session", session_in(done.stderr))
    assert (again.returncode, again.stdout) == (0, "word0 word1 word2 \n")
    with PlainClient(server.url) as client:
        turns = client.get(path_of(session_in(done.stderr)))["turns"]
    assert [turn["input_messages"][0]["content"] for turn in turns] == ["hello", "and?"]


def test_piped_input_is_the_message_and_json_is_the_servers_events(server: ServerProcess, tools: Path) -> None:
    done = chatted(server.url, "--model", "asks", "--tools", tools, "--yes", "--json", typed="weather?\nin Oslo\n")
    assert done.returncode == 0, done.stderr
    *events, last = map(json.loads, done.stdout.splitlines())
    assert (last["status"], last["tokens"] > 0) == ("completed", True)
    path = path_of(f"{last['agent_id']}/{last['session_id']}")
    with PlainClient(server.url) as client:
        stored = client.get_events(f"{path}/turn/{last['turn']['turn_id']}/events")
        assert client.get(path)["turns"] == [last["turn"]]
    payloads = [event["event"]["payload"] for event in events]
    assert stored == [payload for payload in payloads if payload["event_type"] != "turn_awaiting_input"]
    assert len(stored) == len(payloads) - 1
    assert last["turn"]["input_messages"][0]["content"] == "weather?\nin Oslo\n"
    assert last["turn"]["output_message"]["content"] == f"told: {RESULT}"


def test_the_address_of_a_tools_file_is_printed(tmp_path: Path) -> None:
    zone = "x" * 200  # no zone has that name, which is repeated in an answer that is too long to be shown whole
    with ServerProcess(tmp_path, max_tool_output=100) as short:
        done = chatted(short.url, f"current_time(timezone={zone})", "--toolgroup", "builtin::clock")
        found = re.search(rf"· file {short.url}(/v1/\S+) \(text/plain; charset=utf-8\)\n", done.stderr)
        assert found, done.stderr
        assert zone in httpx.get(f"{short.url}{found[1]}").text


def test_a_tool_is_not_run_without_a_user_to_confirm(server: ServerProcess, tools: Path) -> None:
    done = chatted(server.url, "weather?", "--model", "asks", "--tools", tools)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "told: Not executed: no user was there to allow this call.\n"
    assert "--yes" in done.stderr


def test_a_failed_turn_is_printed_in_the_servers_words_and_sets_the_exit_status(server: ServerProcess) -> None:
    done = chatted(server.url, "hello", "--model", "fails")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the turn has failed" in done.stderr
    assert "no such model here" in done.stderr
    refused = chatted(server.url, "hello", "--model", "instant", "--toolgroup", "unheard-of")
    assert refused.returncode == 1
    assert "unheard-of" in refused.stderr.splitlines()[-1]
    assert "Traceback" not in refused.stderr


def test_without_a_model_the_available_ones_are_listed(server: ServerProcess) -> None:
    done = chatted(server.url, "hello")
    assert done.returncode == 1
    assert "--model: instant, words-50" in done.stderr


def test_without_a_server_the_error_names_the_command_that_starts_one() -> None:
    done = chatted(f"http://127.0.0.1:{free_port()}", "hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert "turnstone serve" in done.stderr
    assert "--url" in done.stderr


def test_an_answer_can_not_take_over_the_terminal(server: ServerProcess) -> None:
    with Terminal(server.url, "hello", "--model", "escapes", TERM="xterm") as terminal:
        assert terminal.ended() == 0
    assert "\\x1b]0;mine\\x07\\x1b[2J\\x9b1A\\u202eend\n" in terminal.shown
    assert set(re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f][^m]*m?", terminal.shown)) == {"\x1b[2m", "\x1b[0m"}


def test_no_color_turns_colours_off(server: ServerProcess) -> None:
    with Terminal(server.url, "hello", "--model", "instant", TERM="xterm", NO_COLOR="1") as terminal:
        assert terminal.ended() == 0
    assert "tokens" in terminal.shown
    assert "\x1b" not in terminal.shown


# ── a user at the terminal ───────────────────────────────────────────────────────────────────────────────────────


def test_a_person_allows_and_declines_the_calls_of_tools(server: ServerProcess, tools: Path) -> None:
    with Terminal(server.url, "--model", "asks", "--tools", tools) as terminal:
        terminal.enter_line("one")
        assert terminal.expect(QUESTION).endswith(CALL)
        terminal.type("what?\n")
        assert terminal.expect(QUESTION).endswith(CALL)
        terminal.type("n\n")
        terminal.expect("told: Not executed: the user declined this call.")
        terminal.enter_line("two")
        terminal.expect(QUESTION)
        terminal.type("y\n")
        terminal.expect(f"= {RESULT}")
        terminal.expect(f"told: {RESULT}")
        terminal.enter_line("three")
        terminal.expect(QUESTION)
        terminal.type("a\n")
        terminal.expect(f"told: {RESULT}")
        terminal.enter_line("four")
        assert QUESTION not in terminal.expect(f"told: {RESULT}")
        terminal.expect("> ")
        terminal.type(CTRL_D)
        assert terminal.ended() == 0


def test_without_a_visible_prompt_a_tool_is_not_run(server: ServerProcess, tools: Path, tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with Terminal(server.url, "weather?", "--model", "asks", "--tools", tools, errors_to=errors) as terminal:
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert "told: Not executed: no user was there to allow this call." in terminal.shown
    assert "--yes" in errors.read_text()


def test_half_a_line_approves_nothing(server: ServerProcess, tools: Path) -> None:
    with Terminal(server.url, "weather?", "--model", "asks", "--tools", tools) as terminal:
        terminal.expect(QUESTION)
        terminal.type(f"y{CTRL_D}{CTRL_D}")
        terminal.expect("the turn waits for its tools")
        assert terminal.ended() != 0


def test_the_slash_commands_work(server: ServerProcess) -> None:
    with Terminal(server.url, "--model", "words-3", "--instructions", "Be kind.") as terminal:
        terminal.enter_line("/steps")
        terminal.expect("no turn yet")
        terminal.enter_line("hello")
        terminal.expect("word0 word1 word2")
        terminal.enter_line("/steps")
        terminal.expect('"step_type": "inference"')
        terminal.enter_line("/usage")
        terminal.expect("13 tokens of 1 inferences")
        terminal.enter_line("/agent")
        terminal.expect("Be kind.")
        first = session_in(terminal.expect("\n> ") + "turnstone")
        terminal.type("/new\n")
        second = session_in(terminal.expect("\n> "))
        assert (first.split("/")[0], first != second) == (second.split("/")[0], True)
        terminal.type("/nonsense\n")
        terminal.expect("no command /nonsense")
        terminal.enter_line("/help")
        terminal.expect("/quit")
        terminal.enter_line("/quit")
        assert terminal.ended() == 0


def test_ctrl_c_cancels_the_turn_and_twice_it_leaves(server: ServerProcess) -> None:
    with Terminal(server.url, "--model", "stream-20") as terminal:
        session = session_in(terminal.expect("\n> "))
        terminal.type("a story\n")
        terminal.expect("word1 ")
        terminal.type(CTRL_C)
        terminal.expect("cancelled")
        with PlainClient(server.url) as client:
            turn = client.get(path_of(session))["turns"][0]
        assert turn["completed_at"] is not None
        terminal.expect("> ")
        terminal.type("/help\n")
        terminal.enter_line("")
        terminal.expect("> ")
        terminal.interrupt()
        terminal.expect("a second Ctrl-C")
        terminal.expect("> ")
        terminal.interrupt()
        assert terminal.ended() == 0


# ── lost connections and continued sessions ──────────────────────────────────────────────────────────────────────


def test_an_answer_arrives_whole_though_its_server_is_killed(server: ServerProcess) -> None:
    with Terminal(server.url, "a story", "--model", ONE_SECOND) as terminal:
        terminal.expect("word1 ")
        server.kill()
        terminal.expect("the connection is lost")
        server.start()
        assert terminal.ended() == 0
    answer = "".join(line for line in terminal.shown.splitlines() if line.startswith("word"))
    assert answer == WORDS


def test_a_paused_turn_is_continued_by_its_session_after_kills_of_chat_and_server(
    server: ServerProcess, tools: Path
) -> None:
    with Terminal(server.url, "--model", "asks", "--tools", tools) as terminal:
        session = session_in(terminal.expect("\n> "))
        terminal.type("weather?\n")
        terminal.expect(QUESTION)
        server.kill()
        terminal.type(CTRL_D)
        terminal.expect(f"the turn waits for its tools. Continue with: turnstone chat --session {session}")
        assert terminal.ended() == 0
    server.start()
    with Terminal(server.url, "--session", session) as terminal:
        terminal.expect("> weather?")
        terminal.expect("get_weather, which this chat does not have")
        terminal.expect("> ")
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
    with PlainClient(server.url) as client:
        assert client.get(path_of(session))["turns"][0]["completed_at"] is None
    with Terminal(server.url, "--session", session, "--tools", tools) as terminal:
        terminal.expect("> weather?")
        terminal.expect(QUESTION)
        server.restart()
        terminal.type("y\n")
        terminal.expect(f"told: {RESULT}")
        terminal.enter_line("again?")
        terminal.expect(QUESTION)
        terminal.interrupt()
        terminal.expect("cancelled")
    with PlainClient(server.url) as client:
        first, second = client.get(path_of(session))["turns"]
    assert first["output_message"]["content"] == f"told: {RESULT}"
    assert [step["step_type"] for step in first["steps"]] == ["inference", "tool_execution", "inference"]
    assert [step["step_type"] for step in second["steps"]] == ["inference"]
    assert second["completed_at"] is not None


def test_a_turn_that_runs_elsewhere_is_joined(server: ServerProcess) -> None:
    with PlainClient(server.url) as client:
        session = client.open_session("stream-3")
        with client.streaming(f"{session}/turn", turn_body("a story")) as events:
            next(events)
    agent_id, session_id = session.split("/")[3], session.split("/")[5]
    with Terminal(server.url, "--agent", agent_id, "--session", session_id) as terminal:
        terminal.expect("> a story")
        terminal.expect("word0 word1 word2 word3 word4 word5 word6 word7 word8 word9 word10 word11 \n")
        terminal.expect("tokens")
