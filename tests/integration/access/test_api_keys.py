"""API keys over a real database: found by their hash, shown once, good until revoked or expired.

Covers: services/access/api_keys, store/access/api_keys, functions/command
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from functions.command import main as cli
from turnstone.adapters.machine.system import RandomIds
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import InvalidRequest, NotFound, Unauthenticated
from turnstone.ports.records import Key, Operation, Range
from turnstone.services.access.api_keys import ApiKeys
from turnstone.store.access.api_keys import ApiKeyStore

ANN = Caller(tenant="acme", principal="ann", roles=("admin",), teams=("red", "blue"))
BOB = Caller(tenant="other", principal="bob")


def nameless(caller: Caller) -> Caller:
    """Return the caller without the key's id, which differs for each key."""
    assert caller.key_id
    return caller.model_copy(update={"key_id": ""})


FORM = re.compile(r"ts_[A-Za-z0-9_-]{43}")


class MovedClock:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic_s(self) -> float:
        return self.time.timestamp()


@dataclass
class Bench:
    keys: ApiKeys
    clock: MovedClock
    store: SqliteRangeStore
    folder: Path


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    store, clock = SqliteRangeStore(tmp_path / "turnstone.db"), MovedClock()
    yield Bench(ApiKeys(ApiKeyStore(store), clock, RandomIds(), os.urandom), clock, store, tmp_path)
    store.close()


def test_a_key_names_the_caller_it_was_made_for(bench: Bench) -> None:
    _, token = bench.keys.create(ANN, "laptop")
    assert nameless(bench.keys.identity(token).caller) == ANN
    assert bench.keys.identity(token).valid_until is None


def test_a_key_has_256_random_bits_and_no_two_are_the_same(bench: Bench) -> None:
    sizes: list[int] = []

    def counted(size: int) -> bytes:
        sizes.append(size)
        return os.urandom(size)

    keys = ApiKeys(ApiKeyStore(bench.store), bench.clock, RandomIds(), counted)
    tokens = {keys.create(ANN, "laptop")[1] for _ in range(20)}
    assert len(tokens) == 20
    assert set(sizes) == {32}
    assert all(FORM.fullmatch(token) for token in tokens)


def test_no_byte_of_a_key_is_stored(bench: Bench) -> None:
    key, token = bench.keys.create(ANN, "laptop")
    bench.keys.identity(token)
    bench.keys.revoke("acme", key.key_id)
    secret = token.removeprefix("ts_")
    stored = b"".join(path.read_bytes() for path in bench.folder.iterdir())
    assert b"laptop" in stored
    for size in (43, 12):  # nor any part that would make guessing easier
        assert not [at for at in range(len(secret) - size + 1) if secret[at : at + size].encode() in stored]


@pytest.mark.parametrize(
    "change",
    [
        lambda token: token[:-1],
        lambda token: token + "A",
        lambda token: token[:-1] + ("A" if token[-1] != "A" else "B"),
        lambda token: token.swapcase(),
        lambda token: token.removeprefix("ts_"),
        lambda token: "ts_" + "A" * 43,
        lambda token: token + "=",
        lambda token: token + "\n",
        lambda token: "",
    ],
)
def test_a_token_that_differs_from_the_key_is_refused(bench: Bench, change: object) -> None:
    _, token = bench.keys.create(ANN, "laptop")
    with pytest.raises(Unauthenticated):
        bench.keys.identity(change(token))  # type: ignore[operator]


def test_the_hash_of_a_key_is_no_key(bench: Bench) -> None:
    bench.keys.create(ANN, "laptop")
    (record,) = bench.store.range(Range("acme|apikeys")).records
    hashed = re.search(rb'"hash":"(\w{64})"', record.body)
    assert hashed is not None
    for text in (hashed[1].decode(), "ts_" + hashed[1].decode()[:43]):
        with pytest.raises(Unauthenticated):
            bench.keys.identity(text)


