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
    """Return the caller without the id of the key, which is another with each key."""
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
class Place:
    keys: ApiKeys
    clock: MovedClock
    store: SqliteRangeStore
    folder: Path


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    store, clock = SqliteRangeStore(tmp_path / "turnstone.db"), MovedClock()
    yield Place(ApiKeys(ApiKeyStore(store), clock, RandomIds(), os.urandom), clock, store, tmp_path)
    store.close()


def test_a_key_names_whom_it_was_made_for(place: Place) -> None:
    _, token = place.keys.create(ANN, "laptop")
    assert nameless(place.keys.identity(token).caller) == ANN
    assert place.keys.identity(token).valid_until is None


def test_a_key_has_256_random_bits_and_no_two_are_the_same(place: Place) -> None:
    asked: list[int] = []

    def counted(size: int) -> bytes:
        asked.append(size)
        return os.urandom(size)

    keys = ApiKeys(ApiKeyStore(place.store), place.clock, RandomIds(), counted)
    tokens = {keys.create(ANN, "laptop")[1] for _ in range(20)}
    assert len(tokens) == 20
    assert set(asked) == {32}
    assert all(FORM.fullmatch(token) for token in tokens)


def test_no_byte_of_a_key_is_stored(place: Place) -> None:
    key, token = place.keys.create(ANN, "laptop")
    place.keys.identity(token)
    place.keys.revoke("acme", key.key_id)
    secret = token.removeprefix("ts_")
    stored = b"".join(path.read_bytes() for path in place.folder.iterdir())
    assert b"laptop" in stored
    for size in (43, 12):  # nor any part from which one could go on to guess
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
def test_what_is_not_exactly_the_key_names_nobody(place: Place, change: object) -> None:
    _, token = place.keys.create(ANN, "laptop")
    with pytest.raises(Unauthenticated):
        place.keys.identity(change(token))  # type: ignore[operator]


def test_the_hash_of_a_key_is_no_key(place: Place) -> None:
    place.keys.create(ANN, "laptop")
    (record,) = place.store.range(Range("acme|apikeys")).records
    hashed = re.search(rb'"hash":"(\w{64})"', record.body)
    assert hashed is not None
    for text in (hashed[1].decode(), "ts_" + hashed[1].decode()[:43]):
        with pytest.raises(Unauthenticated):
            place.keys.identity(text)


def test_a_key_is_good_until_it_expires(place: Place) -> None:
    _, token = place.keys.create(ANN, "laptop", timedelta(days=1))
    assert place.keys.identity(token).valid_until == place.clock.time + timedelta(days=1)
    place.clock.time += timedelta(days=1) - timedelta(microseconds=1)
    place.keys.identity(token)
    place.clock.time += timedelta(microseconds=1)
    with pytest.raises(Unauthenticated):
        place.keys.identity(token)


def test_a_revoked_key_names_nobody_and_the_others_still_do(place: Place) -> None:
    revoked, token = place.keys.create(ANN, "laptop")
    _, other = place.keys.create(ANN, "phone")
    place.clock.time += timedelta(seconds=5)
    assert place.keys.revoke("acme", revoked.key_id).revoked_at == place.clock.time
    with pytest.raises(Unauthenticated):
        place.keys.identity(token)
    assert nameless(place.keys.identity(other).caller) == ANN


def test_a_key_that_is_revoked_again_was_revoked_when_it_was(place: Place) -> None:
    key, _ = place.keys.create(ANN, "laptop")
    first = place.keys.revoke("acme", key.key_id)
    place.clock.time += timedelta(days=1)
    assert place.keys.revoke("acme", key.key_id) == first
    assert [listed.revoked_at for listed in place.keys.list("acme")] == [first.revoked_at]


def test_two_who_revoke_a_key_at_once_both_have_revoked_it(place: Place) -> None:
    key, token = place.keys.create(ANN, "laptop")
    write = place.store.write

    def late(operations: list[Operation], nonce: str | None = None) -> None:
        place.store.write = write  # type: ignore[method-assign]
        place.keys.revoke("acme", key.key_id)
        write(operations, nonce)

    place.store.write = late  # type: ignore[method-assign, assignment]
    assert place.keys.revoke("acme", key.key_id).revoked_at == place.clock.time
    with pytest.raises(Unauthenticated):
        place.keys.identity(token)


def test_a_list_shows_the_tenants_keys_in_the_order_they_were_made(place: Place) -> None:
    names = [f"key-{number}" for number in range(30)]
    for name in names:
        place.keys.create(ANN, name)
        place.clock.time += timedelta(milliseconds=1)
    place.keys.create(BOB, "bobs")
    listed = list(place.keys.list("acme"))
    assert [key.name for key in listed] == names
    assert {key.caller for key in listed} == {ANN}
    assert [key.name for key in place.keys.list("other")] == ["bobs"]
    assert list(place.keys.list("nobody")) == []


def test_another_tenants_key_is_not_found(place: Place) -> None:
    key, token = place.keys.create(ANN, "laptop")
    for tenant, key_id in (("other", key.key_id), ("acme", "unknown"), ("acme", "../x|y:z")):
        with pytest.raises(NotFound) as missing:
            place.keys.revoke(tenant, key_id)
        assert (missing.value.kind, missing.value.identifier) == ("API key", key_id)
    assert nameless(place.keys.identity(token).caller) == ANN


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
def test_a_key_by_which_nobody_could_be_known_is_not_made(
    place: Place, caller: Caller, name: str, valid_for: timedelta | None
) -> None:
    with pytest.raises(InvalidRequest):
        place.keys.create(caller, name, valid_for)
    assert list(place.keys.list(caller.tenant)) == []


def test_a_tenant_can_not_be_named_so_that_its_list_is_anothers_key(place: Place) -> None:
    place.keys.create(Caller(tenant="apikey:x", principal="eve"), "eves")
    assert place.store.get(Key("apikey:x", "#")) is None
    assert [key.name for key in place.keys.list("apikey:x")] == ["eves"]


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
    assert f"kept in data directory {os.environ['TURNSTONE_DATA_DIR']}\n" in made.err
    key_id = made.err.split()[0]
    for arguments in (["list"], ["revoke", key_id], ["list"]):
        cli.main(["keys", *arguments])
        told = capsys.readouterr()
        assert made.out.strip() not in told.out + told.err
        assert told.out.split()[0] == key_id
        assert "principal=ann  roles=admin,staff" in told.out
    assert "revoked" in told.out


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    "arguments", [["revoke", "unknown"], ["create", ""], ["create", "x", "--principal", "p" * 5_000]]
)
def test_what_can_not_be_done_is_told_in_a_line(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["keys", *arguments])
    assert str(ended.value.code).startswith("turnstone: ")


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("days", ["0", "-1", "nan", "inf", "soon", "1e9"])
def test_a_time_that_is_none_is_refused(days: str, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_who_looks_where_no_data_is_learns_where_that_was_and_leaves_nothing(
    environment: pytest.MonkeyPatch, tmp_path: Path, arguments: str, is_there: bool
) -> None:
    environment.delenv("TURNSTONE_DATA_DIR")
    environment.chdir(tmp_path)
    folder = tmp_path / ".turnstone"
    if is_there:
        folder.mkdir()
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments.split())
    where = f"there is no server data in {folder}; TURNSTONE_DATA_DIR names another directory"
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
