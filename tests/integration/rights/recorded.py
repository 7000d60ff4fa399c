"""Recorded calls as a file: hashes, ids and names of callers become a star, so that two recordings are the same."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.integration.rights.calls import BUCKET_ARN, KEYS, Call, kind_of
from tests.integration.rights.policies import Grant, Rights
from tests.integration.rights.scenarios import run_all
from tests.integration.rights.stage import stage
from tests.support.aws.cloudformation import Template

FILE = Path(__file__).with_name("recorded.json")
PLAYS = Path(__file__).with_name("plays.json")
Recorded = dict[str, list[Call]]
Plays = dict[str, Recorded]


def record(is_chosen: Callable[[str], bool] = lambda _: True) -> Plays:
    """Return the calls of each function in each chosen play, in order."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)  # as a Lambda has one
    logging.disable(logging.CRITICAL)  # the scenarios fail on purpose
    try:
        with stage() as played:
            played.is_chosen = is_chosen
            run_all(played)
            return {play: _in_order(calls) for play, calls in played.plays.items()}
    finally:
        logging.disable(logging.NOTSET)
        asyncio.set_event_loop(None)
        loop.close()


def joined(plays: Plays) -> Recorded:
    """Return the calls of each function in all plays."""
    names = sorted({name for calls in plays.values() for name in calls})
    return {name: sorted({call for calls in plays.values() for call in calls.get(name, ())}) for name in names}


def enough(plays: Plays) -> list[str]:
    """Return plays whose calls are those of all: always the one with the most calls that the others lack."""
    left = {play: {(name, call) for name in calls for call in calls[name]} for play, calls in plays.items()}
    chosen = []
    while any(left.values()):
        best = max(left, key=lambda play: len(left[play]))
        chosen.append(best)
        found = left.pop(best)
        left = {play: calls - found for play, calls in left.items()}
    plain = {play.split(",")[0] for play in chosen if not play.endswith("payloads lost")}
    return [play for play in plays if play in chosen or play in plain]  # the plain play counts the writes


def _in_order(called: Mapping[str, Iterable[Call]]) -> Recorded:
    return {name: sorted({each for call in called[name] for each in _general(call)}) for name in sorted(called)}


def chosen_plays() -> list[str]:
    """Return the plays that a run of the tests repeats."""
    names: list[str] = json.loads(PLAYS.read_text())
    return names


def load() -> Recorded:
    """Return the stored recording."""
    stored: dict[str, list[Any]] = json.loads(FILE.read_text())
    return {name: [_call(each) for each in calls] for name, calls in stored.items()}


def save(plays: Plays) -> None:
    """Store the recording, and the names of plays that are enough for it."""
    _write(joined(plays), enough(plays))


def add(plays: Plays) -> None:
    """Add the calls to the stored ones, and store the names of plays whose calls the others lack."""
    stored = load()
    kept = [play for play in chosen_plays() if play not in plays]
    _write(joined({"": stored, **plays}), kept + [play for play in enough({"": stored, **plays}) if play])


def _write(recorded: Recorded, chosen: list[str]) -> None:
    PLAYS.write_text(json.dumps(chosen, indent=2) + "\n")
    written = {
        name: [[call.action, call.resource, dict(call.context)] for call in calls] for name, calls in recorded.items()
    }
    lines = [
        f"  {json.dumps(name)}: [\n" + ",\n".join(f"    {json.dumps(each)}" for each in calls) + "\n  ]"
        for name, calls in written.items()
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def compared(made: Template, recorded: Recorded) -> dict[str, tuple[list[Call], list[Grant]]]:
    """Return each function's calls without a right, and its rights without a call."""
    found = {}
    for name in made.functions:
        rights, calls = Rights(made, name), recorded.get(name, [])
        found[name] = rights.missing(calls), rights.surplus(calls)
    return found


def _general(call: Call) -> Iterator[Call]:
    """Yield the call for each kind of keys that it names: the keys named together differ from run to run."""
    in_blobs = call.resource.startswith(f"{BUCKET_ARN}/blobs/")
    bare = Call(call.action, f"{BUCKET_ARN}/blobs/…" if in_blobs else call.resource)
    if not call.context:
        yield bare
    for key, values in call.context:
        for value in values:
            yield bare._replace(context=((key, (kind_of(value) if key == KEYS else "blobs/…",)),))


def _call(fields: list[Any]) -> Call:
    action, resource, context = fields
    return Call(action, resource, tuple((key, tuple(values)) for key, values in context.items()))
