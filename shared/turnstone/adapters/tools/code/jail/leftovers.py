"""Files that code left in its folder: regular ones, few and small enough to keep."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

MAX_FILES = 16
MAX_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class Leftovers:
    """The collected files.

    Attributes:
        files: contents by name, as the code named them.
        left_out: the number of further files.
    """

    files: dict[str, bytes]
    left_out: int


def leftovers_in(folder: int) -> Leftovers:
    """Return the files directly in the folder of this descriptor, by name; skip links, pipes and hidden files.

    No process may still run that could change the folder. Raises OSError.
    """
    files: dict[str, bytes] = {}
    left_out = 0
    room = MAX_BYTES
    for name in sorted(os.listdir(folder)):
        if name.startswith(".") or not stat.S_ISREG(os.lstat(name, dir_fd=folder).st_mode):
            continue
        size = os.lstat(name, dir_fd=folder).st_size
        if len(files) == MAX_FILES or size > room:
            left_out += 1
            continue
        with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder), "rb") as file:
            files[name] = file.read(room)
        room -= len(files[name])
    return Leftovers(files, left_out)
