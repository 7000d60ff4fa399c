"""`turnstone memory`: its arguments."""

import argparse
import math
import sys
from pathlib import Path
from typing import Any

from ..options import Commands, add_json, name_of

DESCRIPTION = "Banks of documents on a running server, which agents search with the toolgroup builtin::rag."
EPILOG = """TURNSTONE_URL and TURNSTONE_API_KEY are the defaults of --url and --api-key."""
ADD = """Add files to a bank, which is created if it is missing. A file that the bank has already is not sent again, and
a changed one replaces its earlier content: the bank keeps the path of each file, relative to the working folder if it
is below that, and its SHA-256.
A file that fails is removed, with the reason on standard error. Exit status 1 if a file failed."""
SEARCH = "Print the parts of documents that fit a question, the best first, each with its score and its source."
LIST = "List the banks, or the files of a bank."
REMOVE = "Remove files from a bank, or the bank. Exit status 1 if one of the files is not in it."
ADDED = "an object with bank_id, bank, is_new and files; of each file path, status, file_id, and error if it failed"
FOUND = "an array; of each result text, score, source, file_id and attributes"
LISTED = (
    "an array; of each bank bank_id, bank, kind and, of vectors, the numbers of its files; of each file path, status,"
    " size_bytes, file_id"
)
REMOVED = "an object with bank_id, bank and is_removed, or files; of each file path and status: removed or missing"


def add_memory(commands: Commands) -> None:
    """Add the command."""
    memory = commands.add_parser("memory", help="fill and search banks of documents", description=DESCRIPTION)
    verbs = memory.add_subparsers(required=True, metavar="VERB", title="verbs")

    adding = verbs.add_parser("add", help="add files to a bank", description=ADD, epilog=EPILOG)
    adding.add_argument("files", nargs="+", metavar="FILE", type=Path, help="file to add, or folder with --recursive")
    _add_bank(adding, required=True)
    adding.add_argument("--recursive", action="store_true", help="add the files below folders, except hidden ones")
    adding.add_argument("--quiet", action="store_true", help="print errors only")
    adding.add_argument(
        "--timeout",
        type=_seconds,
        default=600.0,
        metavar="TIME",
        help="seconds to wait for the insertion of a file (default: 600)",
    )
    add_json(adding, ADDED)

    searching = verbs.add_parser("search", help="search a bank", description=SEARCH, epilog=EPILOG)
    searching.add_argument("question", type=name_of, metavar="QUESTION", help="question, or keywords")
    _add_bank(searching, required=True)
    searching.add_argument("--limit", type=_count, default=5, metavar="N", help="results at most (default: 5)")
    add_json(searching, FOUND)

    listing = verbs.add_parser("list", help="list banks, or the files of one", description=LIST, epilog=EPILOG)
    _add_bank(listing, required=False)
    add_json(listing, LISTED)

    removing = verbs.add_parser("remove", help="remove files, or a bank", description=REMOVE, epilog=EPILOG)
    removing.add_argument("files", nargs="*", metavar="FILE", help="path in the list of the bank, or the file's id")
    removing.add_argument("--all", action="store_true", help="remove the bank, with all files that were added here")
    _add_bank(removing, required=True)
    add_json(removing, REMOVED)

    for name, parser in verbs.choices.items():
        parser.add_argument("--url", help="server (default: http://127.0.0.1:8321)")
        parser.add_argument("--api-key", metavar="KEY", help="API key for the server")
        parser.set_defaults(run=_run, verb=name)


def _run(options: argparse.Namespace) -> None:
    from .start import run_memory  # no other command needs its modules

    sys.exit(run_memory(options, options.parser.error))


def _add_bank(parser: argparse.ArgumentParser, **more: Any) -> None:
    parser.add_argument("--bank", type=name_of, metavar="NAME", help="name of the bank, or its id", **more)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError("must be a number of seconds above 0")
    return seconds


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 50):
        raise argparse.ArgumentTypeError("must be a number from 1 to 50")
    return int(text)
