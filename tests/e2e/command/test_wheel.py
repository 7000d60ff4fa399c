"""The wheel, installed into an empty environment without the checkout: one top-level name, and a command that works.

Covers: __main__, functions
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.cases import rest_at_night
from tests.support.clients.plain_client import PlainClient
from tests.support.server.servers import ROOT, ServerProcess, server_environment
from turnstone import VERSION

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
FOR_AWS = {"functions/stream.py", "functions/stream.sh", "functions/turn_supervisor/state_machine.asl.json"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout, built by the tools of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    before = sorted(path.name for path in ROOT.iterdir())
    uv("build", "--offline", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder, ROOT)
    assert sorted(path.name for path in ROOT.iterdir()) == before, "the build left files in the checkout"
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the wheel and its dependencies, and no path to the checkout."""
    folder = tmp_path_factory.mktemp("installed") / "env"
    uv("venv", "--offline", "--python", sys.executable, folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    uv("pip", "install", "--offline", "--no-deps", "--python", folder / "bin" / "python", wheel)
    here = Path(sysconfig.get_path("purelib"))
    for name in installed_names(dependencies("turnstone")):
        (packages / name).symlink_to(here / name)
    return folder / "bin"


def dependencies(*names: str) -> set[str]:
    """Return the distributions that these need, without those of an extra."""
    found: set[str] = set()
    left = list(names)
    while left:
        for requirement in map(Requirement, metadata.requires(left.pop()) or []):
            name = canonicalize_name(requirement.name)
            if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
                found.add(name)
                left.append(name)
    return found


def installed_names(distributions: set[str]) -> set[str]:
    """Return the top level of what these distributions installed here."""
    files = (file for name in distributions for file in metadata.files(name) or ())
    return {file.parts[0] for file in files} - {"..", "__pycache__"}


@pytest.fixture
def command(installed: Path, tmp_path: Path) -> Command:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return Command(installed, folder)


class Command:
    """The installed command in a folder of its own."""

    def __init__(self, installed: Path, folder: Path) -> None:
        self.program = installed / "turnstone"
        self.python = installed / "python"
        self.folder = folder

    def run(self, *arguments: object, **settings: object) -> subprocess.CompletedProcess[str]:
        words = [str(self.program), *map(str, arguments)]
        return subprocess.run(words, cwd=self.folder, env=environment(settings), capture_output=True, text=True)

    def lines(self, *arguments: object, **settings: object) -> str:
        """Return the output of a command that succeeds."""
        ended = self.run(*arguments, **settings)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout


class InstalledServer(ServerProcess):
    """`turnstone serve` of the installed wheel, in a folder that is no checkout."""

    def __init__(self, command: Command, **settings: Any) -> None:
        super().__init__(command.folder, **settings)
        self._installed = command

    def _command(self) -> list[str]:
        start = "import os, sys; os.chdir(sys.argv[1]); os.execv(sys.argv[2], sys.argv[2:])"
        words = [str(self._installed.program), "serve"]
        return [str(self._installed.python), "-c", start, str(self._installed.folder), *words]

    def _environment(self) -> dict[str, str]:
        return without_paths(super()._environment())


def environment(settings: dict[str, object]) -> dict[str, str]:
    return without_paths(server_environment(settings))


def without_paths(variables: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if not name.startswith("PYTHON")}


def uv(*arguments: object) -> None:
    program = Path(sys.executable).with_name("uv")
    words = [str(program), *map(str, arguments), "--quiet", "--no-config"]
    ended = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=without_paths(dict(os.environ)))
    assert ended.returncode == 0, ended.stderr


def test_it_adds_one_name_and_every_module(wheel: Path) -> None:
    names = [name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name]
    assert {name.split("/")[0] for name in names} == {"turnstone"}
    expected = {
        f"turnstone/{prefix}{path.relative_to(folder)}"
        for folder, prefix in ((ROOT / "shared" / "turnstone", ""), (ROOT / "functions", "functions/"))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and str(path.relative_to(ROOT)) not in FOR_AWS
    }
    assert set(names) == expected - {"turnstone/functions.py"}


def test_its_modules_are_the_installed_ones(command: Command) -> None:
    show = "import turnstone, turnstone.functions.local.server as server; print(turnstone.__file__, server.__file__)"
    words = [str(command.python), "-c", show]
    ended = subprocess.run(words, cwd=command.folder, env=environment({}), capture_output=True, text=True, check=True)
    assert [Path(path).is_relative_to(command.python.parents[1]) for path in ended.stdout.split()] == [True, True]
    absent = subprocess.run([str(command.python), "-c", "import functions"], cwd=command.folder, env=environment({}))
    assert absent.returncode == 1


@pytest.mark.parametrize("processes", rest_at_night((1, 2), always=(2,)))
def test_serve_answers_a_turn(command: Command, processes: int) -> None:
    key = command.lines("keys", "create", "ann", data_dir=command.folder / "data").strip()
    (command.folder / "json.py").write_text("raise ImportError('a file of the working folder')")
    authorization = f"Bearer {key}"
    with (
        InstalledServer(command, auth="api_keys", authorization=authorization, processes=processes) as server,
        PlainClient(server.url, authorization=authorization) as client,
    ):
        session = client.open_session("offline")
        body = {"stream": False, "messages": [{"role": "user", "content": "hello"}]}
        assert "hello" in client.post(f"{session}/turn", body).json()["output_message"]["content"]
        chatted = command.run("chat", "again", "--url", server.url, "--api-key", key)
        assert (chatted.returncode, "again" in chatted.stdout) == (0, True), chatted.stderr


def test_the_other_commands_work(command: Command) -> None:
    assert command.lines("--version") == f"turnstone {VERSION}\n"
    assert json.loads(command.lines("openapi"))["info"]["version"]
    checked = json.loads(command.lines("doctor", "--json", port=0))
    assert checked["ok"] is True
    as_module = [str(command.python), "-m", "turnstone", "--version"]
    ended = subprocess.run(as_module, cwd=command.folder, env=environment({}), capture_output=True, text=True)
    assert ended.stdout == f"turnstone {VERSION}\n"
