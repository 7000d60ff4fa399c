"""Reading a session takes memory that does not grow with its turns, even for a slow reader.

Covers: store/sessions/wire_turns
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import httpx
import pytest

from tests.benchmarks.histories import Past
from tests.benchmarks.prose import prose
from tests.fakes.aws.aws_server import BUCKET, AwsProcess
from tests.support.cases import rest_at_night
from tests.support.server.over_dynamo import DynamoServerProcess
from tests.support.server.servers import ServerProcess
from tests.support.server.stores import STORES, server_over
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.adapters.aws.s3 import S3BlobStore
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.refs import SessionRef
from turnstone.ports.storage import RangeStore
from turnstone.store.layout.oversize import OversizeStore
from turnstone.store.sessions.turn_records import put_turn

TURN_CHARACTERS = 20_000
LENGTHS = (500, 1_000)  # both of them more than the server reads at once
TEXTS = [prose(seed, TURN_CHARACTERS) for seed in range(20)]
LEFT_ALONE_S = 0.5
KB = 1024

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs the peak memory that Linux reports"),
]


@pytest.fixture(params=rest_at_night(STORES, always=("sqlite",)))
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MALLOC_ARENA_MAX", "1")  # otherwise glibc keeps memory for each thread
        with server_over(request.param, tmp_path, request) as server:
            yield server


@pytest.fixture
def store(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[RangeStore]:
    """The server's store, to write to."""
    if isinstance(server, DynamoServerProcess):
        aws: AwsProcess = request.getfixturevalue("aws")
        with closing(DynamoRangeStore(aws.client("dynamodb"), server.table)) as table:
            yield OversizeStore(table, S3BlobStore(aws.client("s3"), BUCKET))
    else:
        with closing(SqliteRangeStore(server.data_dir / "turnstone.db")) as sqlite:
            yield OversizeStore(sqlite, FileBlobStore(server.data_dir / "blobs"))


def peak_kb(server: ServerProcess, act: Callable[[], object]) -> int:
    """Return the server's peak memory while `act` ran."""
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")  # forgets the peak so far
    act()
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmHWM:")]
    return int(line.split()[1])


def read_slowly(server: ServerProcess, ref: SessionRef) -> int:
    """Read a session, stopping once while there is much to come; return how many turns it has."""
    path = f"{server.url}/v1/agents/{ref.agent_id}/session/{ref.session_id}"
    with httpx.stream("GET", path, timeout=60) as response:
        assert response.status_code == 200
        parts = response.iter_bytes()
        body = [next(parts)]
        time.sleep(LEFT_ALONE_S)
        body += parts
    return len(json.loads(b"".join(body))["turns"])


def filled(past: Past, length: int) -> SessionRef:
    """Return a session with so many turns, each written by itself: moto copies its tables for every transaction."""
    ref = past.session(past.agent("offline"), turns=0)
    for number in range(length):
        past.store.write([put_turn(ref, past.turn(ref, number))])
    return ref


def test_a_session_twice_as_long_is_read_in_the_same_memory(server: ServerProcess, store: RangeStore) -> None:
    past = Past(store, Random(3), lambda number: TEXTS[number % len(TEXTS)])
    peaks_kb = []
    for length in LENGTHS:
        ref = filled(past, length)
        assert read_slowly(server, ref) == length  # also loads the modules that are loaded only once
        peaks_kb.append(peak_kb(server, lambda ref=ref: read_slowly(server, ref)))
    more_bytes = (LENGTHS[1] - LENGTHS[0]) * TURN_CHARACTERS
    assert (peaks_kb[1] - peaks_kb[0]) * KB < more_bytes / 2, peaks_kb
