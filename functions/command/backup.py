"""`turnstone backup` and `turnstone restore`: copies of a data folder."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .options import Commands, add_json
from .output import print_json, print_line

if TYPE_CHECKING:
    from turnstone.bootstrap.places.backup import Copied

PRIVATE = 0o077  # umask: a backup contains conversations and the hashes of keys
BACKUP = "Copy the data to a new folder, also while a server runs. Only its owner can read the copy."
RESTORE = "Verify a backup, and restore it into the data folder, while no server runs."
SHAPE = "an object with folder, payloads, size_bytes and lost_payloads"


def add_backup(commands: Commands) -> None:
    """Add the command `backup`."""
    parser = commands.add_parser(
        "backup", help="copy the data to a new folder, also while a server runs", description=BACKUP
    )
    parser.add_argument("folder", type=Path, metavar="PATH", help="folder to create")
    add_json(parser, SHAPE)
    parser.set_defaults(run=_back_up)


def add_restore(commands: Commands) -> None:
    """Add the command `restore`."""
    parser = commands.add_parser("restore", help="restore a backup, while no server runs", description=RESTORE)
    parser.add_argument("folder", type=Path, metavar="PATH", help="folder of a backup")
    parser.add_argument("--replace", action="store_true", help="move existing data to a folder before-… first")
    add_json(parser, f"{SHAPE}, and replaced_data, the folder of earlier data or null")
    parser.set_defaults(run=_restore)


def _back_up(options: argparse.Namespace) -> None:
    from turnstone.bootstrap.places.backup import back_up

    os.umask(PRIVATE)
    copied = back_up(options.folder)
    for name in sorted(copied.lost):
        print(f"the payload {name!r} is not in it: it is missing or damaged in the data already", file=sys.stderr)
    if options.json:
        print_json(_fields(options.folder, copied))
    else:
        print_line(f"backup in {options.folder.absolute()}: {_sizes(copied)}")


def _restore(options: argparse.Namespace) -> None:
    from turnstone.bootstrap.places.backup import restore

    os.umask(PRIVATE)
    copied = restore(options.folder, replaces=options.replace)
    if copied.earlier is not None:
        print(f"the earlier data are in {copied.earlier}; remove them once they are not needed", file=sys.stderr)
    if options.json:
        earlier = None if copied.earlier is None else str(copied.earlier)
        print_json({**_fields(options.folder, copied), "replaced_data": earlier})
    else:
        print_line(f"restored from {options.folder.absolute()}: {_sizes(copied)}")


def _fields(folder: Path, copied: "Copied") -> dict[str, object]:
    return {
        "folder": str(folder.absolute()),
        "payloads": copied.payloads,
        "size_bytes": copied.size_bytes,
        "lost_payloads": sorted(copied.lost),
    }


def _sizes(copied: "Copied") -> str:
    return f"a database and {copied.payloads} payloads, {copied.size_bytes / 1e6:.1f} MB in all"
