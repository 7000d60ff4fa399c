"""Memory banks in a Postgres database, by its extension `vector`: a table for each bank.

A table of its own lets a bank be dropped at once and have an index of its own dimension. Its name is a hash, so that no
text of a caller is part of a statement.

Source: the documentation of pgvector 0.8: vectors of up to 16,000 dimensions, those in an index of up to 2,000.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.errors import InsufficientPrivilege, InvalidSchemaName, UndefinedTable

from turnstone.adapters.vectors.postgres_pool import Act, PostgresPool
from turnstone.adapters.vectors.postgres_texts import condition_of, read_text, stored_text, stored_values
from turnstone.domain.errors import MemoryProviderFailed, Unsupported
from turnstone.domain.memory.banks import Bank, BankRef
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.memory.filters import Filter
from turnstone.ports.memory_providers import Insertion, InsertionRef, ProviderHit, ProviderQuestion

Database = psycopg.Connection[Any]
Result = TypeVar("Result")
MOST_HITS = 1_000
MOST_DIMENSIONS, MOST_INDEXED = 16_000, 2_000
WRITTEN_AT_ONCE = 200  # chunks
LOCK = 7_309_453_641_806_122_101  # of changes of tables, in all processes
ITERATIVE = (0, 8)  # the version whose filtered searches of an index find enough
MISSING = (UndefinedTable, InvalidSchemaName)

FOUND = """
    SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector'),
        EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector'),
        to_regnamespace(%s) IS NOT NULL
"""
EXTENSION = sql.SQL("CREATE EXTENSION vector")
SCHEMA = sql.SQL("CREATE SCHEMA {schema}")
TABLE = sql.SQL("""
    CREATE TABLE IF NOT EXISTS {table} (
        insertion text NOT NULL,
        position integer NOT NULL,
        chunk text COLLATE "C" NOT NULL,
        document text NOT NULL,
        content text NOT NULL,
        tokens integer NOT NULL,
        details text NOT NULL,
        filters jsonb NOT NULL,
        embedding vector({dimension}) NOT NULL,
        PRIMARY KEY (insertion, position)
    )
""")
INDEX = sql.SQL("CREATE INDEX IF NOT EXISTS {index} ON {table} USING hnsw (embedding vector_cosine_ops)")
PUT = sql.SQL("""
    INSERT INTO {table} (insertion, position, chunk, document, content, tokens, details, filters, embedding)
    SELECT insertion, position, chunk, document, content, tokens, details, filters::jsonb, embedding::vector
    FROM unnest(%s::text[], %s::integer[], %s::text[], %s::text[], %s::text[], %s::integer[], %s::text[], %s::text[],
        %s::text[])
    AS given(insertion, position, chunk, document, content, tokens, details, filters, embedding)
    ON CONFLICT DO NOTHING
""")
DROP = sql.SQL("DELETE FROM {table} WHERE insertion = ANY(%s)")
SEARCH = sql.SQL("""
    SELECT insertion, document, position, content, tokens, details, embedding <=> %s::vector AS distance
    FROM {table} WHERE {condition} ORDER BY distance, chunk LIMIT %s
""")
CHUNKS = sql.SQL("""
    SELECT document, position, content, tokens, details, embedding::text
    FROM {table} WHERE insertion = %s ORDER BY position
""")
REMOVE = sql.SQL("DROP TABLE IF EXISTS {table}")
VERSIONS = sql.SQL("""
    SELECT current_setting('server_version'), installed_version, default_version
    FROM (SELECT 1) AS one LEFT JOIN pg_available_extensions ON name = 'vector'
