"""Processes over one store, on SQLite and on DynamoDB alike: the products of the fixture `make`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.fakes.models.scripted import Scripted
from tests.support.aws.state_machine import BUCKET, TABLE, Bench
from tests.support.aws.supervised import staged
from tests.support.engine.harness import Harness, Server

Make = Callable[..., Server]
DICE = {"dice": {"roll": lambda arguments: "4"}}


def made_over_sqlite(folder: Path) -> Iterator[Make]:
    """Yield a factory of processes, each with a script for its model, and settings of its own."""
    made: list[Harness] = []

    def harness(*script: Scripted, **settings: Any) -> Harness:
        first = made[0] if made else None
        made.append(first.another(script, DICE, **settings) if first else Harness(folder, script, DICE, **settings))
        return made[-1]

    yield harness
    for first in made[:1]:
        first.close()


def made_over_dynamodb(bench: Bench) -> Iterator[Make]:
    """Yield the same over DynamoDB, where processes are Lambdas, and over an empty table and bucket."""
    for item in bench.dynamo.scan(TableName=TABLE)["Items"]:
        bench.dynamo.delete_item(TableName=TABLE, Key={"pk": item["pk"], "sk": item["sk"]})
    for entry in bench.s3.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        bench.s3.delete_object(Bucket=BUCKET, Key=entry["Key"])
    for stage in staged(bench):
        yield partial(stage.process, tools=DICE)
