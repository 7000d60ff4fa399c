"""The whole API in one process over SQLite: what `turnstone serve` starts."""

import asyncio
import gc
import logging
import math
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from threading import Thread

import uvicorn
from starlette.types import ASGIApp

from turnstone.bootstrap.places.local import LocalServer
from turnstone.bootstrap.places.local_models import warn_of_missing_model
from turnstone.domain.errors import StoreUnavailable
from turnstone.edge.logs import begin_logging
from turnstone.http.origins.cross_origin import CrossOrigin
from turnstone.http.origins.rebinding_guard import RebindingGuard
from turnstone.http.server.app import build_app
from turnstone.http.server.endpoint import BodyLimits
from turnstone.http.server.hosting import OneMachine
from turnstone.settings.config import OFFLINE, InvalidFile, InvalidSettings, load_settings
from turnstone.settings.local_settings import LocalSettings

from .accepting import AcceptingServer
from .connections import Connections
from .descriptors import room_for_connections
from .greeting import greeting
from .http_limits import HttpLimits
from .http_only import HttpOnly
from .last_resort import MARGIN_S, LastResort
from .processes import NotStarted, Processes
from .routes import ROUTES, UNSERVED
from .slow_readers import SlowReaders

NEW_OBJECTS = 20_000  # between two collections of the youngest; a turn makes thousands, and hardly a cycle


def build_local_app(settings: LocalSettings, server: LocalServer) -> ASGIApp:
    """Return the ASGI app of the server; its lifespan starts and stops the server."""

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        await asyncio.to_thread(server.start)
        yield
        await asyncio.to_thread(server.stop)

    hosting = OneMachine(server.authenticator)
    limits = BodyLimits(settings.max_body_bytes, settings.max_file_bytes)
    app = build_app((*ROUTES, *UNSERVED), server.core, limits, hosting, lifespan)
    origins = settings.cors_origins
    guarded = app if server.authenticator or settings.allow_open else RebindingGuard(app, origins)
    return CrossOrigin(guarded, origins) if origins else guarded


class DrainingServer(AcceptingServer):
    """A uvicorn server that stops together with the API's background work, within one drain time."""

    def __init__(
        self,
        settings: LocalSettings,
        server: LocalServer,
        source: socket.socket,
        serves: Callable[[], None] | None = None,
    ) -> None:
        """Prepare to serve the connections of the source; `serves` is called once the server does."""
        connections = Connections(http_limits(settings))
        super().__init__(server_config(settings, server, connections), connections, source)
        self._server = server
        self._last_resort = LastResort(server.drain_seconds + MARGIN_S)
        self._serves = serves
        self._slow_readers = SlowReaders(self.server_state.connections, settings.unread_seconds)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._last_resort.watch_signals()
        await super().startup(sockets)
        self._slow_readers.begin()
        if self._serves is not None:
            self._serves()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._last_resort.arm()
        self._server.begin_to_stop()
        await super().shutdown(sockets)


def listen(host: IPv4Address | IPv6Address, port: int) -> socket.socket:
    """Return a bound socket, on a free port for 0. Raises OSError."""
    # the protocol must be named: asyncio turns Nagle's algorithm off, 40 ms a response, only for sockets that name TCP
    family = socket.AF_INET if host.version == 4 else socket.AF_INET6
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((str(host), port))
    except OSError:
        listening.close()
        raise
    return listening


def begin_local_logging(settings: LocalSettings) -> None:
    """Configure the log by the settings; records lack the fields that no line shows, which take time.

    Source: the part on optimization of the standard library's guide to logging.
    """
    logging._srcfile = None  # documented there; it has no public name
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    begin_logging(settings.log_level, settings.log_format, os.getpid() if settings.processes > 1 else None)


def spare_the_collector() -> None:
    """Exclude the objects of the start from garbage collections, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)


def http_limits(settings: LocalSettings) -> HttpLimits:
    """Return the limits of connections; descriptors of this process may allow fewer than the settings."""
    return HttpLimits(
        head_bytes=settings.max_head_bytes,
        head_fields=settings.max_head_fields,
        head_s=settings.head_seconds,
        body_s=settings.body_seconds,
        unread_s=settings.unread_seconds,
        connections=room_for_connections(settings.max_connections, settings.max_running_turns),
    )


def server_config(settings: LocalSettings, server: LocalServer, connections: Connections) -> uvicorn.Config:
    """Return the settings of uvicorn."""
    return uvicorn.Config(
        build_local_app(settings, server),
        log_config=None,  # its lines have the format of ours
        log_level="warning",
        http=partial(HttpOnly, connections),  # type: ignore[arg-type]
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=math.ceil(settings.drain_seconds),
    )


def check_models_in_background(settings: LocalSettings) -> None:
    """Warn of a missing embedding model, check the model servers in a thread, and return at once."""
    warn_of_missing_model(settings)

    def check() -> None:
        from turnstone.bootstrap.places.model_check import check_models  # its imports take time, too

        check_models(settings)

    if settings.model_url != OFFLINE or settings.models_file is not None:
        Thread(target=check, name="models", daemon=True).start()


def serve() -> None:
    """Serve until interrupted, by the settings in the environment."""
    try:
        settings = load_settings(LocalSettings)
        settings.refuse_unused_key()
        begin_local_logging(settings)
        listening = listen(settings.host, settings.port)
        hello = greeting(settings, listening.getsockname()[1])
        if settings.processes > 1:

            def announce() -> None:
                print(hello, flush=True)
                check_models_in_background(settings)

            Processes(listening, settings.processes, announce, settings.drain_seconds).serve()
            return
        server = LocalServer(settings)
    except OSError as problem:
        where = f"TURNSTONE_HOST {settings.host}, TURNSTONE_PORT {settings.port}"
        sys.exit(f"turnstone: can't listen on {where}: {problem.strerror}")
    except InvalidFile as problem:
        sys.exit(f"turnstone: {problem.of(settings.models_file)}")
    except (InvalidSettings, StoreUnavailable, NotStarted) as problem:
        sys.exit(f"turnstone: {problem}")
    print(hello, flush=True)
    spare_the_collector()
    with suppress(KeyboardInterrupt):
        DrainingServer(settings, server, listening, partial(check_models_in_background, settings)).run(sockets=[])
    os._exit(0)  # without a wait for threads: turns that did not end in time keep their leases until these expire
