"""A copy of the server runs, and its code finds packages, in any folder of the server and its Python.

Covers: functions/local
"""

from __future__ import annotations

import json
import os
import shutil
import site
import tempfile
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Answer, call_answer, text_answer
from tests.fakes.models.openai_server import ModelServer
from tests.support.cases import rest_at_night
from tests.support.clients.plain_client import PlainClient, turn_body
from tests.support.server.servers import ROOT, ServerProcess
from tests.support.tools.jailed import can_jail

__all__ = ["can_jail"]
pytestmark = pytest.mark.timeout(120)
CODE = (
    "import marked, folder_of_it, os\n"
    "print(marked.TEXT, folder_of_it.TEXT, os.listdir())\n"
    "open('made.txt', 'w').write('kept')"
)
CONFIG = '[tools.code_interpreter]\nruns = "here"\nmemory_mb = 192\n'


class CopiedServer(ServerProcess):
    """A server whose source and Python are in a folder of their own, where it is started."""

    def __init__(self, copy: Path, **settings: object) -> None:
        super().__init__(copy, **settings)
        self.copy = copy

    def _command(self) -> list[str]:
        start = (
            "import os, runpy, sys; os.chdir(sys.argv[1]); sys.path[0] = ''; sys.argv[1:] = ['serve']; "
            "runpy.run_module('turnstone', run_name='__main__')"
        )
        return [str(self.copy / ".venv" / "bin" / "python"), "-c", start, str(self.copy)]

    def _environment(self) -> dict[str, str]:
        paths = [str(self.copy / "shared"), str(self.copy), *site.getsitepackages()]
        return {**super()._environment(), "PYTHONPATH": os.pathsep.join(paths)}


FOLDERS = ("/tmp", "/tmp/ a copy, with spaces", "/dev/shm", str(Path.home()), "TMPDIR")


@pytest.fixture(params=rest_at_night(FOLDERS, always=(FOLDERS[1], FOLDERS[3], "TMPDIR")), ids=str)
def copy(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the source with a virtual environment in which there are two packages."""
    parent = Path(request.param)
    if request.param == "TMPDIR":
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        parent = tmp_path
    parent.mkdir(exist_ok=True)
    if not os.access(parent, os.W_OK):
        pytest.skip(f"{parent} can't be written to")
    with tempfile.TemporaryDirectory(dir=parent, prefix="turnstone copy ") as folder:
        for name in ("shared", "functions"):
            shutil.copytree(ROOT / name, Path(folder, name))  # with bytecode, which is compiled for seconds
        venv.create(Path(folder, ".venv"), symlinks=True)
        (packages,) = Path(folder, ".venv", "lib").glob("python*/site-packages")
        (packages / "marked.py").write_text("TEXT = 'a module'")
        (packages / "folder_of_it").mkdir()
        (packages / "folder_of_it" / "__init__.py").write_text("TEXT = 'a package'")
        yield Path(folder)


def runs_code(body: Mapping[str, Any]) -> Answer:
    last = body["messages"][-1]
    if last["role"] == "user":
        return call_answer(("code_interpreter", json.dumps({"code": CODE})))
    return text_answer(last["content"])


def test_code_imports_packages_from_any_folder_of_the_server(can_jail: None, copy: Path) -> None:
    (copy / "turnstone.toml").write_text(CONFIG)
    with (
        ModelServer(runs_code) as model,
        CopiedServer(copy, model_url=model.url) as server,
        PlainClient(server.url) as client,
    ):
        session = client.open_session("m", toolgroups=["builtin::code_interpreter"])
        turn = client.post(f"{session}/turn", {**turn_body("run it"), "stream": False}).json()
        answer = turn["output_message"]["content"]
        assert "a module a package []" in answer, answer
        (made,) = turn["output_attachments"]
        assert client.fetch(made["content"]["uri"]).text == "kept"
