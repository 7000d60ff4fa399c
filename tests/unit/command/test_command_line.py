"""The commands of `turnstone`: help, the page that describes them, exit codes and JSON.

Covers: functions/command
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from functions.command.main import build_parser, main
from tests.docs.idioms import found_in
from tests.docs.pages import DOCS, ROOT
from tests.support.cases import rest_at_night
from tests.support.starts.commands import run_command
from turnstone import VERSION

PAGE = (DOCS / "operate" / "command-line.md").read_text()
COMMANDS = (
    "serve",
    "chat",
    "memory",
    "keys",
    "turns",
    "webhooks",
    "embeddings",
    "backup",
    "restore",
    "openapi",
    "doctor",
)
FULL, CLOSED, LEFT = "/dev/full", "closed", "a pipe whose reader has left"
WITHOUT_JSON = {"serve", "openapi"}  # one prints a greeting, the other nothing but JSON


def parsers(parser: argparse.ArgumentParser, path: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield each command that runs with its parser, such as `keys create`."""
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not inner:
        yield path, parser
    for action in inner:
        for name, below in action.choices.items():
            yield from parsers(below, f"{path} {name}".strip())


PARSERS = dict(parsers(build_parser()))


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    umask = os.umask(0o022)
    for name in [name for name in os.environ if name.startswith("TURNSTONE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TURNSTONE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "data"
    os.umask(umask)


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    main(list(map(str, arguments)))
    return capsys.readouterr().out


def status(*arguments: object) -> object:
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, arguments)))
    return ended.value.code


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert status("--help") == 0
    listed = re.findall(r"^    (\w+)\b", capsys.readouterr().out, re.MULTILINE)
    assert tuple(listed) == COMMANDS == tuple(dict.fromkeys(path.split()[0] for path in PARSERS))


def test_the_page_lists_every_command_and_no_other() -> None:
    rows = re.findall(r"^\| `turnstone ([a-z]+(?: [a-z]+)?)", PAGE, re.MULTILINE)
    assert set(rows) == set(PARSERS)


def test_the_page_names_every_option() -> None:
    for path, parser in PARSERS.items():
        if path == "chat":
            continue  # has a page of its own
        options = [word for action in parser._actions for word in action.option_strings if word.startswith("--")]
        assert not [word for word in options if word != "--help" and f"`{word}`" not in PAGE], path


