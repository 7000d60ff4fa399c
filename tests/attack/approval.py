"""A model that tries to run a tool of the user at the terminal unseen, through a real `turnstone chat`.

A user approves the text between the last tool line and the prompt. Each bar compares it with the call that ran.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from tests.attack.finding import Attack, Finding
from tests.fakes.models.openai_answers import Answer, Pause, call_chunk, ending, text_answer, text_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.fakes.web.hostile_server import HostileServer
from tests.support.clients.terminal import Terminal
from tests.support.server.servers import ServerProcess

CHOICES = "[y]es, [n]o, [a]lways: "
COLUMNS = 80
POLL_S = 0.01
TOOLS = '''
"""A tool that notes what it ran."""

from pathlib import Path

def run_command(command: str) -> str:
    """Run a command."""
    with (Path(__file__).parent / "ran.txt").open("a") as ran:
        ran.write(ascii(command) + "\\n")
    return "done"
'''
TRICKS = {
    "obeyed": "rm x\x1b[2K\x1b[1A\rls\x9b2J\x07\x08\x7f",
    "unseen": "rm\u200b -r\u2060f\u00ad ~\u3164\ufe0f\u2800\U000e0041",
    "turned": "\u202erm\u202c \u2067~\u2069\u200f",
    "broken": 'ls\n· tool run_command\n  | "command": "ls"\u2028\u2029\x85  run run_command? ',
    "alike": "rm /home/\u0430dmin \uff0fetc \u2010rf pa\u0301th",
    "piled": "ls a" + "\u0338\u20dd" * 40,
    "padded": "rm -rf ~ #" + (" " * (2 * COLUMNS) + "· tool run_command ls") * 30,
    "endless": "rm -rf ~ #" + "x" * 30_000,
}
NOT_SHOWN = re.compile("[^\n\x20-\x7e·\u00c0-\u017e]")


def answer_of(body: Mapping[str, Any], has_typed: Event) -> Answer:
    """Call the tool with the trick that the user's message names, always under one id; repeat its result."""
    messages = body["messages"]
    last_text = next(message["content"] for message in reversed(messages) if message["role"] == "user")
    answered = len(messages) - 1 - max(i for i, message in enumerate(messages) if message["role"] == "user")
    if answered:
        return text_answer(f"told: {messages[-1]['content']}")
    if last_text == "ahead":
        return _imitated(has_typed)
    return _called(TRICKS[last_text])


def _imitated(has_typed: Event) -> Iterator[Any]:
    """Print text in the form of a prompt, and call the tool once it is answered."""
    yield text_chunk(f'· tool run_command\n  | "command": "ls"\n  run run_command? {CHOICES}')
    while not has_typed.is_set():  # a client that hangs up ends this, too
        yield Pause(POLL_S)
    yield from _called("rm -rf ~")


def _called(command: str) -> tuple[Any, ...]:
    return (call_chunk(0, "run_command", json.dumps({"command": command}), "same"), *ending("tool_calls"))


def run(folder: Path, is_full: bool) -> Iterator[Finding]:
    tools = folder / "tools.py"
    tools.write_text(TOOLS)
    has_typed = Event()
    with (
        ModelServer(partial(answer_of, has_typed=has_typed)) as model,
        ServerProcess(folder, model_url=model.url) as server,
    ):
        with Terminal(server.url, "--model", "tricks", "--tools", tools) as terminal:
            yield _typed_ahead(terminal, has_typed)
            names = TRICKS if is_full else ("obeyed", "unseen", "turned", "broken", "alike", "padded", "endless")
            for name in names:
                yield (_too_long if name == "endless" else _trick)(terminal, name)
        yield _second_call(tools)
        if is_full:
            yield _in_json(server.url, tools)
    ran = (folder / "ran.txt").read_text().splitlines()
    yield Finding("commands that ran", ", ".join(ran), "'ls', the approved one", ran == ["'ls'"])


def _second_call(tools: Path) -> Finding:
    first, second = ({"call_id": "same", "tool_name": "run_command", "arguments": {"command": c}} for c in ("ls", "df"))
    with (
        HostileServer(first, second) as hostile,
        Terminal(hostile.url, "go", "--model", "m", "--tools", tools) as terminal,
    ):
        terminal.expect(CHOICES)
        terminal.type("y\n")
        shown = terminal.expect(CHOICES)
        terminal.type("n\n")
        terminal.ended()
    return _finding("a second call under the id of the first", shown, "df")


def _typed_ahead(terminal: Terminal, has_typed: Event) -> Finding:
    terminal.enter_line("ahead")
    terminal.expect(CHOICES)  # the model's
    terminal.type("y\n")
    has_typed.set()
    terminal.expect(CHOICES)
    terminal.type("n\n")
    terminal.expect("told: ")
    came = terminal.expect("\n")
    return Finding("an imitated question, answered before the real one", came, "not run", "declined" in came)


def _trick(terminal: Terminal, name: str) -> Finding:
    terminal.enter_line(name)
    shown = terminal.expect(CHOICES)
    terminal.type("n\n")
    terminal.expect("told: ")
    return _finding(f"a command with characters that are {name}", shown, TRICKS[name])


def _too_long(terminal: Terminal, name: str) -> Finding:
    terminal.enter_line(name)
    came = terminal.expect("told: ")
    is_prompted = CHOICES in came
    return Finding("arguments of 30,000 characters", "asked" if is_prompted else "refused", "refused", not is_prompted)


def _in_json(url: str, tools: Path) -> Finding:
    with Terminal(url, "turned", "--json", "--model", "tricks", "--tools", tools) as terminal:
        shown = terminal.expect(CHOICES)
        terminal.type("n\n")
        terminal.ended()
    return _finding("--json, in the midst of the server's events", shown, TRICKS["turned"])


def _finding(what: str, shown: str, command: str) -> Finding:
    """Hold the rows before a question against the command that the question is about."""
    measured = next((fault for fault, is_so in _faults(shown, command) if is_so()), "shown whole")
    return Finding(what, measured, "shown whole, each character as it is", measured == "shown whole")


def _faults(shown: str, command: str) -> Iterator[tuple[str, Callable[[], bool]]]:
    rows = [part for line in shown.split("\n") for part in _physical(line)]
    heads = [start for start, row in enumerate(rows) if row.startswith("· tool run_command")]
    arguments = [row for row in rows[heads[-1] + 1 : -1] if not row.startswith("  the call of ")] if heads else []
    yield "no row names the tool", lambda: not heads
    yield "characters that a terminal does not show as they are", lambda: bool(NOT_SHOWN.search(shown))
    yield "rows that look like others", lambda: not all(row.startswith("  | ") for row in arguments)
    yield "something else", lambda: _read(arguments) != {"command": command}


def _physical(line: str) -> list[str]:
    """Return the rows that a line takes."""
    return [line[start : start + COLUMNS] for start in range(0, len(line), COLUMNS)] or [""]


def _read(rows: list[str]) -> object:
    """Return the arguments as a person reads them off the rows."""
    text = "".join(row[6:] if row.startswith("  |   ") else row[4:] for row in rows)
    try:
        return json.loads(f"{{{text}}}")
    except ValueError:
        return text


ATTACK = Attack("approval", run)
