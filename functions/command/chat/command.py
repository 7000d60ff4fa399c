"""`turnstone chat`: what may be said on the command line."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

EPILOG = """With MESSAGE, or with standard input that is no terminal, it is one turn; with both, the text of standard
input is sent before the message, and `< /dev/null` sends the message alone. The answer goes to standard output,
everything else to standard error, and the exit status is 1 if the turn did not complete. TURNSTONE_URL and
TURNSTONE_API_KEY stand in for --url and --api-key."""


def add_chat(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    add = parser.add_argument
    parser.epilog = EPILOG
    add("message", nargs="?", metavar="MESSAGE", help="what to say; without it you are asked")
    add("--agent", metavar="ID", help="agent to use (default: one of the chat's own, made if there is none)")
    add("--session", metavar="[AGENT/]ID", help="go on with this session")
    add("--model", help="of the agent that is made; may be left out where the server has one only")
    add("--instructions", help="of the agent that is made, or for these turns")
    told = "may be given several times"
    add("--toolgroup", dest="toolgroups", action="append", default=[], metavar="NAME", help=f"server's tools; {told}")
    add("--shield", dest="shields", action="append", default=[], metavar="NAME", help=f"judges both sides; {told}")
    add("--tools", type=Path, metavar="FILE.py", help="functions that the model may call, and that run here")
    add("--yes", action="store_true", help="run them without asking")
    add("--json", action="store_true", help="print the server's events, a line each, and a last line about the turn")
    add("--provider-data", type=_provider_data, metavar="JSON|@FILE", help="keys of your own for models and tools")
    add("--url", help="where the server is, http://127.0.0.1:8321 unless told")
    add("--api-key", metavar="KEY", help="which the server wants of its callers")

    def run(asked: argparse.Namespace) -> None:
        from functions.command.chat.start import run_chat  # what operates a server needs nothing of this

        sys.exit(run_chat(asked, parser.error))

    parser.set_defaults(run=run)


def _provider_data(text: str) -> dict[str, Any]:
    """Return the object that the text is, or the file it names. What is wrong is said without a word of it."""
    try:
        found = json.loads(Path(text[1:]).read_text() if text.startswith("@") else text)
    except OSError as problem:
        raise argparse.ArgumentTypeError(f"can't read the file: {problem.strerror}") from None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("must be a JSON object, or @ and the name of a file that holds one")
    return found