@pytest.mark.parametrize("path", ["", *PARSERS])
def test_each_has_help_in_plain_words(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(*path.split(), "--help") == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: turnstone {path}".rstrip())
    assert found_in(text) == []
    if path:
        helps = [action.help for action in PARSERS[path]._actions]
        assert all(helps), path


def test_each_that_a_script_reads_has_json() -> None:
    assert {path for path, parser in PARSERS.items() if "--json" not in parser.format_help()} == WITHOUT_JSON


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert status("--version") == 0
    assert capsys.readouterr().out == f"turnstone {VERSION}\n"


@pytest.mark.parametrize(
    "arguments",
    [(), ("frob",), ("--frob", "serve"), ("keys",), ("keys", "create"), ("turns", "cancel"), ("serve", "x")],
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert status(*arguments) == 2
    assert capsys.readouterr().err.startswith("usage: turnstone")


@pytest.mark.parametrize("path", PARSERS)
def test_an_unknown_option_shows_the_usage_of_its_command(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    needed = [action for action in PARSERS[path]._actions if action.required]
    required = [word for action in needed for word in (*action.option_strings[:1], str(action.metavar))]
    assert status(*path.split(), *required, "--frob") == 2
    errors = capsys.readouterr().err
    assert errors.startswith(f"usage: turnstone {path} [-h]")
    assert f"turnstone {path}: error: unrecognized arguments: --frob" in errors


def test_a_setting_given_as_an_option_is_pointed_to_its_variable(capsys: pytest.CaptureFixture[str]) -> None:
    assert status("serve", "--port", "9") == 2
    assert "--port 9; settings are variables, such as TURNSTONE_PORT=9000" in capsys.readouterr().err


def test_each_command_has_a_description_and_its_values_a_name() -> None:
    for path, parser in PARSERS.items():
        assert parser.description, path
        for action in parser._actions:
            shown = str(action.metavar or action.dest.upper())
            assert action.option_strings or shown.isupper(), f"{path} {shown}"
            assert action.nargs == 0 or not shown.endswith("S"), f"{path} {shown}"


def test_keys_as_json_are_the_stored_ones_and_the_key_only_once(capsys: pytest.CaptureFixture[str]) -> None:
    made = json.loads(printed(capsys, "keys", "create", "ann", "--role", "admin", "--json"))
    token = made.pop("key")
    assert token.startswith("ts_")
    listed = printed(capsys, "keys", "list", "--json")
    assert json.loads(listed) == [made]
    assert token not in listed
    assert (made["name"], made["caller"]["roles"], made["revoked_at"]) == ("ann", ["admin"], None)
    revoked = json.loads(printed(capsys, "keys", "revoke", made["key_id"], "--json"))
    assert revoked["revoked_at"]
    assert json.loads(printed(capsys, "turns", "list", "--json")) == []


def test_backups_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path, data_dir: Path) -> None:
    printed(capsys, "keys", "create", "ann")
    made = json.loads(printed(capsys, "backup", "copy", "--json"))
    assert made == {
        "folder": str(tmp_path / "copy"),
        "payloads": 0,
        "size_bytes": made["size_bytes"],
        "lost_payloads": [],
    }
    restored = json.loads(printed(capsys, "restore", "copy", "--replace", "--json"))
    assert Path(restored["replaced_data"]).parent == data_dir


def test_a_reader_that_leaves_is_no_traceback() -> None:
    program = f"{sys.executable} -m turnstone openapi | head -c 1"
    ended = subprocess.run(["bash", "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("{", "")


FULL_DEVICE = "turnstone: standard output can't be written: No space left on device\n"


@pytest.mark.parametrize("arguments", ["--help", "openapi", "turns list --json", "keys list", "doctor", "backup copy"])
def test_a_full_device_is_one_line(arguments: str) -> None:
    main(["keys", "create", "ann"])
    ended = completed(arguments, output=FULL)
    assert (ended.returncode, ended.stderr) == (1, FULL_DEVICE)


@pytest.mark.usefixtures("cold_starts")
@pytest.mark.parametrize(
    ("arguments", "unbuffered"), rest_at_night((("keys list", "1"), ("openapi", "1")), always=(("keys list", "1"),))
)
def test_a_full_device_without_a_buffer_is_one_line(arguments: str, unbuffered: str) -> None:
    main(["keys", "create", "ann"])
    ended = completed(arguments, output=FULL, PYTHONUNBUFFERED=unbuffered)
    assert (ended.returncode, ended.stderr) == (1, FULL_DEVICE)


@pytest.mark.parametrize("arguments", ["--help", "openapi", "keys list", "doctor"])
def test_a_reader_that_leaves_at_once_is_no_traceback(arguments: str) -> None:
    main(["keys", "create", "ann"])
    ended = completed(arguments, output=LEFT)
    assert (ended.returncode, ended.stderr) == (1, "")


@pytest.mark.parametrize(("options", "output"), [("", FULL), ("", CLOSED), ("", LEFT), ("--json", LEFT)])
def test_a_key_that_was_not_printed_is_named(options: str, output: str, capsys: pytest.CaptureFixture[str]) -> None:
    for tenant in ("local", "my team"):
        ended = completed(f"keys create ann --tenant '{tenant}' {options}", output=output)
        lines = ended.stderr.splitlines()
        assert ended.returncode == 1
        assert lines[-1].startswith("turnstone: the key was not printed: ")
        revoke = lines[-1].partition("turnstone keys revoke ")[2]
        main(["keys", "revoke", *shlex.split(revoke), "--json"])
        assert json.loads(capsys.readouterr().out)["revoked_at"]


def completed(command: str, *, output: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command with a standard output that can't be written."""
    with ExitStack() as stack:
        stdout: int | None = None
        if output == FULL:
            stdout = stack.enter_context(open(FULL, "wb")).fileno()
        elif output == LEFT:
            reader, stdout = os.pipe()
            os.close(reader)
            stack.callback(os.close, stdout)
        environment = {**os.environ, "PYTHONUNBUFFERED": "", **variables}
        return run_command(*shlex.split(command), environment=environment, folder=Path.cwd(), stdout=stdout)


def test_the_command_loads_no_server() -> None:
    show = "import sys, turnstone.functions.command.main; print('starlette' in sys.modules, 'urllib3' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", show], cwd=ROOT, text=True) == "False False\n"
