"""Runs the blocks of a page that are marked `run`, in order, in one shell, against a server.

A block of Python runs in an interpreter of its own within that shell. A block ```` ```text output ```` that follows one
shows its output, in which `…` stands for any text.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.docs.pages import ROOT, Block, Page
from tests.support.server.servers import ServerProcess

SHOWN_URL, SHOWN_RECEIVER = "http://127.0.0.1:8321", "8400"
CLIENTS = (".clients/0.2.12", ".clients/openai")
PROGRAMS = Path(sys.executable).parent
PARTING = "--- the end of a block ---"
TIMEOUT_S = 120.0


class Run(NamedTuple):
    """A block that runs, and the output that the page shows of it."""

    block: Block
    output: str | None


class Outcome(NamedTuple):
    """The result of the page's script: the output of each block that ended, and the errors."""

    outputs: list[str]
    status: int
    errors: str


def runs_of(page: Page) -> list[Run]:
    """Return the page's blocks that run. Raises AssertionError for an output that follows none."""
    runs: list[Run] = []
    for block in page.blocks:
        if "run" in block.words:
            assert block.language in ("sh", "python"), f"{page.name}:{block.line}: {block.language!r} does not run"
            runs.append(Run(block, None))
        elif "output" in block.words:
            follows_a_run = bool(runs) and runs[-1].output is None
            assert follows_a_run, f"{page.name}:{block.line}: there is no run of this output"
            runs[-1] = Run(runs[-1].block, block.text)
    return runs


def run_page(
    page: Page, server: ServerProcess, folder: Path, receiver_port: int | None = None, programs: Path = PROGRAMS
) -> Outcome:
    """Run the page's blocks in the folder, as a user does in the folder of a checkout.

    Args:
        receiver_port: the port that receivers of webhooks use; default: the one that the pages show.
        programs: the folder of `python3` and `turnstone`.
    """
    (folder / "docs").symlink_to(ROOT / "docs")
    script = "\n".join(["set -euo pipefail", *(_command(run.block) for run in runs_of(page))])
    script = script.replace(SHOWN_URL, server.url).replace(".venv/bin/", f"{programs}/")
    script = script.replace(SHOWN_RECEIVER, str(receiver_port or SHOWN_RECEIVER))
    script = script.replace("pip install", "true pip install")  # the client is here
    ended = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=_environment(server, programs),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    return Outcome(ended.stdout.split(f"{PARTING}\n")[:-1], ended.returncode, ended.stderr)


def python_path() -> str:
    """Return the path on which a block of Python finds the official clients."""
    return os.pathsep.join(str(ROOT / client) for client in CLIENTS)


def agrees(output: str, shown: str) -> bool:
    """Return whether the output is the one shown, where `…` stands for any text."""
    pattern = ".*".join(re.escape(part) for part in shown.strip().split("…"))
    return re.fullmatch(pattern, output.strip(), re.DOTALL) is not None


def _command(block: Block) -> str:
    text = block.text
    if block.language == "python":
        text = f"python3 - <<'END_OF_BLOCK'\n{text}END_OF_BLOCK\n"
    return f"{text}\necho; echo '{PARTING}'"


def _environment(server: ServerProcess, programs: Path) -> dict[str, str]:
    """Return the environment of a user's shell: these programs first, and the official clients."""
    paths = [str(programs), os.environ.get("PATH", "")]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("TURNSTONE_")}
    return {
        **plain,
        "PATH": os.pathsep.join(paths),
        "PYTHONPATH": python_path(),
        "TURNSTONE_DATA_DIR": str(server.data_dir),
        "TURNSTONE_URL": server.url,
    }
