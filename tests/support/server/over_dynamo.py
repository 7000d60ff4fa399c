"""The server of one machine over DynamoDB and S3 in place of its disk; the rest is the server of `make run`.

`python -m tests.support.server.over_dynamo TABLE BUCKET` starts it. The supervisor of one machine reconciles its turns,
not a state machine, which has tests of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from functions.local import server as local
from tests.fakes.aws.aws_server import BUCKET, AwsProcess
from tests.support.server.servers import ServerProcess
from turnstone.adapters.aws.aws_clients import AwsClients
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.adapters.aws.s3 import S3BlobStore
from turnstone.bootstrap.places import local as bootstrap


class DynamoServerProcess(ServerProcess):
    """A server over a table of its own, which outlives it."""

    def __init__(self, folder: Path, aws: AwsProcess, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.table = aws.new_table()
        self._aws = aws

    def key_environment(self) -> dict[str, str]:
        return {**self._aws.environment, "TURNSTONE_TABLE": self.table}

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "tests.support.server.over_dynamo", self.table, BUCKET]

    def _environment(self) -> dict[str, str]:
        settings = {name: value for name, value in super()._environment().items() if name.startswith("TURNSTONE_")}
        return {**self._aws.environment, **settings}


def main(table: str, bucket: str) -> None:
    clients = AwsClients()
    dynamo, s3 = clients.client("dynamodb"), clients.client("s3")
    adapters: dict[str, Any] = {
        "SqliteRangeStore": lambda *_: DynamoRangeStore(dynamo, table),
        "FileBlobStore": lambda _: S3BlobStore(s3, bucket),
    }
    for name, adapter in adapters.items():
        assert hasattr(bootstrap, name), f"the server of one machine has no {name}"
        setattr(bootstrap, name, adapter)
    local.serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
