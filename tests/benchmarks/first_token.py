"""The time of a word from the model to the client, through the server and its work on the way."""

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks.figures import Figure, of_times
from tests.benchmarks.http_client import Connection, is_whole
from tests.benchmarks.processes import turnstone
from tests.benchmarks.turns import Asker, encoded_turn
from tests.fakes.models.openai_answers import Item, Pause, ending, text_chunk
from tests.fakes.models.openai_server import ModelServer

BAR_MS = 2
TIMES = 150
WARM_UP = 20
THINKS_S = 0.02
WORD = re.compile(rb'"text":"([0-9.]+)"')
READ_BYTES = 64 * 1024


def first_tokens(folder: Path) -> Iterator[Figure]:
    """Yield the delay of the model's first word to the client. The word is the time at which it was sent."""
    with ModelServer(_the_time) as model, turnstone(folder, model.port) as server, server.connect() as connection:
        asker = Asker(connection)
        agent_id = asker.new_agent("a clock")
        took_s = [_took_s(connection, agent_id, asker.new_session(agent_id)) for _ in range(WARM_UP + TIMES)]
    yield of_times("first token: at the client after the model sent it", took_s[WARM_UP:], bar_ms=BAR_MS)


def _the_time(_: Mapping[str, Any]) -> Iterator[Item]:
    yield Pause(THINKS_S)
    yield text_chunk(f"{time.monotonic():.6f}")
    yield Pause(THINKS_S)
    yield from ending("stop")


def _took_s(connection: Connection, agent_id: str, session_id: str) -> float:
    connection.send(encoded_turn(agent_id, session_id, "What time is it?"))
    answer = bytearray()
    took_s: float | None = None
    while not is_whole(answer):
        answer += connection.receive(READ_BYTES)
        if took_s is None and (word := WORD.search(answer)):
            took_s = time.monotonic() - float(word[1])
    assert took_s is not None, bytes(answer)
    return took_s
