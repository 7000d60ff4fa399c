"""Servers over either store, for tests of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.server.over_dynamo import DynamoServerProcess
from tests.support.server.servers import ServerProcess

STORES = ("sqlite", "dynamodb")


def server_over(store: str, folder: Path, request: pytest.FixtureRequest, **settings: Any) -> ServerProcess:
    """Return a server that was not started yet; the AWS it may need is the fixture `aws`."""
    if store == "sqlite":
        return ServerProcess(folder, **settings)
    return DynamoServerProcess(folder, request.getfixturevalue("aws"), **settings)
