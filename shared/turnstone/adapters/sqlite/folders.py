"""Folders that a loss of power leaves where they are."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def make_private_folder(folder: Path) -> None:
    """Make the folder, for its owner only, and those it is in; that they are there is on the disk afterwards."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.parent)


def sync_folder(folder: Path) -> None:
    """Have the names that the folder holds on the disk, where its file system can be told to."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as exc:
        # What file systems of a network answer that have folders elsewhere.
        if exc.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)
