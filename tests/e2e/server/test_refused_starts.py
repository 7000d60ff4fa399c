"""Settings and files that stop the start: one line names the culprit, and the exit status is an error.

Covers: functions/local
"""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from functions.local.server import serve
from tests.support.cases import rest_at_night
from tests.support.server.servers import HOST, ROOT, free_port, server_environment
from tests.support.starts.commands import run_command

TIMEOUT_S = 10


def refused_start(folder: Path = ROOT, **settings: object) -> str:
    """Return the one line of a server that can't start in that folder."""
    try:
        ended = run_command("serve", environment=server_environment(settings), folder=folder, timeout_s=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        pytest.fail(f"the server started with {settings!r}")
    assert "Traceback" not in ended.stderr
    assert (ended.returncode != 0, ended.stdout) == (True, ""), ended.stdout
    lines = ended.stderr.splitlines()
    assert len(lines) == 1, ended.stderr
    return lines[0]


@pytest.mark.usefixtures("cold_starts")
def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind((HOST, 0))
        holder.listen()
        port = holder.getsockname()[1]
        line = refused_start(port=port, data_dir=tmp_path)
    assert str(port) in line
    assert "in use" in line


WRONG = (
    ("port", "abc"),
    ("port", "70000"),
    ("model_url", "localhost:11434"),
    ("lease_seconds", "0"),
    ("await_seconds", "soon"),
    ("await_seconds", "inf"),
    ("await_seconds", "1e12"),
    ("drain_seconds", "inf"),
    ("lease_seconds", "inf"),
    ("lease_seconds", "nan"),
    ("model_api_key", "schlüssel"),
    ("colour", "blue"),
    ("processes", "0"),
    ("processes", "65"),
    ("host", "0.0.0.0"),
    ("host", "localhost"),
    ("auth", "yes"),
    ("jwt_issuer", "https://issuer.example"),
)


@pytest.mark.parametrize(("name", "value"), rest_at_night(WRONG, always=(("port", "abc"), ("colour", "blue"))))
def test_a_bad_setting_is_named(name: str, value: str, tmp_path: Path) -> None:
    model_url = "http://127.0.0.1:1/v1"
    line = refused_start(**{"port": free_port(), "data_dir": tmp_path, "model_url": model_url, name: value})
    assert f"TURNSTONE_{name.upper()}" in line


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_bad_setting_is_named_before_anything_is_served(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"port": free_port(), "data_dir": tmp_path, "model_url": "http://127.0.0.1:1/v1", name: value}
    for variable in [variable for variable in os.environ if variable.startswith("TURNSTONE_")]:
        monkeypatch.delenv(variable)
    for setting, text in given.items():
        monkeypatch.setenv(f"TURNSTONE_{setting.upper()}", str(text))
    with pytest.raises(SystemExit) as ended:
        serve()
    (line,) = str(ended.value.code).splitlines()
    assert line.startswith("turnstone: ")
    assert f"TURNSTONE_{name.upper()}" in line
    assert list(tmp_path.iterdir()) == []


def test_a_data_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.write_text("no folder")
    line = refused_start(port=free_port(), data_dir=data_dir)
    assert line.startswith(f"turnstone: TURNSTONE_DATA_DIR: {str(data_dir)!r} can't be used: ")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_file_that_is_no_database_is_named(processes: int, tmp_path: Path) -> None:
    (tmp_path / "turnstone.db").write_text("no database" * 1_000)
    line = refused_start(port=free_port(), data_dir=tmp_path, processes=processes)
    assert str(tmp_path / "turnstone.db") in line


def test_an_api_key_without_authentication_stops_the_start(tmp_path: Path) -> None:
    line = refused_start(port=free_port(), data_dir=tmp_path, api_key="sk-secret")
    for hint in (
        "TURNSTONE_API_KEY: ",
        "TURNSTONE_AUTH=api_keys",
        "turnstone chat",
        "env -u TURNSTONE_API_KEY make run",
    ):
        assert hint in line
    assert "sk-secret" not in line


@pytest.mark.parametrize("processes", rest_at_night((1, 2), always=(1,)))
def test_a_misspelt_setting_is_named_with_the_intended_one(tmp_path: Path, processes: int) -> None:
    given = {"port": free_port(), "data_dir": tmp_path, "processes": processes}
    assert "TURNSTONE_AUHT: there is no such setting; did you mean TURNSTONE_AUTH?" in refused_start(**given, auht="x")
    assert "TURNSTONE_TABLE: there is no such setting of a server on one machine" in refused_start(**given, table="x")


WRONG_FILES = (
    (
        '[providers.p]\ntype = "openai"\nulr = "http://h"',
        "providers.p.ulr: there is no such key; did you mean url?",
    ),
    ('[tools.websearch]\napi_key_env = "NOT_SET_HERE"', "tools.websearch.api_key_env: NOT_SET_HERE is not set"),
    ("x = ", "is not valid TOML"),
)


@pytest.mark.parametrize(
    ("text", "reason", "processes"),
    rest_at_night(
        [(*file, processes) for processes in (1, 2) for file in WRONG_FILES],
        always=[(*file, 1) for file in WRONG_FILES],
    ),
)
def test_an_error_in_a_file_is_named_with_the_file(tmp_path: Path, text: str, reason: str, processes: int) -> None:
    (tmp_path / "turnstone.toml").write_text(text)
    given = {"port": free_port(), "data_dir": tmp_path / "data", "processes": processes}
    line = refused_start(tmp_path, **given)
    assert line.startswith("turnstone: turnstone.toml: ")
    assert reason in line
    (named := tmp_path / "named.toml").write_text(text)
    assert refused_start(tmp_path, **given, config=named).startswith(f"turnstone: TURNSTONE_CONFIG={named}: ")
