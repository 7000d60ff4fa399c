"""Recorded calls as a file: hashes, ids and names of callers become a star, so that two recordings are the same."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.integration.rights.calls import BUCKET_ARN, KEYS, Call, kind_of
from tests.integration.rights.policies import Grant, Rights
from tests.integration.rights.scenarios import run_all
from tests.integration.rights.stage import stage
from tests.support.aws.cloudformation import Template

FILE = Path(__file__).with_name("recorded.json")
Recorded = dict[str, list[Call]]


def record() -> Recorded:
    """Return the AWS calls of each function, in order, by running every scenario."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)  # as a Lambda has one
    logging.disable(logging.CRITICAL)  # the scenarios fail on purpose
    try:
        with stage() as played:
            run_all(played)
            called = sorted(played.cloud.calls.items())
            return {name: sorted({each for call in calls for each in _general(call)}) for name, calls in called}
    finally:
        logging.disable(logging.NOTSET)
        asyncio.set_event_loop(None)
        loop.close()


def load() -> Recorded:
    """Return the stored recording."""
    stored: dict[str, list[Any]] = json.loads(FILE.read_text())
    return {name: [_call(each) for each in calls] for name, calls in stored.items()}


def save(recorded: Mapping[str, Iterable[Call]]) -> None:
    """Store the recording."""
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
