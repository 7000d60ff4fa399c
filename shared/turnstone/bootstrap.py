"""The only place that builds adapters and puts them into the services."""

import logging
import time
from dataclasses import dataclass
from datetime import timedelta

from turnstone.adapters.files import FileBlobStore
from turnstone.adapters.local_supervisor import LocalSupervisor
from turnstone.adapters.offline import OfflineInference
from turnstone.adapters.sqlite import SqliteRangeStore
from turnstone.adapters.system import RandomIds, SystemClock
from turnstone.adapters.tools.builtin import BuiltinTools
from turnstone.config import Settings
from turnstone.ports import Clock, IdGenerator, Inference, RangeStore, Supervisor, ToolRuntime
from turnstone.services.agents import Agents
from turnstone.services.application import Application
from turnstone.services.broadcast import Broadcasts
from turnstone.services.executor import TurnExecutor
from turnstone.services.leases import LeaseKeeper
from turnstone.services.recovery import Recovery
from turnstone.services.running import RunnerDeps, TurnRunner
from turnstone.services.sessions import Sessions
from turnstone.services.turns import Turns
from turnstone.store.agents import AgentStore
from turnstone.store.oversize import OversizeStore
from turnstone.store.sessions import SessionStore
from turnstone.store.turns import TurnStore

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ports:
    """One adapter for every port; tests put their doubles here."""

    store: RangeStore
    inference: Inference
    tools: ToolRuntime
    supervisor: Supervisor
    clock: Clock
    ids: IdGenerator


@dataclass(frozen=True, slots=True)
class Core:
    """The services over some ports, with what has to be started and stopped around them."""

    application: Application
    recovery: Recovery
    turns: TurnStore
    leases: LeaseKeeper
    executor: TurnExecutor


class LocalServer:
    """Everything a server on one machine consists of, over SQLite in the data directory."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sqlite = SqliteRangeStore(settings.data_dir / "turnstone.db")
        store = OversizeStore(self._sqlite, FileBlobStore(settings.data_dir / "blobs"))
        clock = SystemClock()
        self._supervisor = LocalSupervisor(clock)
        ports = Ports(store, build_inference(settings), BuiltinTools(clock), self._supervisor, clock, RandomIds())
        self.core = build_core(ports, settings)
        self._stop_by: float | None = None

    def start(self) -> None:
        """Attend to the turns that were open when the last process ended, and from now on."""
        self._supervisor.start(self.core.recovery.attend, self.core.turns.open_turns())

    def begin_to_stop(self) -> None:
        """Take no more turns; from now on the running ones have their time to finish."""
        self._stop_by = time.monotonic() + self._settings.drain_seconds
        running = self.core.executor.refuse_more()
        if running:
            log.info("stopping: waiting %g s at most for %d running turns", self._settings.drain_seconds, running)

    def stop(self) -> None:
        """Wait for running turns while there is time, then stop. What is still running is left to its lease."""
        if self._stop_by is None:
            self.begin_to_stop()
        have_ended = self.core.executor.wait(max(0.0, (self._stop_by or 0.0) - time.monotonic()))
        self._supervisor.close()
        self.core.leases.close()
        if have_ended:
            self._sqlite.close()


def build_inference(settings: Settings) -> Inference:
    """Return the model the settings name, the offline one if they name none."""
    if settings.model_url is None:
        return OfflineInference()
    from turnstone.adapters.openai_compatible import OpenAICompatibleInference  # urllib3: only where a model is called

    return OpenAICompatibleInference(settings.model_url, settings.model_api_key, settings.model_timeout_seconds)


def build_core(ports: Ports, settings: Settings) -> Core:
    """Return the services over these ports."""
    turns = TurnStore(ports.store)
    leases = LeaseKeeper(turns, ports.clock, timedelta(seconds=settings.lease_seconds))
    deps = RunnerDeps(
        turns=turns,
        inference=ports.inference,
        tools=ports.tools,
        supervisor=ports.supervisor,
        clock=ports.clock,
        ids=ports.ids,
        leases=leases,
        broadcasts=Broadcasts(),
        context_tokens=settings.context_tokens,
        await_duration=timedelta(seconds=settings.await_seconds),
    )
    executor = TurnExecutor(settings.max_running_turns)
    runner = TurnRunner(deps)
    application = Application(
        agents=Agents(AgentStore(ports.store), ports.tools, ports.clock, ports.ids),
        sessions=Sessions(SessionStore(ports.store), deps),
        turns=Turns(deps, runner, executor),
        inference=ports.inference,
        tools=ports.tools,
    )
    return Core(application, Recovery(deps, runner, executor), turns, leases, executor)
