"""What the server can't start with, it tells in one line that names it, and ends with an error."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from tests.servers import HOST, ROOT, free_port, server_command, server_environment

TIMEOUT_S = 10


def refused_start(**settings: object) -> str:
    """Return the one line a server says that can't start."""
    command, environment = server_command(), server_environment(settings)
    try:
        ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        pytest.fail(f"the server started with {settings!r}")
    assert "Traceback" not in ended.stderr
    assert (ended.returncode != 0, ended.stdout) == (True, ""), ended.stdout
    lines = ended.stderr.splitlines()
    assert len(lines) == 1, ended.stderr
    return lines[0]


def test_a_server_whose_port_is_taken_says_so(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind((HOST, 0))
        holder.listen()
        port = holder.getsockname()[1]
        line = refused_start(port=port, data_dir=tmp_path)
    assert str(port) in line
    assert "in use" in line


@pytest.mark.parametrize(
    ("name", "value"),
    [
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
    ],
)
def test_a_bad_setting_is_named(name: str, value: str, tmp_path: Path) -> None:
    model_url = "http://127.0.0.1:1/v1"
    line = refused_start(**{"port": free_port(), "data_dir": tmp_path, "model_url": model_url, name: value})
    assert f"TURNSTONE_{name.upper()}" in line


def test_a_data_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.write_text("no folder")
    assert str(data_dir) in refused_start(port=free_port(), data_dir=data_dir)


@pytest.mark.parametrize("processes", [1, 3])
def test_a_database_that_is_none_is_named(processes: int, tmp_path: Path) -> None:
    (tmp_path / "turnstone.db").write_text("no database" * 1_000)
    line = refused_start(port=free_port(), data_dir=tmp_path, processes=processes)
    assert str(tmp_path / "turnstone.db") in line
