"""A chat's message: joined with standard input, which may be silent, damaged or none; and the name of its agent.

Covers: functions/command/chat/own_agent, functions/command/chat/piped
"""

from __future__ import annotations

import fcntl
import io
import os
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from functions.command.chat.own_agent import _name, identity_of
from functions.command.chat.piped import UnusableInput, with_piped


@pytest.fixture
def pipe() -> Iterator[tuple[TextIO, int]]:
    """A pipe: its end to read, as standard input is, and the descriptor of the other.

    `select` would not take the end to read, whose number is above 1,023.
    """
    low, writer = os.pipe()
    reader = fcntl.fcntl(low, fcntl.F_DUPFD, 1_024)
    os.close(low)
    with open(reader, encoding="utf-8") as stdin, open(writer, "wb", buffering=0) as end:
        yield stdin, end.fileno()


def test_a_pipe_that_stays_silent_is_noted_and_then_an_error(
    pipe: tuple[TextIO, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functions.command.chat.piped.NOTE_AFTER_S", 0.05)
    monkeypatch.setattr("functions.command.chat.piped.SILENT_S", 0.2)
    notes: list[str] = []
    os.write(pipe[1], b"begun")
    with pytest.raises(UnusableInput, match=r"brought nothing for 0\.2 s: `< /dev/null` sends the message without it"):
        with_piped("hello", pipe[0], notes.append)
    assert len(notes) == 1
    assert "waiting for standard input" in notes[0]


def test_unreadable_input_is_an_error() -> None:
    folder = os.open("/", os.O_RDONLY)

    class Folder(io.StringIO):
        def fileno(self) -> int:
            return folder

    with pytest.raises(UnusableInput, match="can't be read: Is a directory"):
        with_piped("hello", Folder(), lambda _: None)
    os.close(folder)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"text\r\n\r\n", "text\n\nhello"),
        (b"\xef\xbb\xbftext", "text\n\nhello"),
        (b"  a\r\n  b", "  a\r\n  b\n\nhello"),
        (b" \n\t\n", "hello"),
        (b"", "hello"),
    ],
)
def test_the_message_follows_the_text_behind_an_empty_line(
    pipe: tuple[TextIO, int], body: bytes, expected: str
) -> None:
    os.write(pipe[1], body)
    os.dup2(os.open(os.devnull, os.O_WRONLY), pipe[1])  # closes the pipe
    assert with_piped("hello", pipe[0], lambda _: None) == expected


def test_without_a_descriptor_there_is_no_text() -> None:
    assert with_piped("hello", io.StringIO("x"), lambda _: None) == "hello"
    assert with_piped(None, None, lambda _: None) == ""


def token(claims: str) -> str:
    return f"e30.{urlsafe_b64encode(claims.encode()).decode().rstrip('=')}.c2ln"


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / ".local" / "state"


def test_the_agent_of_a_token_has_a_name_that_only_its_machine_can_make(
    own_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_ann = token('{"iss": "i", "sub": "ann", "exp": 1}')
    assert identity_of(of_ann) == identity_of(token('{"iss": "i", "sub": "ann", "exp": 2}'))
    (kept,) = (own_state / "turnstone").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    before = identity_of(of_ann)
    monkeypatch.setenv("HOME", str(own_state / "of another"))
    assert identity_of(of_ann) != before
    assert identity_of("a key") == "a key"


@pytest.mark.parametrize("kept", [b"", b"short", b"\xff" * 40, None])
def test_where_no_secret_can_be_kept_each_chat_has_one_of_its_own(own_state: Path, kept: bytes | None) -> None:
    own_state.mkdir(parents=True)
    if kept is None:
        (own_state / "turnstone").write_bytes(b"no folder")
    else:
        (own_state / "turnstone").mkdir()
        (own_state / "turnstone" / "chat-secret").write_bytes(kept)
    of_ann = token('{"iss": "i", "sub": "ann"}')
    assert identity_of(of_ann) != identity_of(of_ann)


def test_an_agent_is_named_after_its_caller_and_its_configuration() -> None:
    names = [
        _name(config, identity_of(key))
        for config in ({"model": "m"}, {"model": "n"})
        for key in (None, "ts_a", "ts_b", token('{"iss": "i", "sub": "s"}'), token('{"iss": "i", "sub": "t"}'))
    ]
    assert len(set(names)) == 10
    assert all(name.startswith("chat-") and len(name) == 21 for name in names)


def test_a_renewed_token_names_the_same_subject() -> None:
    first, second = (identity_of(token(f'{{"iss": "i", "sub": "s", "exp": {exp}}}')) for exp in (1, 2))
    assert first == second != identity_of(token('{"iss": "i", "sub": "t"}'))
    for strange in ("a.b.c", "a.e30.c", "..", "a.W10.c", "ä.ö.ü", token("[" * 100_000)):
        assert identity_of(strange) == strange
