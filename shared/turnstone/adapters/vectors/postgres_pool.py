"""Connections to a Postgres database: a few, each with limits of time, and its failures as errors of the provider.

A thread-free pool: a connection is opened when one is needed, and used again for a minute. psycopg's own pool keeps
threads, which a Lambda freezes between requests, and waits for its whole time limit where a server refuses connections.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from threading import BoundedSemaphore, Lock
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo

from turnstone.domain.errors import MemoryProviderFailed, MemoryProviderTimedOut

log = logging.getLogger(__name__)
Result = TypeVar("Result")
Act = Callable[[psycopg.Connection[Any]], Result]
USED_AGAIN_S = 60.0
OFTEN_S = 0.1  # between checks of a time limit
LEAST_CONNECT_S = 2  # of libpq's time limit for a connection, which counts whole seconds
OUT_OF_RESOURCES, SHUTS_DOWN, CREDENTIALS = "53", "57P0", "28"  # beginnings of SQLSTATEs


class SilentServer(psycopg.OperationalError):
    """The server did not answer a statement in time, not even with its own time limit."""


class LimitedConnection(psycopg.Connection[Any]):
    """A connection that waits no longer than its limit for any answer of the server."""

    limit_s = 10.0

    def wait(self, gen: Generator[Any, Any, Result], interval: float = OFTEN_S, timeout: float | None = None) -> Result:
        """Return the result of an exchange with the server. Raises SilentServer, and is closed then."""
        return super().wait(self._limited(gen, timeout), min(interval, OFTEN_S))

    def _limited(self, exchange: Generator[Any, Any, Result], timeout: float | None) -> Generator[Any, Any, Result]:
        ends_at = time.monotonic() + min(self.limit_s, timeout or self.limit_s)
        try:
            pending = next(exchange)
            while True:
                ready = yield pending
                if not ready and time.monotonic() > ends_at:
                    self.pgconn.finish()
                    raise SilentServer("no answer in time")
                pending = exchange.send(ready)
        except StopIteration as end:
            result: Result = end.value
            return result


class PostgresPool:
    def __init__(self, provider_id: str, url: str, most: int, timeout_s: float) -> None:
        """Take the database's URL, which holds a password and appears in no error and no log.

        Args:
            most: connections.
            timeout_s: for a statement, and for a free connection.
        """
        self._provider_id = provider_id
        self._url = url
        self._timeout_s = timeout_s
        self._slots = BoundedSemaphore(most)
        self._lock = Lock()
        self._idle: list[tuple[float, LimitedConnection]] = []

    def run(self, act: Act[Result]) -> Result:
        """Return the result of the act, done in one transaction, and again if a connection used before is broken.

        Raises:
            psycopg.Error: one of SQL, such as of a missing table; nothing is changed.
            MemoryProviderFailed, MemoryProviderTimedOut: the act may have been done.
        """
        if not self._slots.acquire(timeout=self._timeout_s):
            raise MemoryProviderTimedOut(self._provider_id, "all connections to the database are in use")
        try:
            while (connection := self._taken()) is not None:
                try:
                    return self._done(connection, act)
                except SilentServer:
                    raise
                except psycopg.OperationalError as error:
                    if error.sqlstate is not None and not error.sqlstate.startswith(SHUTS_DOWN):
                        raise
            return self._done(self._opened(), act)
        except psycopg.OperationalError as error:
            raise self._converted(error) from None
        finally:
            self._slots.release()

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _done(self, connection: LimitedConnection, act: Act[Result]) -> Result:
        is_clean = False
        try:
            result = act(connection)
            connection.commit()
            is_clean = True
        except psycopg.Error as error:
            if not isinstance(error, psycopg.OperationalError):
                connection.rollback()
                is_clean = True
            raise
        finally:
            if is_clean:
                with self._lock:
                    self._idle.append((time.monotonic(), connection))
            else:
                connection.close()
        return result

    def _taken(self) -> LimitedConnection | None:
        """Return a connection that was in use a short time ago, None if there is none."""
        with self._lock:
            used_at, connection = self._idle.pop() if self._idle else (0.0, None)
        if connection is None or time.monotonic() - used_at <= USED_AGAIN_S:
            return connection
        self.close()
        connection.close()
        return None

    def _opened(self) -> LimitedConnection:
        milliseconds = round(self._timeout_s * 1_000)
        try:
            parameters = conninfo.conninfo_to_dict(self._url)
        except psycopg.ProgrammingError:
            raise MemoryProviderFailed(self._provider_id, "the URL of its database is invalid") from None
        options = (
            f"{parameters.get('options') or ''} -c statement_timeout={milliseconds} -c lock_timeout={milliseconds}"
        )
        connection = LimitedConnection.connect(
            self._url,
            prepare_threshold=None,
            options=options.strip(),
            connect_timeout=max(LEAST_CONNECT_S, round(self._timeout_s)),
            tcp_user_timeout=milliseconds,
            application_name=parameters.get("application_name") or "turnstone",
            client_encoding="UTF8",
        )
        connection.limit_s = self._timeout_s + 1  # after the server's own limit
        return connection

    def _converted(self, error: psycopg.OperationalError) -> MemoryProviderFailed | MemoryProviderTimedOut:
        """Return the error of the provider. The text of libpq is left out: it can quote parts of a wrong URL."""
        state = error.sqlstate or ""
        log.warning("memory provider %r: %s, SQLSTATE %s", self._provider_id, type(error).__name__, state or "unset")
        is_silent = isinstance(error, psycopg.errors.ConnectionTimeout | SilentServer)
        if is_silent or isinstance(error, psycopg.errors.QueryCanceled | psycopg.errors.LockNotAvailable):
            problem = "the database did not answer in time"
            return MemoryProviderTimedOut(self._provider_id, problem, is_outage=is_silent)
        if state.startswith(CREDENTIALS) or "authentication failed" in str(error):
            return MemoryProviderFailed(self._provider_id, "the database refuses the server's credentials")
        if not state and "FATAL:" in str(error):
            problem = "the database refuses connections; check the URL's database and options"
            return MemoryProviderFailed(self._provider_id, problem, is_outage=True)
        if not state or state.startswith(SHUTS_DOWN):
            return MemoryProviderFailed(self._provider_id, "the database can't be reached", is_outage=True)
        is_outage = state.startswith(OUT_OF_RESOURCES)
        return MemoryProviderFailed(self._provider_id, f"the database failed, SQLSTATE {state}", is_outage=is_outage)
