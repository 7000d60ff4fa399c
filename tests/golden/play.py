"""Run scenarios over either store and compare the results with their transcripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import unified_diff
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from tests.golden.normal import tokens_in
from tests.golden.product import failures_noted, small_records
from tests.golden.records import Left, left_in_dynamodb, left_in_sqlite
from tests.golden.world import World
from tests.integration.crash_matrix.databases import (
    BUCKET,
    Database,
    Make,
    MotoDatabase,
    SqliteDatabase,
    moto_databases,
)

TRANSCRIPTS = Path(__file__).parent / "transcripts"
SETS = ("wire", "records")
STORES = ("sqlite", "dynamodb")
SHOWN_LINES = 40
SAME = "the same as "


class Played(Protocol):
    """The result of a scenario."""

    def texts(self, constant: Any) -> tuple[str, str, set[str]]:
        """Return both transcripts, normalised except for the constant tokens, and all tokens in them."""


@dataclass(frozen=True)
class Scenario:
    """One scenario.

    Attributes:
        name: path of its transcripts.
        act: runs it in a world.
        stands_for: the tests whose behaviour it records.
        has_small_records: payloads of a few kilobytes are stored outside of their records.
        only: the stores it runs over.
        fails_by: kinds of failures that its turns meet.
        play: runs it without a world, over a database, in a folder, with a seed.
    """

    name: str
    act: Callable[[World], object]
    stands_for: tuple[str, ...] = ()
    has_small_records: bool = False
    only: tuple[str, ...] = STORES
    fails_by: tuple[str, ...] = ()
    play: Callable[[Database, Path, int], Played] | None = None


class Stage:
    """The stores, and the worlds over them."""

    def __init__(self, folder: Path, make: Make) -> None:
        self._folder = folder
        self._make = make

    def play(self, scenario: Scenario, store: str, seed: int) -> Played:
        """Run a scenario; its server has ended on return."""
        with TemporaryDirectory(dir=self._folder) as folder, pytest.MonkeyPatch.context() as patch:
            if scenario.has_small_records:
                small_records(patch)
            database = SqliteDatabase(Path(folder)) if store == "sqlite" else self._make()
            try:
                with failures_noted() as kinds:
                    played = (scenario.play or partial(played_in_a_world, scenario.act))(database, Path(folder), seed)
                assert kinds >= {*scenario.fails_by}, f"turns have failed by {kinds} only"
                return played
            finally:
                if store != "sqlite":
                    database.close()


def played_in_a_world(act: Callable[[World], object], database: Database, folder: Path, seed: int) -> World:
    """Run an act in a new world, which is returned when its server has ended."""
    with World(folder, lambda _: database.connect(), seed, lambda: left_in(database, folder)) as world:
        act(world)
    return world


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    with moto_databases(folder) as make:
        yield Stage(folder, make)


def left_in(database: Database, folder: Path) -> Left:
    """Return the contents of a database."""
    if not isinstance(database, MotoDatabase):
        return left_in_sqlite(folder)
    items: list[Mapping[str, Any]] = []
    start: dict[str, Any] = {}
    while True:
        page = database._dynamo.scan(TableName=database._name, **start)
        items += page["Items"]
        if "LastEvaluatedKey" not in page:
            break
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    objects = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[BUCKET].keys
    return left_in_dynamodb(items, {name.removeprefix("blobs/"): held.value for name, held in objects.items()})


def files_of(name: str, store: str, of: str) -> list[Path]:
    """Return the possible files of a transcript: for that store alone, then for both."""
    path = TRANSCRIPTS / of / name
    return [path.with_name(f"{path.name}.{store}.txt"), path.with_name(f"{path.name}.txt")]


def expected(name: str, store: str) -> tuple[str, str]:
    """Return the committed transcripts of a scenario over a store."""
    wire, records = (next((read(f) for f in files_of(name, store, of) if f.exists()), "") for of in SETS)
    return wire, records


def read(file: Path) -> str:
    """Return the text of a transcript; a file may refer to another with the same text."""
    text = file.read_bytes().decode()  # with the ends of lines as they were recorded
    same = text.removeprefix(SAME).strip()
    return text if same == text.strip() else (TRANSCRIPTS / same).read_bytes().decode()


def with_links(files: Mapping[Path, str]) -> dict[Path, str]:
    """Return the files, each text once: later files with the same text refer to the first."""
    found: dict[Path, str] = {}
    first: dict[tuple[str, str], Path] = {}
    for path, text in sorted(files.items()):
        of = path.relative_to(TRANSCRIPTS).parts[0]
        same = first.setdefault((of, text), path)
        found[path] = text if same == path else f"{SAME}{same.relative_to(TRANSCRIPTS)}\n"
    return found


def differences(scenario: Scenario, store: str, played: Played) -> str:
    """Return the diff between the committed transcripts and a result, empty if they are equal."""
    committed = expected(scenario.name, store)
    wire, records, _ = played.texts(frozenset(tokens_in("".join(committed))))
    diff: list[str] = []
    for of, before, now in zip(SETS, committed, (wire, records), strict=True):
        lines = unified_diff(before.splitlines(), now.splitlines(), f"{of}/{scenario.name}", f"now, {store}", "", "", 2)
        diff += islice(lines, SHOWN_LINES)
    return "\n".join(diff)


def written(scenario: Scenario, stage: Stage) -> dict[Path, str]:
    """Run a scenario at least twice, with different ports and seeds, and return its transcripts by path.

    Tokens that are equal in all runs, such as the hash of a constant, stay in the text. Raises AssertionError if two
    runs over one store differ.
    """
    stores = scenario.only
    plays = [stage.play(scenario, store, seed) for seed, store in enumerate(stores)]
    texts = normalised(plays)
    if len({*texts}) > 1 or len(stores) == 1:
        plays += [stage.play(scenario, store, len(stores) + seed) for seed, store in enumerate(stores)]
        both = normalised(plays)
        texts = both[: len(stores)]
        assert texts == both[len(stores) :], f"{scenario.name} is not the same twice"
    found: dict[Path, str] = {}
    for index, of in enumerate(SETS):
        versions = {store: both[index] for store, both in zip(stores, texts, strict=True)}
        is_one = len({*versions.values()}) == 1
        for store, text in versions.items() if any(versions.values()) else ():
            own, common = files_of(scenario.name, store, of)
            found[common if is_one else own] = text
    return found


def normalised(plays: Sequence[Played]) -> list[tuple[str, str]]:
    """Return the transcripts of each result; tokens that all results share stay in the text."""
    constant = frozenset.intersection(*(frozenset(played.texts(())[2]) for played in plays))
    return [played.texts(constant)[:2] for played in plays]
