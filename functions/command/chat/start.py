"""Start of a chat by the options of the command line, and its exit status."""

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from turnstone.settings.client_settings import load_client_settings
from turnstone.settings.config import InvalidSettings, prefers_plain_text

from ..client import Client, CommandFailed
from ..output import discard_output, print_line
from ..wire import Json
from .answering import Answering
from .chat import Chat
from .interrupts import INTERRUPTS
from .own_agent import open_own_session
from .piped import with_piped
from .prompt import Prompt, read_answer, show_turns
from .screen import JsonScreen, Screen, TextScreen, visible
from .session import ChatSession, open_session

if TYPE_CHECKING:
    from .tools import ClientTool

FAILED, INTERRUPTED = 1, 130
Misuse = Callable[[str], NoReturn]


def run_chat(options: argparse.Namespace, misuse: Misuse) -> int:
    """Run the chat and return its exit status; `misuse` ends the process with a message about the usage."""
    INTERRUPTS.install()
    _refuse_contradictions(options, misuse)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an answer may contain characters that the terminal lacks
    screen = _screen(options)
    try:
        message = _message(options, misuse, screen.note)
        with closing(Client(load_client_settings(options.url, options.api_key), options.provider_data)) as client:
            chat = _chat(options, client, screen)
            return _converse(chat) if message is None else _once(options, chat, message)
    except InvalidSettings as problem:
        misuse(str(problem))
    except CommandFailed as problem:
        print(f"turnstone: {visible(str(problem))}", file=sys.stderr)
        return FAILED
    except (KeyboardInterrupt, EOFError):
        return INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return FAILED


def _refuse_contradictions(options: argparse.Namespace, misuse: Misuse) -> None:
    if options.session is not None and not all(options.session.split("/")):
        misuse("--session: must be AGENT/SESSION, or a session's id beside --agent")
    if options.session is not None and ("/" in options.session) == (options.agent is not None):
        misuse("--session: name its agent once, as AGENT/SESSION or with --agent")
    if (options.agent or options.session) and options.model:
        misuse("--model: a turn can't change its agent's model; leave --agent and --session out to make another agent")


def _message(options: argparse.Namespace, misuse: Misuse, note: Callable[[str], None]) -> str | None:
    """Return the message to send, None for a prompt. Raises UnusableInput, KeyboardInterrupt."""
    if options.message is None and sys.stdin is not None and sys.stdin.isatty():
        if options.json:
            misuse("--json: needs MESSAGE or standard input")
        return None
    message = with_piped(options.message, sys.stdin, note)
    if not message.strip():
        misuse("there is nothing to send: MESSAGE, or standard input, is empty")
    return message


def _screen(options: argparse.Namespace) -> Screen:
    if options.json:
        return JsonScreen(sys.stdout, sys.stderr)
    return TextScreen(sys.stdout, sys.stderr, is_dim=sys.stderr.isatty() and not prefers_plain_text())


def _chat(options: argparse.Namespace, client: Client, screen: Screen) -> Chat:
    tools = _tools(options.tools, screen)
    # a call is shown on standard error; the user must see it there to approve it
    can_approve = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    question = (lambda text: read_answer(text, sys.stderr)) if can_approve else None
    session = _session(options, client, [tool.definition for tool in tools.values()], screen)
    given = {"--url": options.url, "--tools": options.tools}
    repeated = "".join(f" {name} {shlex.quote(str(value))}" for name, value in given.items() if value is not None)
    return Chat(session, screen, Answering(tools, screen, question, options.yes), repeated)


def _tools(path: Path | None, screen: Screen) -> Mapping[str, "ClientTool"]:
    if path is None:
        return {}
    from .tools import load_tools  # half of the load time of a chat

    return load_tools(path, screen.note)


def _session(options: argparse.Namespace, client: Client, client_tools: list[Json], screen: Screen) -> ChatSession:
    """Return the named session, or a new one; without a named agent, of the chat's own."""
    given = {
        "instructions": options.instructions,
        "toolgroups": options.toolgroups,
        "input_shields": options.shields,
        "output_shields": options.shields,
        "client_tools": client_tools,
    }
    config = {name: value for name, value in given.items() if value}
    agent_id, session_id = options.agent, None
    if options.session is not None:
        named, _, session_id = options.session.rpartition("/")
        agent_id = options.agent or named
    if agent_id is None:
        agent = open_own_session(client, options.model, config)
        screen.note(f"· agent {agent.agent_id}, of model {agent.model}")
        agent_id, session_id, config = agent.agent_id, agent.session_id, {}
    session_id = session_id or open_session(client, agent_id)
    return ChatSession(client, agent_id, session_id, config, lambda: screen.note("· the connection is lost, waiting …"))


def _once(options: argparse.Namespace, chat: Chat, message: str) -> int:
    """Run one turn."""
    if options.session is None:
        chat.screen.note(f"· continue with: {chat.how_to_return}")
    try:
        state = chat.send(message)
    except KeyboardInterrupt:
        chat.cancel()
        return INTERRUPTED
    if options.json:
        ids = {"agent_id": chat.session.agent_id, "session_id": chat.session.session_id}
        last = {"turn": state.turn, "status": state.status, "tokens": state.tokens, **ids}
        print_line(json.dumps(last), at_once=True)
    return 0 if state.status == "completed" else FAILED


def _converse(chat: Chat) -> int:
    """Run turns until the user leaves."""
    prompt = Prompt(chat)
    chat.screen.note(f"· /help lists the commands. Continue with: {chat.how_to_return}")
    turns = chat.session.turns()
    show_turns(chat, turns)
    is_open = bool(turns) and turns[-1]["completed_at"] is None
    if not is_open or prompt.continue_turn(turns[-1]["turn_id"]):
        prompt.run()
    return 0