def test_a_key_is_good_until_it_expires(bench: Bench) -> None:
    _, token = bench.keys.create(ANN, "laptop", timedelta(days=1))
    assert bench.keys.identity(token).valid_until == bench.clock.time + timedelta(days=1)
    bench.clock.time += timedelta(days=1) - timedelta(microseconds=1)
    bench.keys.identity(token)
    bench.clock.time += timedelta(microseconds=1)
    with pytest.raises(Unauthenticated):
        bench.keys.identity(token)


def test_a_revoked_key_is_refused_and_the_others_are_accepted(bench: Bench) -> None:
    revoked, token = bench.keys.create(ANN, "laptop")
    _, other = bench.keys.create(ANN, "phone")
    bench.clock.time += timedelta(seconds=5)
    assert bench.keys.revoke("acme", revoked.key_id).revoked_at == bench.clock.time
    with pytest.raises(Unauthenticated):
        bench.keys.identity(token)
    assert nameless(bench.keys.identity(other).caller) == ANN


def test_a_second_revocation_of_a_key_keeps_the_time_of_the_first(bench: Bench) -> None:
    key, _ = bench.keys.create(ANN, "laptop")
    first = bench.keys.revoke("acme", key.key_id)
    bench.clock.time += timedelta(days=1)
    assert bench.keys.revoke("acme", key.key_id) == first
    assert [listed.revoked_at for listed in bench.keys.list("acme")] == [first.revoked_at]


def test_of_two_revocations_of_a_key_at_once_both_succeed(bench: Bench) -> None:
    key, token = bench.keys.create(ANN, "laptop")
    write = bench.store.write

    def late(operations: list[Operation], nonce: str | None = None) -> None:
        bench.store.write = write  # type: ignore[method-assign]
        bench.keys.revoke("acme", key.key_id)
        write(operations, nonce)

    bench.store.write = late  # type: ignore[method-assign, assignment]
    assert bench.keys.revoke("acme", key.key_id).revoked_at == bench.clock.time
    with pytest.raises(Unauthenticated):
        bench.keys.identity(token)


def test_a_list_shows_the_tenants_keys_in_the_order_they_were_made(bench: Bench) -> None:
    names = [f"key-{number}" for number in range(30)]
    for name in names:
        bench.keys.create(ANN, name)
        bench.clock.time += timedelta(milliseconds=1)
    bench.keys.create(BOB, "bobs")
    listed = list(bench.keys.list("acme"))
    assert [key.name for key in listed] == names
    assert {key.caller for key in listed} == {ANN}
    assert [key.name for key in bench.keys.list("other")] == ["bobs"]
    assert list(bench.keys.list("nobody")) == []


def test_another_tenants_key_is_not_found(bench: Bench) -> None:
    key, token = bench.keys.create(ANN, "laptop")
    for tenant, key_id in (("other", key.key_id), ("acme", "unknown"), ("acme", "../x|y:z")):
        with pytest.raises(NotFound) as missing:
            bench.keys.revoke(tenant, key_id)
        assert (missing.value.kind, missing.value.identifier) == ("API key", key_id)
    assert nameless(bench.keys.identity(token).caller) == ANN


@pytest.mark.parametrize(
    ("caller", "name", "valid_for"),
    [
        (ANN, "", None),
        (ANN, "two\nlines", None),
        (ANN, "half \ud800", None),
        (Caller(tenant="", principal="ann"), "laptop", None),
        (Caller(tenant="x" * 257, principal="ann"), "laptop", None),
        (Caller(tenant=":" * 86, principal="ann"), "laptop", None),
        (Caller(tenant="acme", principal=""), "laptop", None),
        (Caller(tenant="acme", principal="\udcff"), "laptop", None),
        (Caller(tenant="acme", principal="ann", roles=("x" * 5_000,)), "laptop", None),
        (ANN, "laptop", timedelta(0)),
        (ANN, "laptop", timedelta(days=-1)),
    ],
)
def test_a_key_that_could_identify_no_caller_is_not_made(
    bench: Bench, caller: Caller, name: str, valid_for: timedelta | None
) -> None:
    with pytest.raises(InvalidRequest):
        bench.keys.create(caller, name, valid_for)
    assert list(bench.keys.list(caller.tenant)) == []


