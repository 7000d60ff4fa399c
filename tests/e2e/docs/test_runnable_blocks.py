"""The blocks that the documentation marks as runnable run, in order, and show the output that the page shows.

Covers: docs
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Page, page, pages
from tests.docs.runnable import CLIENTS, PROGRAMS, agrees, python_path, run_page, runs_of
from tests.support.needs import need_clients, need_programs
from tests.support.server.servers import ServerProcess, free_port
from tests.support.starts.shell_starts import shell_programs

IMPORTED = ["llama_stack_client", "openai", "turnstone.bootstrap.places.operator"]
IMPORTED += [f"turnstone.functions.command.{name}.start" for name in ("chat", "memory", "webhooks")]
PAGES = tuple(each.name for each in pages() if runs_of(each))


@pytest.fixture(autouse=True)
def _programs() -> None:
    """Skip, with the name of the program or the client that is missing."""
    need_programs("bash", "curl")
    need_clients(*(Path(client).name for client in CLIENTS))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The `python3` and the `turnstone` of the pages, of which README.md has those that a user starts."""
    folder = tmp_path_factory.mktemp("programs")
    with shell_programs(folder, python_path(), *IMPORTED) as made:
        yield made


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", PAGES)
def test_the_blocks_of_a_page_run(name: str, programs: Path, tmp_path: Path) -> None:
    port = free_port()
    started = PROGRAMS if name == "README.md" else programs
    with ServerProcess(tmp_path, fetch_allow=f"127.0.0.1:{port}") as server:
        outcome = run_page(page(name), server, tmp_path, port, started)
    runs = runs_of(page(name))
    assert outcome.status == 0, f"{outcome.errors}\nafter {outcome.outputs}"
    assert len(outcome.outputs) == len(runs)
    for run, output in zip(runs, outcome.outputs, strict=True):
        if run.output is not None:
            assert agrees(output, run.output), f"{name}:{run.block.line} printed\n{output}\nand shows\n{run.output}"


def test_the_first_pages_have_runnable_blocks() -> None:
    assert {"README.md", "docs/guide/first-turn.md", "docs/guide/python-client.md"} <= set(PAGES)


@pytest.mark.parametrize(
    ("block", "status", "output"), [("false", 1, None), ("cat nothing | true", 1, None), ("echo one", 0, "one")]
)
def test_a_block_that_fails_is_found(block: str, status: int, output: str | None, tmp_path: Path) -> None:
    """The exit status of each command counts, and so does the output."""
    with ServerProcess(tmp_path) as server:
        outcome = run_page(Page(ROOT / "README.md", f"```sh run\n{block}\n```\n"), server, tmp_path)
    assert outcome.status == status
    assert output is None or agrees(outcome.outputs[0], output)
    assert output is None or not agrees(outcome.outputs[0], "two")
