"""Record what this version stores as a new fixture: `python -m tests.support.old_records DATE`.

A fixture is what a released version wrote, and is never recorded again: a change of the stored form gets a folder of
its own, named after the date, and the folders before it stay as they are.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.integration.crash_matrix.databases import KINDS
from tests.support.old_records.rows import FORMATS, STORES, written
from tests.support.old_records.scene import played


def main(version: str) -> None:
    folder = FORMATS / version
    folder.mkdir(parents=True)
    for store in STORES:
        with TemporaryDirectory() as own, KINDS[store](Path(own)) as make:
            database = make()
            own_folder = getattr(database, "_folder", Path(own))
            (folder / f"{store}.jsonl").write_text(written(played(database, own_folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
