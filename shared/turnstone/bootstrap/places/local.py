"""A server on one machine, over SQLite."""

import logging
import os
import time
from datetime import datetime, timedelta
from threading import Thread

from turnstone.adapters.machine.jobs_by_kind import JobsByKind
from turnstone.adapters.machine.local_jobs import LocalJobs
from turnstone.adapters.machine.local_supervisor import LocalSupervisor
from turnstone.adapters.machine.repeated import Repeated
from turnstone.adapters.machine.system import RandomIds, SystemClock
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.folders import make_private_folder
from turnstone.adapters.sqlite.reserve import Reserve, ReservingBlobStore
from turnstone.adapters.sqlite.sqlite import EXPIRED_AT_ONCE, SqliteRangeStore
from turnstone.adapters.sqlite.sqlite_failures import PAYLOADS
from turnstone.adapters.webhooks.guarded_sender import GuardedSender
from turnstone.bootstrap.callers import build_authenticator
from turnstone.bootstrap.core import Core
from turnstone.bootstrap.memory_providers import local_bank_providers
from turnstone.bootstrap.models import local_provider_deps
from turnstone.bootstrap.places.local_models import local_models
from turnstone.bootstrap.places.local_shields import local_shields
from turnstone.bootstrap.places.operator import DATABASE
from turnstone.bootstrap.services.adapters import Ports
from turnstone.bootstrap.tools import local_tool_kinds
from turnstone.domain.jobs import JobKind, by_tenants
from turnstone.domain.refs import TurnRef
from turnstone.services.threads.slots import QueueLimits
from turnstone.settings.config import InvalidSettings, variable_of
from turnstone.settings.local_settings import LocalSettings
from turnstone.store.cleanup.payload_sweep import PayloadSweep
from turnstone.store.layout.oversize import OversizeStore

LONGEST_JOB = timedelta(seconds=1)  # added to a stop by one job
LONGEST_INGEST = timedelta(minutes=10)  # ends early at a stop
INGEST: JobKind = "ingest_document"
EVENTS: tuple[JobKind, ...] = ("send_event", "send_webhook")
PARALLEL_EVENTS = 8
log = logging.getLogger(__name__)
SWEEP_EVERY_S = 300.0
EXPIRED_BATCHES = 60  # a sweep: 200 records a second, more than one machine writes for long
LONGEST_SWEEP = timedelta(seconds=60)
CLOSING_S = 1.0  # at least, for closing background work after the turns


