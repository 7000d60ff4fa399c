"""The prompt: what a person types is said to the agent, or is a command of the few there are."""

import json
import select
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from .chat import Chat
from .client import ChatError
from .interrupts import INTERRUPTS
from .wire import Json, text_of

SHOWN_TURNS = 3
SHOWN_CHARACTERS = 2_000
PROMPT = "> "
PASTE_PAUSE_S = 0.05  # between lines of a paste at most; no person types a line in so little time
HELP = """/new     begin another session with this agent
/steps   show the steps of the last turn in full
/usage   show what this session spent today
/agent   show the agent, and how to come back
/quit    leave; Ctrl-D does so, too
Ctrl-C ends the turn that runs; twice, it leaves. Everything else you type is said to the agent."""


def read_line(question: str, err: TextIO) -> str:
    """Return the line that is typed. Raises EOFError if there is none, and KeyboardInterrupt."""
    print(question, end="", file=err, flush=True)
    line = sys.stdin.readline()
    if not line:
        print(file=err)
        raise EOFError
    return line


def ask_now(question: str, err: TextIO) -> str:
    """Return the line that is typed after the question is there; what was typed before it is dropped.

    Raises EOFError if no whole line comes, and KeyboardInterrupt.
    """
    pressed = INTERRUPTS.count
    typed = ""
    with suppress(ImportError):
        import termios

        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    print(question, end="", file=err, flush=True)
    # not through sys.stdin, whose buffer may hold earlier lines
    with suppress(OSError), open(sys.stdin.fileno(), errors="replace", closefd=False) as terminal:
        typed = terminal.readline()
    INTERRUPTS.raise_since(pressed)
    if not typed.endswith("\n"):
        print(file=err)
        raise EOFError
    return typed


class Prompt:
    """Reads lines and has them answered until somebody leaves."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._is_leaving = False  # the last thing that was done is Ctrl-C
        self._has_left = False  # the end of the input followed what was typed last
        with suppress(ImportError):
            import readline  # noqa: F401 - edits lines and knows earlier ones, where Python has it

    def run(self) -> None:
        """Return when whoever types has left."""
        note = self._chat.screen.note
        while not self._has_left:
            try:
                line = self._typed()
                self._is_leaving = False
                if line in ("/quit", "/exit"):
                    return
                self._do(line)
            except ChatError as problem:
                note(f"turnstone: {problem}")
            except EOFError:
                return
            except KeyboardInterrupt:
                if self._is_leaving:
                    return
                self._is_leaving = True
                note("  Ctrl-C once more, Ctrl-D or /quit leaves")

    def attend(self, turn_id: str) -> bool:
        """Go on with a turn that is open; return whether somebody still sits here afterwards."""
        try:
            self._in_turn(turn_id=turn_id)
        except ChatError as problem:
            self._chat.screen.note(f"turnstone: {problem}")
        except EOFError:
            return False
        return True

    def _typed(self) -> str:
        """Return what is typed, or pasted, as one text. Raises EOFError, KeyboardInterrupt.

        Where the terminal marks pastes, readline returns one as a line with line feeds in it. Elsewhere the lines of
        one follow each other at once. What was typed before the prompt was there is read line by line.
        """
        is_ahead = _has_more(0.0)
        lines = [_line(PROMPT)]
        while not is_ahead and _has_more(PASTE_PAUSE_S):
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
            self._chat.screen.note(f"there is no command {name}; /help tells which there are")
        elif line:
            self._in_turn(text=line)

    def _in_turn(self, *, text: str = "", turn_id: str = "") -> None:
        """Talk a turn through; Ctrl-C ends it."""
        try:
            if turn_id:
                self._chat.go_on(turn_id)
            else:
                self._chat.say(text)
        except KeyboardInterrupt:
            self._chat.screen.note("")
            self._is_leaving = True
            self._chat.cancel()

    def _new(self) -> None:
        self._chat.session.renew()
        self._chat.last = None
        self._chat.screen.note(f"come back with: {self._chat.how_to_return}")

    def _steps(self) -> None:
        if self._chat.last is None:
            self._chat.screen.note("there was no turn yet")
            return
        for step in self._chat.last.turn["steps"]:
            self._chat.screen.note(json.dumps(step, indent=2, ensure_ascii=False))

    def _usage(self) -> None:
        report = self._chat.session.usage()
        total: Json = report["total"]
        cost = "" if total["cost_usd"] is None else f", {total['cost_usd']:.6f} US dollars"
        told = f"{total['total_tokens']} tokens of {total['inferences']} inferences{cost}"
        self._chat.screen.note(
            f"this session, {report['last_day']} (UTC): {told}; a turn that runs or waits is not in it"
        )

    def _agent(self) -> None:
        config = self._chat.session.agent()["agent_config"]
        told = {name: value for name, value in config.items() if value not in (None, [], {})}
        self._chat.screen.note(json.dumps(told, indent=2, ensure_ascii=False))
        self._chat.screen.note(f"come back with: {self._chat.how_to_return}")


def _line(question: str) -> str:
    # on standard output readline edits it
    return input(question) if sys.stdout.isatty() else read_line(question, sys.stderr)


def _has_more(wait_s: float) -> bool:
    """Tell whether something else was typed, or is within that time; False where that can't be found out."""
    with suppress(OSError, ValueError):
        return bool(select.select([sys.stdin], [], [], wait_s)[0])
    return False


def _excerpt(text: str) -> str:
    """Return the text, without its middle if it is long."""
    left_out = len(text) - SHOWN_CHARACTERS
    if left_out <= 0:
        return text
    half = SHOWN_CHARACTERS // 2
    return f"{text[:half]}\n[… {left_out} characters …]\n{text[-half:]}"


def show_turns(chat: Chat, turns: Sequence[Json]) -> None:
    """Show the last of these turns: what was said, and what was answered."""
    for turn in turns[-SHOWN_TURNS:]:
        for message in turn["input_messages"]:
            chat.screen.note(f"{PROMPT}{_excerpt(text_of(message['content']))}")
        if turn["completed_at"] is not None:
            answer = text_of((turn["output_message"] or {}).get("content", ""))
            chat.screen.note(answer or f"· no answer: {(turn.get('failure') or {}).get('message', 'it is empty')}")
