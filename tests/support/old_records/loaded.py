"""Worlds over the records of a fixture, and the kinds of its records."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.golden.world import World
from tests.integration.crash_matrix.databases import KINDS, Database
from tests.support.old_records.rows import (
    Fixture,
    Line,
    attributes_of,
    based,
    body_of,
    fixture,
    payloads_in,
    put_into,
    records_in,
)
from tests.support.old_records.scene import Model, world_over

ID, ORDER, SESSION = "[^|:\n]+", "[^|:\n]+", r"[^|\n]+\|session:[^|:\n]+:[^|:\n]+"
PATTERNS = {
    kind: re.compile(pattern)
    for kind, pattern in {
        "agent": rf"[^|]+\|agent:{ID}\n#",
        "agent_list": rf"[^|]+\|agents\n{ORDER}",
        "session_list": rf"[^|]+\|session:{ID}\n{ORDER}",
        "session": rf"{SESSION}\nctx:~",
        "segment": rf"{SESSION}\nctx:\d{{10}}",
        "turn": rf"{SESSION}\nturn:{ORDER}",
        "step": rf"{SESSION}\nstep:{ORDER}:\d{{6}}",
        "attachment": rf"{SESSION}\nattachment:{ID}",
        "completion": rf"[^|]+\|completion:{ID}\n#",
        "completion_list": rf"[^|]+\|completions\n{ID}",
        "idempotency": rf"[^|]+\|idempotency:[0-9a-f]+\n#|{SESSION}\nidempotency:[0-9a-f]+",
        "api_key": r"apikey:[0-9a-f]+\n#",
        "api_key_list": rf"[^|]+\|apikeys\n{ID}",
        "job": r"job:[0-9T.]+\|[^|]+\|\w+:.*\n#",
        "sweep": r"sweep\n#",
        "registered": r"[^|]+\|(?:models|shields|toolgroups)\nid:.+",
        "directory": r"[^|]+\|directory\n#",
        "usage": rf"[^|]+\|usage:[\d-]+:\d\n{ID}:{ID}",
    }.items()
}


class Loaded(NamedTuple):
    """A world over a store with the records of a fixture; no server runs in it yet."""

    world: World
    held: Fixture
    records: Callable[[], tuple[dict[str, Any], ...]]
    payloads: Callable[[], dict[str, bytes]]
    model: Model


@contextmanager
def loaded(
    version: str, store: str, folder: Path, changed: Callable[[Fixture], Fixture] = lambda held: held
) -> Iterator[Loaded]:
    """Yield a world over a new store with the records of a fixture, which `changed` may replace."""
    held, model = changed(fixture(version, store)), Model()
    model.hold.open()
    with KINDS[store](folder) as make:
        database: Database = make()
        own_folder = getattr(database, "_folder", folder)
        put_into(database, own_folder, held)
        with world_over(database, own_folder, 2) as world:
            world.clock.at = held.at
            yield Loaded(
                world, held, lambda: records_in(database, own_folder), lambda: payloads_in(database, own_folder), model
            )


def private_of(record: Line, held: Fixture) -> dict[str, Any]:
    """Return the private fields of a framed record, read without the product."""
    fields: dict[str, Any] = json.loads(whole_body(record, held).partition(b"\n")[0])
    return fields


def whole_body(record: Line, held: Fixture) -> bytes:
    """Return the body, unpacked."""
    codec, body = attributes_of(record).get("codec", ""), body_of(record)
    if "blob" in codec:
        body = held.payloads[json.loads(body)["name"]]
    return zlib.decompress(body) if "zlib" in codec else body


def as_newer(record: Line, held: Fixture, **attributes: Any) -> Line:
    """Return the record as a newer version might have stored it: its format has a higher number."""
    body = whole_body(record, held)
    number = b'{"v":2,'
    rest = body.removeprefix(b'{"v":1}').removeprefix(b'{"v":1,')
    if len(rest) == len(body):
        rest = body[1:]
    elif body.startswith(b'{"v":1}'):
        number, rest = b'{"v":2}', body[len(number) :]
    kept = {name: value for name, value in attributes_of(record).items() if name != "codec"}
    newer = {**record, "attributes": {**kept, **attributes}, "base64": based(number + rest)}
    newer.pop("body", None)
    return newer
