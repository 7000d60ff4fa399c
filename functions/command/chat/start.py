"""Starts a chat as the command line wants it, and tells the exit status that comes of it."""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from turnstone.settings.client_settings import load_client_settings
from turnstone.settings.config import InvalidSettings, wants_plain_text

from .answering import Answering
from .chat import Chat
from .client import ChatError, Client
from .interrupts import INTERRUPTS
from .own_agent import open_own_session
from .piped import with_piped
from .prompt import Prompt, ask_now, show_turns
from .screen import JsonScreen, Screen, TextScreen, visible
from .session import ChatSession, open_session
from .wire import Json

if TYPE_CHECKING:
    from .tools import ClientTool

FAILED, INTERRUPTED = 1, 130
Misuse = Callable[[str], NoReturn]


def run_chat(asked: argparse.Namespace, misuse: Misuse) -> int:
    """Return the exit status of what was asked for; `misuse` ends the process with its words."""
    INTERRUPTS.listen()
    _refuse_contradictions(asked, misuse)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an answer may hold what the terminal can't write
    screen = _screen(asked)
    try:
        message = _message(asked, misuse, screen.note)
        with closing(Client(load_client_settings(asked.url, asked.api_key), asked.provider_data)) as client:
            chat = _chat(asked, client, screen)
            return _converse(chat) if message is None else _once(asked, chat, message)
    except InvalidSettings as problem:
        misuse(str(problem))
    except ChatError as problem:
        print(f"turnstone: {visible(str(problem))}", file=sys.stderr)
        return FAILED
    except (KeyboardInterrupt, EOFError):
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is flushed at the end goes nowhere
        return FAILED


def _refuse_contradictions(asked: argparse.Namespace, misuse: Misuse) -> None:
    if asked.session is not None and not all(asked.session.split("/")):
        misuse("--session: must be AGENT/SESSION, or a session's id beside --agent")
    if asked.session is not None and ("/" in asked.session) == (asked.agent is not None):
        misuse("--session: name its agent once, as AGENT/SESSION or with --agent")
    if (asked.agent or asked.session) and asked.model:
        misuse("--model: a turn can't change its agent's model; leave --agent and --session out to make another agent")


def _message(asked: argparse.Namespace, misuse: Misuse, note: Callable[[str], None]) -> str | None:
    """Return the message to send, None if a person will type messages. Raises UnusableInput, KeyboardInterrupt."""
    if asked.message is None and sys.stdin is not None and sys.stdin.isatty():
        if asked.json:
            misuse("--json: say what, as MESSAGE or on standard input")
        return None
    message = with_piped(asked.message, sys.stdin, note)
    if not message.strip():
        misuse("there is nothing to say: MESSAGE, or standard input, is empty")
    return message


def _screen(asked: argparse.Namespace) -> Screen:
    if asked.json:
        return JsonScreen(sys.stdout, sys.stderr)
    return TextScreen(sys.stdout, sys.stderr, is_dim=sys.stderr.isatty() and not wants_plain_text())


def _chat(asked: argparse.Namespace, client: Client, screen: Screen) -> Chat:
    tools = _tools(asked.tools, screen)
    # a call is shown on standard error; a person who does not see it there can't approve it
    can_ask = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    ask = (lambda question: ask_now(question, sys.stderr)) if can_ask else None
    session = _session(asked, client, [tool.definition for tool in tools.values()], screen)
    given = {"--url": asked.url, "--tools": asked.tools}
    options = "".join(f" {name} {shlex.quote(str(value))}" for name, value in given.items() if value is not None)
    return Chat(session, screen, Answering(tools, screen, ask, asked.yes), options)


def _tools(path: Path | None, screen: Screen) -> Mapping[str, "ClientTool"]:
    if path is None:
        return {}
    from .tools import load_tools  # half of what a chat takes to load

    return load_tools(path, screen.note)


def _session(asked: argparse.Namespace, client: Client, client_tools: list[Json], screen: Screen) -> ChatSession:
    """Return the session that is named, or a new one, of an agent of the chat's own if no agent is named."""
    wanted = {
        "instructions": asked.instructions,
        "toolgroups": asked.toolgroups,
        "input_shields": asked.shields,
        "output_shields": asked.shields,
        "client_tools": client_tools,
    }
    config = {name: value for name, value in wanted.items() if value}
    agent_id, session_id = asked.agent, None
    if asked.session is not None:
        named, _, session_id = asked.session.rpartition("/")
        agent_id = asked.agent or named
    if agent_id is None:
        agent = open_own_session(client, asked.model, config)
        screen.note(f"· agent {agent.agent_id}, of model {agent.model}")
        agent_id, session_id, config = agent.agent_id, agent.session_id, {}
    session_id = session_id or open_session(client, agent_id)
    return ChatSession(client, agent_id, session_id, config, lambda: screen.note("· the connection is lost, waiting …"))


def _once(asked: argparse.Namespace, chat: Chat, message: str) -> int:
    """Have one turn."""
    if asked.session is None:
        chat.screen.note(f"· come back with: {chat.how_to_return}")
    try:
        state = chat.say(message)
    except KeyboardInterrupt:
        chat.cancel()
        return INTERRUPTED
    if asked.json:
        ids = {"agent_id": chat.session.agent_id, "session_id": chat.session.session_id}
        print(json.dumps({"turn": state.turn, "status": state.status, "tokens": state.tokens, **ids}), flush=True)
    return 0 if state.status == "completed" else FAILED


def _converse(chat: Chat) -> int:
    """Let somebody talk until they leave."""
    prompt = Prompt(chat)
    chat.screen.note(f"· /help tells the commands. Come back with: {chat.how_to_return}")
    turns = chat.session.turns()
    show_turns(chat, turns)
    is_open = bool(turns) and turns[-1]["completed_at"] is None
    if not is_open or prompt.attend(turns[-1]["turn_id"]):
        prompt.run()
    return 0
