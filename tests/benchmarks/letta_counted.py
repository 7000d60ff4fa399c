"""The cost at DynamoDB of messages to an agent of Letta's API, counted after any number of messages."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random

from tests.benchmarks.counted_store import Bill, CountedStore, without_extensions
from tests.benchmarks.histories import BEGAN_AT, Past, answer, question
from tests.benchmarks.workload import LONGER_THAN_ANY_HISTORY, PATIENCE_S, SteadyClock, ports_over
from tests.fakes.models.scripted import Reply, call
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.bootstrap.core import Core
from turnstone.dialects.letta.requests import CreateLettaAgent
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.letta.agents import main_session
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.turns.attempts import Attempt
from turnstone.engine.summary import TASK
from turnstone.ports.storage import RangeStore
from turnstone.settings.config import Settings
from turnstone.store.layout.oversize import OversizeStore

MODEL = "scripted"
MOST_REQUESTS = 60
TIMES = 6  # more than fill a segment of the context log


class Model:
    """Answers, and writes summaries: the first message after a long history has one, and its bill is not counted."""

    def __init__(self) -> None:
        self.answers = 0
        self.summaries = 0

    def __call__(self, request: InferenceRequest) -> Reply:
        if request.messages[0].content == TASK:
            self.summaries += 1
            return "They like tea."
        self.answers += 1
        return call("send_message", f"s{self.answers}", inner_thoughts="Hm.", message=answer(self.answers))


def bills_of_messages(folder: Path, turns: Sequence[int], budget_tokens: int) -> dict[int, list[Bill]]:
    """Return the bills of the next messages to an agent with so many turns, each with a question and an answer."""
    with closing(SqliteRangeStore(folder / "turnstone.db")) as sqlite:
        counted = CountedStore(sqlite)
        store = OversizeStore(counted, FileBlobStore(folder / "blobs"))
        return {length: list(_bills(store, counted, length, budget_tokens)) for length in turns}


def _bills(store: RangeStore, counted: CountedStore, length: int, budget_tokens: int) -> Iterator[Bill]:
    random = Random(f"letta {length}")
    model = Model()
    ports = ports_over(store, SteadyClock(BEGAN_AT + LONGER_THAN_ANY_HISTORY), random, *[model] * MOST_REQUESTS)
    core = Core(ports, Settings(context_tokens=budget_tokens), is_on_lambda=True)
    with closing(core.leases):
        body = CreateLettaAgent.model_validate({"llm_config": {"model": MODEL}})
        made = core.letta_agents.create(LOCAL_CALLER, body.to_new("Sam"), Attempt(fingerprint="created"))
        if length:
            Past(store, random).session(made.agent_id, length, main_session(made.agent_id, 0))
        counted_times = 0
        for number in range(MOST_REQUESTS // 2):
            if counted_times == TIMES:
                return
            counted.taken()
            summaries = model.summaries
            attempt = Attempt(fingerprint=random.randbytes(16).hex())
            messages = [UserMessage(content=question(number))]
            list(core.letta_messages.send(LOCAL_CALLER, made.agent_id, messages, attempt).wait())
            assert core.executor.wait(PATIENCE_S), "the run does not end"
            if summaries == model.summaries:
                counted_times += 1
                yield without_extensions(counted.taken())
