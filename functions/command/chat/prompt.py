"""The prompt of a chat: lines are messages to the agent, or commands."""

import json
import select
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from ..client import CommandFailed
from ..wire import Json, text_of
from .chat import Chat
from .interrupts import INTERRUPTS

SHOWN_TURNS = 3
SHOWN_CHARACTERS = 2_000
PROMPT = "> "
PASTE_PAUSE_S = 0.05  # longest pause between lines of a paste; typing is never that fast
HELP = """/new     start another session of this agent
/steps   show the steps of the last turn in full
/usage   show the tokens and the cost of this session today
/agent   show the agent, and the command that continues this session
/quit    leave, as Ctrl-D does
Ctrl-C cancels the running turn; twice, it leaves. Any other input is a message to the agent."""


def read_line(question: str, err: TextIO) -> str:
    """Return the next line of input. Raises EOFError at its end, and KeyboardInterrupt."""
    print(question, end="", file=err, flush=True)
    line = sys.stdin.readline()
    if not line:
        print(file=err)
        raise EOFError
    return line


def read_answer(question: str, err: TextIO) -> str:
    """Print the question and return the line typed after it; earlier input is discarded.

    Raises EOFError without a whole line, and KeyboardInterrupt.
    """
    pressed = INTERRUPTS.count
    typed = ""
    with suppress(ImportError):
        import termios

        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    print(question, end="", file=err, flush=True)
    # not sys.stdin, whose buffer may hold earlier lines
    with suppress(OSError), open(sys.stdin.fileno(), errors="replace", closefd=False) as terminal:
        typed = terminal.readline()
    INTERRUPTS.raise_since(pressed)
    if not typed.endswith("\n"):
        print(file=err)
        raise EOFError
    return typed


class Prompt:
    """Reads messages and commands until the user leaves."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._is_leaving = False  # Ctrl-C was the last input
        self._has_left = False  # the input has ended
        with suppress(ImportError):
            import readline  # noqa: F401 - adds editing and history, if available

    def run(self) -> None:
        """Return when the user leaves."""
        note = self._chat.screen.note
        while not self._has_left:
            try:
                line = self._typed()
                self._is_leaving = False
                if line in ("/quit", "/exit"):
                    return
                self._do(line)
            except CommandFailed as problem:
                note(f"turnstone: {problem}")
            except EOFError:
                return
            except KeyboardInterrupt:
                if self._is_leaving:
                    return
                self._is_leaving = True
                note("  a second Ctrl-C, Ctrl-D or /quit leaves")

    def continue_turn(self, turn_id: str) -> bool:
        """Continue an open turn; return False if the input ended."""
        try:
            self._in_turn(turn_id=turn_id)
        except CommandFailed as problem:
            self._chat.screen.note(f"turnstone: {problem}")
        except EOFError:
            return False
        return True

    def _typed(self) -> str:
        """Return typed or pasted input as one text. Raises EOFError, KeyboardInterrupt.

        If the terminal marks pastes, readline returns one as a line that contains line feeds. Otherwise the lines of a
        paste follow each other at once. Input typed before the prompt is read line by line.
        """
        is_ahead = _wait_for_more(0.0)
        lines = [_line(PROMPT)]
        while not is_ahead and _wait_for_more(PASTE_PAUSE_S):
            try:
                lines.append(_line(""))
            except EOFError:
                self._has_left = True
                break
        text = "\n".join(line.removesuffix("\n") for line in lines)
        return text.strip("\n").rstrip() if "\n" in text.strip() else text.strip()

    def _do(self, line: str) -> None:
        commands = {"/new": self._new, "/steps": self._steps, "/usage": self._usage, "/agent": self._agent}
        name = "" if "\n" in line else line.partition(" ")[0]
        if name in commands:
            commands[name]()
        elif name == "/help":
            self._chat.screen.note(HELP)
        elif name.startswith("/") and "/" not in name[1:]:
            self._chat.screen.note(f"there is no command {name}; /help lists the commands")
        elif line:
            self._in_turn(text=line)

    def _in_turn(self, *, text: str = "", turn_id: str = "") -> None:
        """Run a turn to its end; Ctrl-C cancels it."""
        try:
            if turn_id:
                self._chat.continue_turn(turn_id)
            else:
                self._chat.send(text)
        except KeyboardInterrupt:
            self._chat.screen.note("")
            self._is_leaving = True
            self._chat.cancel()

    def _new(self) -> None:
        self._chat.session.renew()
        self._chat.last = None
        self._chat.screen.note(f"continue with: {self._chat.how_to_return}")

    def _steps(self) -> None:
        if self._chat.last is None:
            self._chat.screen.note("this chat has no turn yet")
            return
        for step in self._chat.last.turn["steps"]:
            self._chat.screen.note(json.dumps(step, indent=2, ensure_ascii=False))

    def _usage(self) -> None:
        report = self._chat.session.usage()
        total: Json = report["total"]
        cost = "" if total["cost_usd"] is None else f", {total['cost_usd']:.6f} US dollars"
        spent = f"{total['total_tokens']} tokens of {total['inferences']} inferences{cost}"
        self._chat.screen.note(f"this session, {report['last_day']} (UTC): {spent}; without running and waiting turns")

    def _agent(self) -> None:
        config = self._chat.session.agent()["agent_config"]
        shown = {name: value for name, value in config.items() if value not in (None, [], {})}
        self._chat.screen.note(json.dumps(shown, indent=2, ensure_ascii=False))
        self._chat.screen.note(f"continue with: {self._chat.how_to_return}")


def _line(question: str) -> str:
    # readline edits on standard output only
    return input(question) if sys.stdout.isatty() else read_line(question, sys.stderr)


def _wait_for_more(wait_s: float) -> bool:
    """Return whether there is more input within that time; False if that can't be determined."""
    with suppress(OSError, ValueError):
        return bool(select.select([sys.stdin], [], [], wait_s)[0])
    return False


def _excerpt(text: str) -> str:
    """Return the text, without the middle of a long one."""
    left_out = len(text) - SHOWN_CHARACTERS
    if left_out <= 0:
        return text
    half = SHOWN_CHARACTERS // 2
    return f"{text[:half]}\n[… {left_out} characters …]\n{text[-half:]}"


def show_turns(chat: Chat, turns: Sequence[Json]) -> None:
    """Show the messages and the answers of the last of these turns."""
    for turn in turns[-SHOWN_TURNS:]:
        for message in turn["input_messages"]:
            chat.screen.note(f"{PROMPT}{_excerpt(text_of(message['content']))}")
        if turn["completed_at"] is not None:
            answer = text_of((turn["output_message"] or {}).get("content", ""))
            chat.screen.note(answer or f"· no answer: {(turn.get('failure') or {}).get('message', 'it is empty')}")
