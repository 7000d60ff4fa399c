"""The laws of memory banks' providers, for tables of a real Postgres with pgvector, and for its failures.

Covers: adapters/vectors/pgvector, adapters/vectors/postgres_pool, adapters/vectors/postgres_texts
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import psycopg
import pytest

from tests.support.stores.bank_provider_suite import (
    ApproximateConformance,
    BankProviderConformance,
    axis,
    documents,
    inserted,
    question,
)
from tests.support.stores.postgres import PASSWORD, PostgresServer, postgres_server
from turnstone.adapters.vectors.pgvector import PgvectorBanks
from turnstone.adapters.vectors.postgres_pool import PostgresPool
from turnstone.adapters.vectors.postgres_texts import read_text, stored_text
from turnstone.domain.errors import MemoryProviderError, MemoryProviderFailed, MemoryProviderTimedOut, Unsupported
from turnstone.domain.memory.banks import Bank, BankRef, VectorSpace
from turnstone.domain.values.ids import moment_of
from turnstone.ports.memory_providers import BankProvider

Opened = Callable[..., PgvectorBanks]
REF = BankRef("tenant", "content", "bank")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Return a function that opens banks of a server, whose connections are closed at the end of the test."""
    every: list[PostgresPool] = []

    def open_banks(
        server: PostgresServer, *, timeout_s: float = 20, is_indexed: bool = False, **more: str
    ) -> PgvectorBanks:
        every.append(PostgresPool("the-store", server.url(**more), 8, timeout_s))
        return PgvectorBanks("the-store", every[-1], "indexed" if is_indexed else "memory", is_indexed=is_indexed)

    yield open_banks
    for pool in every:
        pool.close()


class TestExact(BankProviderConformance):
    @pytest.fixture
    def provider(self, server: PostgresServer, opened: Opened) -> BankProvider:
        return opened(server)


class TestIndexed(ApproximateConformance):
    @pytest.fixture
    def provider(self, server: PostgresServer, opened: Opened) -> BankProvider:
        return opened(server, is_indexed=True)


def test_texts_that_postgres_lacks_are_written_in_the_same_order() -> None:
    characters = ["", "\x00", "\x01", "\x02", "\x03", "a", "\ud7ff", "\ud800", "\udfff", "\ue000", "\ue001", "\uffff"]
    texts = [one + two + three for one in characters for two in characters for three in characters]
    written = [stored_text(text) for text in texts]
    assert [read_text(each) for each in written] == texts
    assert [read_text(each) for each in sorted(written, key=lambda each: each.encode())] == sorted(texts)


def test_a_lost_connection_is_replaced_without_an_error(server: PostgresServer, opened: Opened) -> None:
    provider = opened(server)
    provider.put(REF, [inserted("one", axis(0))])
    _terminate(server)
    assert documents(provider.search(REF, question(axis(0)))) == ["one"]
    provider.remove(REF)


def test_a_stopped_server_is_named_and_used_again_after_its_start(server: PostgresServer, opened: Opened) -> None:
    provider = opened(server)
    provider.put(REF, [inserted("one", axis(0))])
    server.stop()
    try:
        for _ in range(2):
            with pytest.raises(
                MemoryProviderFailed, match=r"^memory provider 'the-store': the database can't be reached"
            ):
                provider.search(REF, question(axis(0)))
    finally:
        server.start()
    assert documents(provider.search(REF, question(axis(0)))) == ["one"]
    provider.remove(REF)


def test_a_silent_server_is_waited_for_no_longer_than_the_limit(server: PostgresServer, opened: Opened) -> None:
    provider = opened(server, timeout_s=0.2)
    assert provider.search(REF, question(axis(0))) == []
    (pid,) = _backends(server)
    os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    try:
        with pytest.raises(MemoryProviderTimedOut, match="'the-store': the database did not answer in time") as late:
            provider.search(REF, question(axis(0)))
    finally:
        os.kill(pid, signal.SIGCONT)
    assert time.monotonic() - began < 5
    assert late.value.is_outage
    assert provider.search(REF, question(axis(0))) == []


def test_a_slow_statement_ends_at_the_limit(server: PostgresServer) -> None:
    pool = PostgresPool("slow", server.url(), 2, 0.2)
    with pytest.raises(MemoryProviderTimedOut) as late:
        pool.run(lambda connection: connection.execute("SELECT pg_sleep(30)"))
    assert not late.value.is_outage
    assert pool.run(lambda connection: connection.execute("SELECT 1").fetchall()) == [(1,)]
    pool.close()