""")


class PgvectorBanks:
    """BankProvider over tables of a database."""

    most_hits = MOST_HITS

    def __init__(self, provider_id: str, pool: PostgresPool, schema: str, *, is_indexed: bool) -> None:
        """Take the schema of the tables, and whether a search uses an index, which finds approximate results."""
        self._provider_id = provider_id
        self._pool = pool
        self._schema = schema
        self._is_indexed = is_indexed

    def refuse_bank(self, bank: Bank) -> None:
        if bank.space is None:
            raise Unsupported(f"provider_id: {self._provider_id!r} stores banks of vectors only", ("provider_id",))
        most = MOST_INDEXED if self._is_indexed else MOST_DIMENSIONS
        if bank.space.dimension > most:
            problem = f"{self._provider_id!r} stores vectors of at most {most} dimensions, not {bank.space.dimension}"
            raise Unsupported(f"provider_id: {problem}", ("provider_id",))

    def refuse_filters(self, filters: Filter) -> None:
        pass  # every operator has its SQL

    def refuse_insertion(self, insertion: Insertion) -> None:
        pass  # a row has no limit that a request could exceed

    def create(self, ref: BankRef, dimension: int) -> None:
        self._run(lambda connection: self._create(connection, ref, dimension))

    def put(self, ref: BankRef, insertions: Sequence[Insertion]) -> None:
        rows = [_row(each, chunk) for each in insertions for chunk in each.chunks]
        try:
            self._run(lambda connection: self._put(connection, ref, rows))
        except MISSING:
            dimension = next(len(chunk.vector or ()) for each in insertions for chunk in each.chunks)
            self.create(ref, dimension)
            self._run(lambda connection: self._put(connection, ref, rows))

    def drop(self, ref: BankRef, insertions: Sequence[InsertionRef]) -> None:
        named = [each.insertion_id for each in insertions]
        try:
            self._run(lambda connection: connection.execute(DROP.format(table=self._table(ref)), (named,)))
        except MISSING:
            return

    def search(self, ref: BankRef, question: ProviderQuestion) -> list[ProviderHit]:
        try:
            rows = self._run(lambda connection: self._search(connection, ref, question))
        except MISSING:
            return []
        return [
            ProviderHit(insertion, *_chunk_of((document, *row)), 1.0 - distance)
            for insertion, document, *row, distance in rows
        ]

    def chunks(self, ref: BankRef, insertion: InsertionRef) -> tuple[DocumentChunk, ...]:
        query = CHUNKS.format(table=self._table(ref))
        try:
            rows = self._run(lambda connection: connection.execute(query, (insertion.insertion_id,)).fetchall())
        except MISSING:
            return ()
        return tuple(
            _chunk_of(row)[0]._replace(vector=[float(number) for number in vector.strip("[]").split(",")])
            for *row, vector in rows
        )

    def remove(self, ref: BankRef) -> None:
        self._run(lambda connection: connection.execute(REMOVE.format(table=self._table(ref))))

    def check(self) -> str:
        rows = self._run(lambda connection: connection.execute(VERSIONS).fetchall())
        ((server, installed, available),) = rows
        version = installed or available
        if version is None:
            raise self._without_extension()
        if self._is_indexed and _numbers(version) < ITERATIVE:
            problem = f"an index needs vector 0.8 or newer, and this is {version}"
            raise MemoryProviderFailed(self._provider_id, problem)
        return f"Postgres {server.split()[0]} with vector {version}"

    def close(self) -> None:
        self._pool.close()

    def _run(self, act: Act[Result]) -> Result:
        """Return the act's result. Raises psycopg's errors of missing tables, and those of the provider."""
        try:
            return self._pool.run(act)
        except MISSING:
            raise
        except InsufficientPrivilege:
            problem = f"the server's user lacks a permission, for the schema {self._schema!r} or the extension `vector`"
            raise MemoryProviderFailed(self._provider_id, problem) from None
        except psycopg.Error as error:
            raise MemoryProviderFailed(self._provider_id, f"the database failed, SQLSTATE {error.sqlstate}") from None

    def _without_extension(self) -> MemoryProviderFailed:
        return MemoryProviderFailed(
            self._provider_id, "the database server has no extension `vector`; install pgvector"
        )

    def _create(self, connection: Database, ref: BankRef, dimension: int) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        ((is_installed, is_available, has_schema),) = connection.execute(FOUND, (self._schema,)).fetchall()
        if not is_installed and not is_available:
            raise self._without_extension()
        if not is_installed:
            connection.execute(EXTENSION)
        if not has_schema:
            connection.execute(SCHEMA.format(schema=sql.Identifier(self._schema)))
        connection.execute(TABLE.format(table=self._table(ref), dimension=sql.Literal(dimension)))
        if self._is_indexed:
            name = sql.Identifier(f"{_name(ref)}_hnsw")
            connection.execute(INDEX.format(table=self._table(ref), index=name))

    def _put(self, connection: Database, ref: BankRef, rows: Sequence[tuple[Any, ...]]) -> None:
        statement = PUT.format(table=self._table(ref))
        for begin in range(0, len(rows), WRITTEN_AT_ONCE):
            columns = zip(*rows[begin : begin + WRITTEN_AT_ONCE], strict=True)
            connection.execute(statement, [list(column) for column in columns])

    def _search(self, connection: Database, ref: BankRef, question: ProviderQuestion) -> list[tuple[Any, ...]]:
        if self._is_indexed:
            connection.execute("SET LOCAL hnsw.iterative_scan = strict_order")
            connection.execute(
                "SELECT set_config('hnsw.ef_search', %s, true)", (str(min(max(40, question.limit), MOST_HITS)),)
            )
        where, parameters = ("true", ()) if question.filters is None else condition_of(question.filters)
        condition = sql.SQL(where)  # of fixed texts alone; keys and values are parameters
        statement = SEARCH.format(table=self._table(ref), condition=condition)
        vector = _written(question.vector)
        return connection.execute(statement, (vector, *parameters, min(question.limit, MOST_HITS))).fetchall()

    def _table(self, ref: BankRef) -> sql.Identifier:
        return sql.Identifier(self._schema, _name(ref))


def _name(ref: BankRef) -> str:
    named = f"{ref.tenant}\x00{ref.content_id}"
    return f"bank_{sha256(named.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


def _row(insertion: Insertion, chunk: DocumentChunk) -> tuple[Any, ...]:
    return (
        insertion.insertion_id,
        chunk.position,
        chunk.chunk_id,
        stored_text(chunk.document_id),
        stored_text(chunk.text),
        chunk.tokens,
        json.dumps([dict(chunk.metadata), dict(insertion.attributes)]),
        stored_values({**chunk.metadata, **insertion.attributes}),
        _written(chunk.vector or ()),
    )


def _chunk_of(row: Sequence[Any]) -> tuple[DocumentChunk, Any]:
    """Return a chunk, without its vector, and its document's attributes."""
    document, position, content, tokens, details = row
    metadata, attributes = json.loads(details)
    return DocumentChunk(read_text(document), position, read_text(content), tokens, metadata), attributes


def _written(vector: Sequence[float]) -> str:
    """Return a vector of the length 1: squares of others can exceed single precision."""
    length = math.hypot(*vector)
    return f"[{','.join(repr(number / length) for number in vector)}]"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
