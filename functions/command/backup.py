"""`turnstone backup` and `turnstone restore`: copies of a data directory, for its operator."""

import argparse
import os
import sys
from pathlib import Path

from turnstone.bootstrap.places.backup import Copied, back_up, restore

PRIVATE = 0o077  # the umask: a backup holds conversations and the hashes of keys


def add_backup(subjects: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add both commands."""
    backup = subjects.add_parser("backup", help="copy the data to a folder, also while a server runs")
    backup.add_argument("folder", type=Path, metavar="PATH", help="a new folder")
    backup.set_defaults(run=_back_up)
    restored = subjects.add_parser("restore", help="replace the data by a backup, while no server runs")
    restored.add_argument("folder", type=Path, metavar="PATH", help="the folder of a backup")
    restored.add_argument("--replace", action="store_true", help="put the data aside that are there")
    restored.set_defaults(run=_restore)


def _back_up(asked: argparse.Namespace) -> None:
    os.umask(PRIVATE)
    copied = back_up(asked.folder)
    print(f"backup in {asked.folder.absolute()}: {_sizes(copied)}")
    for name in sorted(copied.lost):
        print(f"the payload {name!r} is not in it: it is missing or damaged in the data already", file=sys.stderr)


def _restore(asked: argparse.Namespace) -> None:
    os.umask(PRIVATE)
    copied = restore(asked.folder, replaces=asked.replace)
    print(f"restored from {asked.folder.absolute()}: {_sizes(copied)}")
    if copied.earlier is not None:
        print(
            f"the data that were there are in {copied.earlier}; remove them when they are not needed", file=sys.stderr
        )


def _sizes(copied: Copied) -> str:
    return f"a database and {copied.payloads} payloads, {copied.size_bytes / 1e6:.1f} MB in all"
