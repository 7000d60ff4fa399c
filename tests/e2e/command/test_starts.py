"""A command ends alike as a new Python and from the process that has imported it, which most tests use.

Covers: functions/command, __main__
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.clients.terminal import TIMEOUT_S, Terminal, chat_environment, chatted, is_readable
from tests.support.server.servers import free_port, server_environment
from tests.support.starts.commands import run_command, start
from tests.support.starts.warm_starts import starts
from turnstone import VERSION

ARE_WARM = pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
FULL = "turnstone: standard output can't be written: No space left on device\n"


@ARE_WARM
def test_status_streams_and_folder_are_the_commands_own(is_warm: bool, tmp_path: Path) -> None:
    environment = server_environment({"data_dir": "data"})
    with starts(are_warm=is_warm), open("/dev/full", "w") as full:
        version = run_command("--version", environment=environment, folder=tmp_path)
        assert (version.returncode, version.stdout, version.stderr) == (0, f"turnstone {VERSION}\n", "")
        wrong = run_command("frob", environment=environment, folder=tmp_path)
        assert (wrong.returncode, wrong.stdout, wrong.stderr.split()[:2]) == (2, "", ["usage:", "turnstone"])
        made = run_command("keys", "create", "ann", "--json", environment=environment, folder=tmp_path)
        assert (made.returncode, json.loads(made.stdout)["name"]) == (0, "ann"), made.stderr
        for output, message in ((full.fileno(), FULL), (None, "turnstone: standard output is closed\n")):
            unwritten = run_command("keys", "list", environment=environment, folder=tmp_path, stdout=output)
            assert (unwritten.returncode, unwritten.stderr) == (1, message)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@ARE_WARM
def test_standard_input_signals_and_terminals_reach_it(is_warm: bool) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    source, target = os.pipe()
    errors, errors_in = os.pipe()
    with starts(are_warm=is_warm), open(os.devnull) as nothing:
        refused = chatted(nowhere, "--model", "m", typed=b"\x7fELF\x00\x01")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr == "turnstone: standard input is not text: character 4 is a zero byte.\n"
        streams = (source, nothing.fileno(), errors_in)
        waiting = start("chat", "hello", environment=chat_environment(nowhere), streams=streams)
        assert is_readable(errors, TIMEOUT_S)
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(TIMEOUT_S) == 130
        with Terminal(nowhere, "hello") as terminal:
            assert terminal.ended() == 1
        assert "no server answers" in terminal.shown
    for descriptor in (source, target, errors, errors_in):
        os.close(descriptor)


@ARE_WARM
def test_one_that_does_not_end_in_time_is_killed(is_warm: bool, tmp_path: Path) -> None:
    environment = server_environment({"port": free_port(), "data_dir": tmp_path})
    with starts(are_warm=is_warm), pytest.raises(subprocess.TimeoutExpired):
        run_command("serve", environment=environment, timeout_s=0.5)
