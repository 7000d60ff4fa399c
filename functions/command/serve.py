"""`turnstone serve`: the whole API in one process, or several, over SQLite."""

import argparse

from turnstone.edge.cold_start import undisturbed

from .options import Commands

DESCRIPTION = """Serve the API until Ctrl-C, over SQLite in .turnstone of the working folder and on http://127.0.0.1:8321,
unless TURNSTONE_DATA_DIR, TURNSTONE_HOST and TURNSTONE_PORT name others. `turnstone doctor` checks the settings."""


def add_serve(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser("serve", help="run a server on this machine", description=DESCRIPTION)
    parser.hint = "; settings are variables, such as TURNSTONE_PORT=9000"
    parser.set_defaults(run=_serve)


def _serve(_: argparse.Namespace) -> None:
    with undisturbed():
        from ..local.server import serve  # all routes: no other command but `openapi` needs them

    serve()
