"""Durable folders: mkdir and fsync of the parent."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def make_private_folder(folder: Path) -> None:
    """Create the folder, for its owner only, and its parents; sync the new entries to disk."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder's entries to disk, where its file system supports that."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as exc:
        # errors of network file systems without that support
        if exc.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)