def test_no_more_connections_are_opened_than_allowed(server: PostgresServer) -> None:
    pool, is_open, may_end = PostgresPool("few", server.url(), 1, 0.2), threading.Event(), threading.Event()

    def hold(_: object) -> None:
        is_open.set()
        may_end.wait(20)

    holder = threading.Thread(target=pool.run, args=(hold,))
    holder.start()
    assert is_open.wait(20)
    with pytest.raises(MemoryProviderTimedOut, match="all connections to the database are in use") as busy:
        pool.run(lambda connection: connection.execute("SELECT 1"))
    assert not busy.value.is_outage
    may_end.set()
    holder.join()
    pool.close()


@pytest.mark.parametrize(
    "url", ["postgresql://u:a-secret@:x:y:z/", "nonsense a-secret", "postgresql://%zz:a-secret@h/"]
)
def test_an_invalid_url_appears_nowhere(url: str, caplog: pytest.LogCaptureFixture) -> None:
    pool = PostgresPool("the-store", url, 1, 1)
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(MemoryProviderFailed, match=r"URL of its database is inv|reached") as raised,
    ):
        pool.run(lambda connection: connection.execute("SELECT 1"))
    assert PASSWORD not in f"{raised.value!r} {raised.value.__cause__!r} {caplog.text}"


def test_refused_credentials_are_named_and_appear_nowhere(
    server: PostgresServer, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    provider = opened(server, password="wrong-secret")
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(MemoryProviderFailed, match="refuses the server's cred") as raised,
    ):
        provider.search(REF, question(axis(0)))
    assert "wrong-secret" not in f"{raised.value!r} {raised.value.__cause__!r} {caplog.text}"


def test_a_missing_permission_and_a_missing_database_are_named(server: PostgresServer, opened: Opened) -> None:
    _administer(server, "CREATE ROLE reader LOGIN PASSWORD 'reader'", "REVOKE CREATE ON DATABASE postgres FROM PUBLIC")
    with pytest.raises(MemoryProviderFailed, match="lacks a permission, for the schema 'indexed'"):
        opened(server, user="reader", password="reader", is_indexed=True).put(REF, [inserted("one", axis(0))])
    with pytest.raises(MemoryProviderFailed, match="refuses connections; check the URL's database"):
        opened(server, database="elsewhere").check()


def test_insertions_are_stored_wholly_or_not_while_connections_break(server: PostgresServer, opened: Opened) -> None:
    provider, acknowledged = opened(server), []
    every = [inserted(f"document {number}", *(axis(at % 8, 0.1) for at in range(450))) for number in range(12)]
    provider.create(REF, 8)
    is_over = threading.Event()

    def disturb() -> None:
        while not is_over.wait(0.02):
            _terminate(server)

    disturber = threading.Thread(target=disturb)
    disturber.start()
    for each in every:
        with suppress(MemoryProviderError):
            provider.put(REF, [each])
            acknowledged.append(each)
    is_over.set()
    disturber.join()
    stored = [len(provider.chunks(REF, each.ref)) for each in every]
    assert set(stored) <= {0, 450}
    assert all(len(provider.chunks(REF, each.ref)) == 450 for each in acknowledged)
    provider.put(REF, every)
    assert [len(provider.chunks(REF, each.ref)) for each in every] == [450] * len(every)
    provider.remove(REF)


def test_banks_that_do_not_fit_are_refused_by_name(server: PostgresServer, opened: Opened) -> None:
    now = moment_of("")
    exact = opened(server)
    indexed = opened(server, is_indexed=True)
    exact.refuse_bank(Bank(bank_id="b", kind="vector", space=VectorSpace(model="m", dimension=8_192), created_at=now))
    with pytest.raises(Unsupported, match="at most 2000 dimensions, not 2001"):
        indexed.refuse_bank(
            Bank(bank_id="b", kind="vector", space=VectorSpace(model="m", dimension=2_001), created_at=now)
        )
    with pytest.raises(Unsupported, match="'the-store' stores banks of vectors only"):
        exact.refuse_bank(Bank(bank_id="b", kind="keyword", created_at=now))


def test_an_operator_sees_the_versions(server: PostgresServer, opened: Opened) -> None:
    assert opened(server).check().startswith("Postgres ")
    assert " with vector 0." in opened(server).check()


def test_a_server_that_accepts_and_is_silent_is_given_two_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        pool = PostgresPool("silent", f"postgresql://u:p@127.0.0.1:{port}/d", 1, 0.2)
        with pytest.raises(MemoryProviderTimedOut):
            pool.run(lambda connection: connection.execute("SELECT 1"))


def _administer(server: PostgresServer, *statements: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)  # type: ignore[call-overload]


def _terminate(server: PostgresServer) -> None:
    """End the sessions of the providers."""
    _administer(server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'turnstone'")


def _backends(server: PostgresServer) -> list[int]:
    with psycopg.connect(server.url()) as connection:
        query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'turnstone'"
        return [pid for (pid,) in connection.execute(query)]
