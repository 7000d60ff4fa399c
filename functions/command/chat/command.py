"""`turnstone chat`: its arguments."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ..options import Commands

DESCRIPTION = "Talk with an agent of a running server, at a terminal or in a pipe."
EPILOG = """MESSAGE, or standard input that is no terminal, is one turn; with both, the text of standard input precedes
MESSAGE, and `< /dev/null` sends MESSAGE alone. The answer goes to standard output, everything else to standard error.
Exit status: 0 if the turn completed, 1 if not, 130 after Ctrl-C; 0 after a prompt. TURNSTONE_URL and TURNSTONE_API_KEY
are the defaults of --url and --api-key."""
REPEATABLE: dict[str, Any] = {"action": "append", "default": [], "metavar": "NAME"}


def add_chat(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser("chat", help="talk with an agent of a server", description=DESCRIPTION, epilog=EPILOG)
    add = parser.add_argument
    add("message", nargs="?", metavar="MESSAGE", help="text to send (default: a prompt)")
    add("--agent", metavar="ID", help="agent to use (default: one of the chat's own, created if necessary)")
    add("--session", metavar="[AGENT/]ID", help="session to continue (default: a new one)")
    add("--model", help="model of the created agent (default: the only model of the server)")
    add("--instructions", metavar="TEXT", help="instructions of the created agent, or of these turns")
    add("--toolgroup", dest="toolgroups", **REPEATABLE, help="toolgroup of the server; repeatable")
    add("--shield", dest="shields", **REPEATABLE, help="shield for input and output; repeatable")
    add("--tools", type=Path, metavar="FILE.py", help="Python file whose functions the model may call; they run here")
    add("--yes", action="store_true", help="run tools without a question")
    add("--json", action="store_true", help="print JSON: an event of the server on each line, then the turn")
    add("--provider-data", type=_provider_data, metavar="JSON|@FILE", help="keys of your own for models and tools")
    add("--url", help="server (default: http://127.0.0.1:8321)")
    add("--api-key", metavar="KEY", help="API key for the server")

    def run(options: argparse.Namespace) -> None:
        from .start import run_chat  # no other command needs its modules

        sys.exit(run_chat(options, parser.error))

    parser.set_defaults(run=run)


def _provider_data(text: str) -> dict[str, Any]:
    """Return the JSON object in the text, or in the file that it names. Errors contain nothing of it: it holds keys."""
    try:
        found = json.loads(Path(text[1:]).read_text() if text.startswith("@") else text)
    except OSError as problem:
        raise argparse.ArgumentTypeError(f"can't read the file: {problem.strerror}") from None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("must be a JSON object, or @ and the name of a file that holds one")
    return found