def test_a_tenant_can_not_be_named_so_that_its_list_is_anothers_key(bench: Bench) -> None:
    bench.keys.create(Caller(tenant="apikey:x", principal="eve"), "eves")
    assert bench.store.get(Key("apikey:x", "#")) is None
    assert [key.name for key in bench.keys.list("apikey:x")] == ["eves"]


# ---- the command


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in [name for name in os.environ if name.startswith("TURNSTONE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TURNSTONE_DATA_DIR", str(tmp_path / "data"))
    return monkeypatch


@pytest.mark.usefixtures("environment")
def test_a_key_is_printed_alone_when_it_is_made_and_never_again(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["keys", "create", "laptop", "--principal", "ann", "--role", "admin", "--role", "staff", "--days", "1"])
    made = capsys.readouterr()
    assert FORM.fullmatch(made.out.strip())
    assert "shown this once" in made.err
    assert f"kept in data folder {os.environ['TURNSTONE_DATA_DIR']}\n" in made.err
    key_id = made.err.split()[0]
    for arguments in (["list"], ["revoke", key_id], ["list"]):
        cli.main(["keys", *arguments])
        shown = capsys.readouterr()
        assert made.out.strip() not in shown.out + shown.err
        assert shown.out.split()[0] == key_id
        assert "principal=ann  roles=admin,staff" in shown.out
    assert "revoked" in shown.out


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    "arguments", [["create", ""], ["create", "a\nb"], ["create", "x", "--principal", "p" * 5_000], ["revoke", " "]]
)
def test_a_bad_value_is_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["keys", *arguments])
    assert ended.value.code == 2
    assert f"turnstone keys {arguments[0]}: error: " in capsys.readouterr().err


@pytest.mark.usefixtures("environment")
def test_a_failed_command_prints_one_line() -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["keys", "revoke", "unknown"])
    assert str(ended.value.code).startswith("turnstone: ")


@pytest.mark.parametrize("auth", [None, "api_keys", "off"])
def test_a_new_key_that_no_server_would_require_is_noted(
    auth: str | None, environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if auth is not None:
        environment.setenv("TURNSTONE_AUTH", auth)
    cli.main(["keys", "create", "laptop"])
    noted = [line for line in capsys.readouterr().err.splitlines() if "TURNSTONE_AUTH=api_keys" in line]
    assert len(noted) == (auth != "api_keys")


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("days", ["0", "-1", "nan", "inf", "soon", "1e9"])
def test_an_invalid_time_is_refused(days: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["keys", "create", "x", "--days", days])
    assert f"--days: must be a number above 0 and at most 36500, not '{days}'" in capsys.readouterr().err


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("option", ["--tenant", "--principal", "--role", "--team", "--project", "--namespace"])
@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_refused(option: str, name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        cli.main(["keys", "create", "x", option, name])
    assert f"{option}: must not be empty" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


LOOKING = ["keys list", "keys revoke x", "turns list", "turns list --all", "turns cancel x", "turns cancel --all"]


@pytest.mark.parametrize("arguments", LOOKING)
@pytest.mark.parametrize("is_there", [True, False])
def test_a_list_without_a_database_names_the_folder_and_creates_nothing(
    environment: pytest.MonkeyPatch, tmp_path: Path, arguments: str, is_there: bool
) -> None:
    environment.delenv("TURNSTONE_DATA_DIR")
    environment.chdir(tmp_path)
    folder = tmp_path / ".turnstone"
    if is_there:
        folder.mkdir()
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments.split())
    where = f"there is no server data in {folder}; TURNSTONE_DATA_DIR names another folder"
    assert ended.value.code == f"turnstone: {where}"
    assert list(tmp_path.rglob("*")) == [folder] * is_there


def test_a_wrong_setting_is_named(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("TURNSTONE_COLOUR", "blue")
    with pytest.raises(SystemExit, match="TURNSTONE_COLOUR"):
        cli.main(["keys", "list"])


def test_with_a_table_named_nothing_is_made_here(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment.setenv("TURNSTONE_TABLE", "turns")
    with pytest.raises(SystemExit, match="TURNSTONE_DATA_DIR: there is no such setting"):
        cli.main(["keys", "list"])
    assert not (tmp_path / "data").exists()
