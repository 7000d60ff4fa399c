"""The command `turnstone`: run a server on this machine, chat with an agent, and operate a server's data.

Exit status: 0 for success, 1 for a failure, 2 for wrong usage, 130 after Ctrl-C; a server that serves ends with 0.
"""

import argparse
import sys
from collections.abc import Sequence

from turnstone import VERSION
from turnstone.domain.errors import InvalidRequest, NotFound, StoreUnavailable
from turnstone.settings.config import InvalidSettings

from .backup import add_backup, add_restore
from .chat.command import add_chat
from .doctor import add_doctor
from .embeddings import add_embeddings
from .keys import add_keys
from .memory.command import add_memory
from .openapi import add_openapi
from .options import FAILED, INTERRUPTED, CommandParser, Commands
from .output import OutputFailed, discard_output, end_output
from .serve import add_serve
from .turns import add_turns
from .webhooks.command import add_webhooks

EPILOG = """Settings are the variables TURNSTONE_… and the file turnstone.toml of the working folder.
`turnstone COMMAND --help` describes a command."""
COMMANDS = (
    add_serve,
    add_chat,
    add_memory,
    add_keys,
    add_turns,
    add_webhooks,
    add_embeddings,
    add_backup,
    add_restore,
    add_openapi,
    add_doctor,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command that the arguments name. A failure ends the process with one line on standard error."""
    try:
        try:
            options, unrecognized = build_parser().parse_known_args(arguments)
            if unrecognized:
                options.parser.refuse(unrecognized)
            options.run(options)
        finally:
            end_output()
    except OutputFailed as problem:
        discard_output()
        sys.exit(f"turnstone: {problem}")
    except (InvalidSettings, InvalidRequest, NotFound, StoreUnavailable) as problem:
        sys.exit(f"turnstone: {problem}")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        discard_output()
        sys.exit(FAILED)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = CommandParser(
        prog="turnstone", description="Run and operate a Turnstone server, or chat with an agent.", epilog=EPILOG
    )
    parser.add_argument("--version", action="version", version=f"turnstone {VERSION}")
    commands: Commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for add in COMMANDS:
        add(commands)
    return parser
