"""Agents and sessions of a running Turnstone, for measurements."""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.benchmarks.client_operations import Furnishing, Sizes, furnished
from tests.benchmarks.histories import Past, answer
from tests.benchmarks.processes import Server
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.store.layout.oversize import OversizeStore

# So short that a whole history of 1,000 turns is sent to the model within the default budget.
QUESTION, ANSWER = 32, 40


@dataclass(frozen=True, slots=True)
class OurHistory:
    """Writes sessions through the project's own stores."""

    past: Past

    def sessions(self, agent_id: str, number: int, turns: int) -> list[str]:
        return [self.past.session(agent_id, turns).session_id for _ in range(number)]


def our_furnishing(server: Server, folder: Path, model: str, sizes: Sizes) -> Furnishing:
    """Write agents and sessions for the server whose data is in the folder, and return them."""
    with server.connect() as connection, closing(SqliteRangeStore(folder / "turnstone.db")) as store:
        blobs = FileBlobStore(folder / "blobs")
        past = Past(OversizeStore(store, blobs), Random(5), lambda number: answer(number, ANSWER), QUESTION)
        return furnished(connection, OurHistory(past), model, sizes)