class LocalServer:
    """A server on one machine: its services and background work, over SQLite in the data directory."""

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        _make_data_folder(settings)
        self._reserve = Reserve(settings.data_dir)
        self._sqlite = SqliteRangeStore(settings.data_dir / DATABASE, settings.store_wait_seconds, self._reserve)
        blobs = FileBlobStore(settings.data_dir / PAYLOADS)
        store = OversizeStore(self._sqlite, ReservingBlobStore(blobs, self._reserve))
        clock = SystemClock()
        self._supervisor = LocalSupervisor(clock)
        models = local_models(settings)
        self._jobs, self._ingest_jobs = LocalJobs("jobs"), LocalJobs("ingest")
        self._event_jobs = LocalJobs("webhooks", at_once=PARALLEL_EVENTS)
        self._webhook_sender = GuardedSender(settings.fetch_allow)
        self._tools = local_tool_kinds(settings, models.catalogue, clock)
        self._bank_providers = local_bank_providers(models.catalogue, local_provider_deps(settings).aws)
        ports = Ports(
            store=store,
            inference=models.inference,
            tools=self._tools,
            supervisor=self._supervisor,
            clock=clock,
            ids=RandomIds(),
            jobs=JobsByKind(self._jobs, {INGEST: self._ingest_jobs, **dict.fromkeys(EVENTS, self._event_jobs)}),
            shields=local_shields(models.inference),
            embeddings=models.embeddings,
            bank_providers=self._bank_providers,
            webhook_sender=self._webhook_sender,
            catalogue=models.catalogue,
        )
        limits = QueueLimits(
            settings.place_wait_seconds, settings.max_waiting_requests, settings.tenant_waiting_requests
        )
        self.core = Core(ports, settings, queue_limits=limits).load()
        cached_for = timedelta(seconds=settings.auth_cache_seconds)
        self.authenticator = build_authenticator(settings, lambda: self._sqlite, cached_for)
        self._stop_by: float | None = None
        self._clock = clock
        # Read here, where a failing start can still report its reason in one line.
        self._left_open = tuple(self.core.turn_store.open_turns())
        self._sweeps = Repeated(self._sweep, SWEEP_EVERY_S)
        payload_sweep = PayloadSweep(self._sqlite, blobs, settings.payload_grace_seconds)
        self._payload_sweeps = Repeated(payload_sweep.run, min(SWEEP_EVERY_S, settings.payload_grace_seconds))

    @property
    def drain_seconds(self) -> float:
        """Seconds for running turns to finish once a stop begins."""
        return self._settings.drain_seconds

    def start(self) -> None:
        """Start background work: turns and jobs left open by the last process, and all later ones."""
        self._reserve.try_make()
        self._supervisor.start(self._reconcile, self._left_open)
        cleaning = self.core.cleaning
        self._jobs.start(
            lambda: cleaning.due(lambda kind: kind != INGEST and kind not in EVENTS),
            lambda job: cleaning.run_for(job, LONGEST_JOB),
        )
        self._ingest_jobs.start(
            lambda: cleaning.due(lambda kind: kind == INGEST), lambda job: cleaning.run_for(job, LONGEST_INGEST)
        )
        self._event_jobs.start(
            lambda: by_tenants(cleaning.due(lambda kind: kind in EVENTS)),
            lambda job: cleaning.run_for(job, LONGEST_JOB),
        )
        self._sweeps.start()
        self._payload_sweeps.start()

    def begin_to_stop(self) -> None:
        """Refuse new turns; the time for running ones to finish begins."""
        self._stop_by = time.monotonic() + self._settings.drain_seconds
        self.core.ingesting_services.stop.set()  # before its requests are refused
        self._webhook_sender.stop()
        running = self.core.executor.refuse_more()
        self.core.session_queues.stop()
        if running:
            log.info("stopping: waiting %g s at most for %d running turns", self._settings.drain_seconds, running)

    def stop(self) -> None:
        """Wait for running turns until the time is up, then stop; a turn still running is left to its lease."""
        if self._stop_by is None:
            self.begin_to_stop()
        have_ended = self.core.executor.wait(self._time_left_s())
        # In a thread, because closing may block on a disk or a process.
        closing = Thread(target=self._close, args=(have_ended,), name="closing", daemon=True)
        closing.start()
        closing.join(max(CLOSING_S, self._time_left_s()))
        if closing.is_alive():
            log.warning("stopped without waiting any longer for background work and the store")

    def _time_left_s(self) -> float:
        return max(0.0, (self._stop_by or 0.0) - time.monotonic())

    def _close(self, have_ended: bool) -> None:
        self._sweeps.close()
        self._payload_sweeps.close()
        self._jobs.close()
        self._ingest_jobs.close()
        self._event_jobs.close()
        self._supervisor.close()
        self.core.leases.close()
        self._tools.close()
        self._bank_providers.close()
        if have_ended:
            self._sqlite.close()

    def _sweep(self) -> None:
        """Reconcile turns abandoned by another server over the same data, and drop expired records."""
        self._reserve.try_make()
        for _ in range(EXPIRED_BATCHES):
            if self._sqlite.drop_expired(self._clock.now()) < EXPIRED_AT_ONCE:
                break
        self.core.sweeper.sweep(self._clock.now() + LONGEST_SWEEP)

    def _reconcile(self, turn: TurnRef) -> datetime | None:
        return self.core.recovery.reconcile(turn).check_at


def _make_data_folder(settings: LocalSettings) -> None:
    """Make the data directory if it is missing. Raises InvalidSettings if it can't be used."""
    folder, why = settings.data_dir, ""
    try:
        make_private_folder(folder)
    except OSError as problem:
        why = problem.strerror or type(problem).__name__
    if not why and not os.access(folder, os.W_OK | os.X_OK):
        why = "this user may not write to it"
    if why:
        raise InvalidSettings(f"{variable_of('data_dir')}: {str(folder)!r} can't be used: {why}")
