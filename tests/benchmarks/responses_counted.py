"""The cost at DynamoDB of responses that continue a chain, counted at its end after any length."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random

from tests.benchmarks.counted_store import Bill, CountedStore, without_extensions
from tests.benchmarks.histories import BEGAN_AT, Past, answer, question
from tests.benchmarks.workload import LONGER_THAN_ANY_HISTORY, PATIENCE_S, SteadyClock, ports_over
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.bootstrap.core import Core
from turnstone.dialects.openai.responses.requests import CreateResponse
from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.refs import SessionRef
from turnstone.domain.responses.addresses import response_id
from turnstone.domain.responses.requests import ListedResponse, SentRequest
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.storage import RangeStore
from turnstone.settings.config import Settings
from turnstone.store.agents.implicit import IMPLICIT
from turnstone.store.layout.keys import all_turns
from turnstone.store.layout.oversize import OversizeStore
from turnstone.store.layout.ranges import all_records
from turnstone.store.responses.responses import put_response

MODEL = "scripted"
# more than fill a segment of the context log
TIMES = 6
LONG_AFTER = timedelta(days=36_500)


class Chain:
    """Responses one after the other, of a process on AWS over this store."""

    def __init__(self, store: RangeStore, budget_tokens: int, responses: int, seed: int = 0) -> None:
        """Take how many responses will be requested at most, and a seed of their ids."""
        self._random = Random(f"chain {seed}")
        ports = ports_over(
            store, SteadyClock(BEGAN_AT + LONGER_THAN_ANY_HISTORY), self._random, *map(answer, range(responses))
        )
        self._core = Core(ports, Settings(context_tokens=budget_tokens), is_on_lambda=True)

    def respond(self, number: int, previous: str | None) -> str:
        """Run a response with all the work of its run, and return its id."""
        body = {"model": MODEL, "input": question(number), "previous_response_id": previous, "truncation": "auto"}
        new = CreateResponse.model_validate(body).to_new()
        attempt = Attempt(fingerprint=self._random.randbytes(16).hex())
        broadcast = self._core.responses.start(LOCAL_CALLER, new, attempt).broadcast
        list(broadcast.wait())
        assert self._core.executor.wait(PATIENCE_S), "the run does not end"
        return response_id(broadcast.ref)

    def close(self) -> None:
        self._core.leases.close()


def bills_along_chains(folder: Path, lengths: Sequence[int], budget_tokens: int) -> dict[int, list[Bill]]:
    """Return the bills of the next responses of a chain with so many, by its length."""
    with _counted(folder) as (store, counted):
        return {length: list(_bills(store, counted, length, budget_tokens)) for length in lengths}


def bills_along_forks(folder: Path, forks: int, budget_tokens: int) -> list[Bill]:
    """Return the bill of each fork of a fork, of so many one after the other."""
    bills = []
    with _counted(folder) as (store, counted), closing(Chain(store, budget_tokens, 2 * forks + 1)) as chain:
        response = chain.respond(0, None)
        for number in range(1, forks + 1):
            chain.respond(2 * number - 1, response)
            counted.taken()
            response = chain.respond(2 * number, response)
            bills.append(without_extensions(counted.taken()))
    return bills


def _bills(store: RangeStore, counted: CountedStore, length: int, budget_tokens: int) -> Iterator[Bill]:
    response = stored_chain(store, length, length)
    with closing(Chain(store, budget_tokens, TIMES, length)) as chain:
        for number in range(TIMES):
            counted.taken()
            response = chain.respond(number, response)
            yield without_extensions(counted.taken())


@contextmanager
def _counted(folder: Path) -> Iterator[tuple[RangeStore, CountedStore]]:
    """Yield a store in the folder, and the one below it that counts."""
    with closing(SqliteRangeStore(folder / "turnstone.db")) as sqlite:
        counted = CountedStore(sqlite)
        yield OversizeStore(counted, FileBlobStore(folder / "blobs")), counted


def stored_chain(store: RangeStore, length: int, seed: int, model: str = MODEL) -> str:
    """Store a chain of so many responses and return the id of its last one, the only one that can be read."""
    ref: SessionRef = Past(store, Random(seed)).session(IMPLICIT, length)
    *_, newest = all_records(store, all_turns(ref))
    turn = ref.turn(newest.key.sk.rpartition(":")[2])
    listed = ListedResponse(
        agent_id=IMPLICIT,
        session_id=ref.session_id,
        order=turn.turn_id,
        model=model,
        ends_at=BEGAN_AT + LONG_AFTER,
        stamp=owner_of(LOCAL_CALLER),
    )
    store.write(put_response(turn, SentRequest(echo={"model": model}), listed))
    return response_id(turn)
