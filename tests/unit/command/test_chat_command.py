"""The command line of a chat: its refusals, and the variables that belong to the client and not to the server.

Covers: functions/command, settings
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from functions.command.main import main
from turnstone.settings.client_settings import ClientSettings, load_client_settings
from turnstone.settings.config import OF_CLIENTS, InvalidSettings, load_settings, prefers_plain_text
from turnstone.settings.local_settings import LocalSettings

SECRET = "sk-0123456789"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hello", "--session", "s"], "name its agent once"),
        (["hello", "--session", "a/s", "--agent", "a"], "name its agent once"),
        (["hello", "--session", "a/"], "must be AGENT/SESSION"),
        (["hello", "--agent", "a", "--model", "m"], "a turn can't change its agent's model"),
        (["  "], "nothing to send"),
        ([], "nothing to send"),
        (
            ["hello", "--url", "localhost:8321"],
            "--url: must be a URL that begins with http:// or https:// and names a host",
        ),
        (["hello", "--url", "http://:1"], "--url: must be a URL with a host"),
        (["hello", "--api-key", f"{SECRET}\n"], "--api-key: must be a key of visible ASCII characters"),
        (["hello", "--provider-data", SECRET], "must be a JSON object"),
        (["hello", "--provider-data", f'["{SECRET}"]'], "must be a JSON object"),
        (["hello", "--provider-data", "@no-such-file"], "can't read the file"),
    ],
)
def test_wrong_arguments_are_refused_before_any_request(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(SystemExit) as ended:
        main(["chat", *arguments])
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert SECRET not in printed.err
    assert printed.out == ""


def test_a_file_that_does_not_load_ends_the_command_before_an_agent_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["chat", "hello", "--tools", str(tmp_path / "none.py"), "--url", "http://127.0.0.1:9"])
    assert ended.value.code == 1
    assert capsys.readouterr().err == f"turnstone: there is no file {tmp_path / 'none.py'}.\n"


def test_variables_of_a_client_do_not_stop_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNSTONE_URL", "https://agents.example/live")
    monkeypatch.setenv("TURNSTONE_API_KEY", SECRET)
    monkeypatch.setenv("TURNSTONE_PORT", "8322")
    assert load_settings(LocalSettings).port == 8322
    settings = load_client_settings(None, None)
    assert (settings.url, settings.api_key) == ("https://agents.example/live", SECRET)
    assert OF_CLIENTS == ClientSettings.model_fields.keys()
    assert load_client_settings("http://localhost:1", "other").api_key == "other"
    monkeypatch.setenv("TURNSTONE_URLS", "x")
    with pytest.raises(InvalidSettings, match="TURNSTONE_URLS: there is no such setting"):
        load_settings(LocalSettings)


@pytest.mark.parametrize("url", ["127.0.0.1:18322", "http://:1"])
def test_an_error_for_a_wrong_url_or_key_names_its_source(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("TURNSTONE_URL", "http://localhost:1")
    with pytest.raises(InvalidSettings, match=r"^--url: (must be a URL|names no host)"):
        load_client_settings(url, None)
    monkeypatch.setenv("TURNSTONE_URL", url)
    with pytest.raises(InvalidSettings, match=r"^TURNSTONE_URL: (must be a URL|names no host)"):
        load_client_settings(None, "key-0123456789")
    with pytest.raises(InvalidSettings, match=r"^--api-key: must be a key"):
        load_client_settings("http://localhost:1", "two words")


def test_colours_need_a_terminal_that_supports_them_and_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "")
    assert not prefers_plain_text()
    monkeypatch.setenv("NO_COLOR", "1")
    assert prefers_plain_text()
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert prefers_plain_text()
