"""The model and the server that most of these tests need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fakes.models.openai_server import ModelServer
from tests.support.server.served import Served, answer_of


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer(answer_of) as server:
        yield server


@pytest.fixture
def served(model: ModelServer, tmp_path: Path) -> Iterator[Served]:
    with ExitStack() as stack:
        yield Served(stack, tmp_path, model)
