"""Memory banks in Amazon S3 Vectors: an index for each bank, a vector for each chunk.

The key of a vector is the insertion and the position of its chunk. Writes of the service are strongly consistent, and
its searches approximate.

Source: the service's description in botocore, and "Limitations and restrictions" in the user guide of Amazon S3.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    NoCredentialsError,
    ReadTimeoutError,
)

from turnstone.adapters.aws.aws_clients import CONFIG, AwsClients
from turnstone.adapters.vectors.s3_vector_metadata import WHOLE, chunk_of, filter_of, metadata_of, refuse_filters
from turnstone.domain.errors import MemoryProviderError, MemoryProviderFailed, MemoryProviderTimedOut, Unsupported
from turnstone.domain.memory.banks import Bank, BankRef
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.memory.filters import Filter
from turnstone.ports.memory_providers import Insertion, InsertionRef, ProviderHit, ProviderQuestion

log = logging.getLogger(__name__)
MOST_HITS = 100
MOST_DIMENSIONS = 4_096
PUT_AT_ONCE = DELETED_AT_ONCE = 500
READ_AT_ONCE = 100
MOST_BYTES = 16 * 1024 * 1024  # of a request; the service takes 20 MiB
NUMBER_BYTES = 16  # of a vector's component in JSON, at most
DIGITS = 9  # enough to keep any number of single precision
OUTAGES = ("ServiceUnavailableException", "InternalServerException", "TooManyRequestsException")
TIMED_OUT = ("RequestTimeoutException", "RequestTimeout")
MISSING, EXISTS = "NotFoundException", "ConflictException"
DENIED = ("AccessDeniedException", "UnrecognizedClientException", "ExpiredTokenException", "InvalidSignatureException")


class NoIndex(Exception):
    """The bucket, or its index, does not exist."""


class S3VectorBanks:
    """BankProvider over a vector bucket."""

    most_hits = MOST_HITS

    def __init__(self, provider_id: str, client: Callable[[], Any], bucket: str) -> None:
        """Take a function that returns the client of the service, the same one each time."""
        self._provider_id = provider_id
        self._client = client
        self._bucket = bucket

    def refuse_bank(self, bank: Bank) -> None:
        if bank.space is None:
            raise Unsupported(f"provider_id: {self._provider_id!r} stores banks of vectors only", ("provider_id",))
        if bank.space.dimension > MOST_DIMENSIONS:
            limit = f"stores vectors of at most {MOST_DIMENSIONS} dimensions, not {bank.space.dimension}"
            raise Unsupported(f"provider_id: {self._provider_id!r} {limit}", ("provider_id",))

    def refuse_filters(self, filters: Filter) -> None:
        refuse_filters(self._provider_id, filters)

    def refuse_insertion(self, insertion: Insertion) -> None:
        for chunk in insertion.chunks:
            metadata_of(chunk, insertion.attributes)

    def create(self, ref: BankRef, dimension: int) -> None:
        try:
            self._call(
                "create_index",
                ref,
                dataType="float32",
                dimension=dimension,
                distanceMetric="cosine",
                metadataConfiguration={"nonFilterableMetadataKeys": [WHOLE]},
            )
        except NoIndex:
            raise MemoryProviderFailed(self._provider_id, "there is no such vector bucket") from None

    def put(self, ref: BankRef, insertions: Sequence[Insertion]) -> None:
        vectors = [
            {
                "key": _key(each.insertion_id, chunk.position),
                "data": {"float32": _unit(chunk.vector or ())},
                "metadata": metadata_of(chunk, each.attributes),
            }
            for each in insertions
            for chunk in each.chunks
        ]
        for some in _within_limits(vectors):
            try:
                self._call("put_vectors", ref, vectors=some)
            except NoIndex:
                self.create(ref, len(some[0]["data"]["float32"]))
                self._put_again(ref, some)

    def drop(self, ref: BankRef, insertions: Sequence[InsertionRef]) -> None:
        keys = [_key(each.insertion_id, position) for each in insertions for position in range(each.chunks)]
        for begin in range(0, len(keys), DELETED_AT_ONCE):
            try:
                self._call("delete_vectors", ref, keys=keys[begin : begin + DELETED_AT_ONCE])
            except NoIndex:
                return

    def search(self, ref: BankRef, question: ProviderQuestion) -> list[ProviderHit]:
        limit = min(question.limit, MOST_HITS)
        request: dict[str, Any] = {"topK": limit, "queryVector": {"float32": _unit(question.vector)}}
        if question.filters is not None:
            self.refuse_filters(question.filters)
            request["filter"] = filter_of(question.filters)
        found: list[dict[str, Any]] = []
        try:
            while len(found) < limit:
                answer = self._call("query_vectors", ref, returnMetadata=True, returnDistance=True, **request)
                found += answer["vectors"]
                if not answer.get("nextToken"):
                    break
                request["nextToken"] = answer["nextToken"]
        except NoIndex:
            return []
        hits = [_hit(vector) for vector in found]
        matches = None if question.filters is None else question.filters.matches
        kept = [hit for hit in hits if matches is None or matches({**hit.chunk.metadata, **hit.attributes})]
        return sorted(kept, key=lambda hit: (-hit.cosine, hit.chunk.chunk_id))[:limit]

    def chunks(self, ref: BankRef, insertion: InsertionRef) -> tuple[DocumentChunk, ...]:
        keys = [_key(insertion.insertion_id, position) for position in range(insertion.chunks)]
        found: list[DocumentChunk] = []
        for begin in range(0, len(keys), READ_AT_ONCE):
            some = keys[begin : begin + READ_AT_ONCE]
            try:
                answer = self._call("get_vectors", ref, keys=some, returnData=True, returnMetadata=True)
            except NoIndex:
                return ()
            for vector in answer["vectors"]:
                _, position = _parts(vector["key"])
                chunk, _ = chunk_of(vector["metadata"], position)
                found.append(chunk._replace(vector=vector["data"]["float32"]))
        return tuple(sorted(found, key=lambda chunk: chunk.position))

    def remove(self, ref: BankRef) -> None:
        try:
            self._call("delete_index", ref)
        except NoIndex:
            return

    def check(self) -> str:
        try:
            self._call("list_indexes", None, maxResults=1)
        except NoIndex:
            raise MemoryProviderFailed(self._provider_id, "there is no such vector bucket") from None
        return f"the vector bucket {self._bucket}"

    def close(self) -> None:
        pass  # the client closes its connections with the process

    def _put_again(self, ref: BankRef, vectors: Sequence[dict[str, Any]]) -> None:
        try:
            self._call("put_vectors", ref, vectors=vectors)
        except NoIndex:
            raise MemoryProviderFailed(self._provider_id, "the index of the bank was removed") from None

    def _call(self, operation: str, ref: BankRef | None, **request: Any) -> dict[str, Any]:
        """Return the answer. Raises NoIndex, and the errors of the provider; an index that exists is no error."""
        named = {} if ref is None else {"indexName": _index(ref)}
        try:
            answer: dict[str, Any] = getattr(self._client(), operation)(
                vectorBucketName=self._bucket, **named, **request
            )
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code", ""))
            if code == EXISTS and operation == "create_index":
                return {}
            if code == MISSING:
                raise NoIndex from None
            raise self._refused(operation, code) from None
        except (ConnectTimeoutError, ReadTimeoutError) as late:
            is_outage = isinstance(late, ConnectTimeoutError)
            problem = "S3 Vectors did not answer in time"
            raise MemoryProviderTimedOut(self._provider_id, problem, is_outage=is_outage) from None
        except NoCredentialsError:
            raise MemoryProviderFailed(self._provider_id, "the server has no AWS credentials") from None
        except BotoCoreError as error:
            log.warning("memory provider %r: %s fails: %s", self._provider_id, operation, type(error).__name__)
            raise MemoryProviderFailed(self._provider_id, "S3 Vectors can't be reached", is_outage=True) from None
        return answer

    def _refused(self, operation: str, code: str) -> MemoryProviderError:
        log.warning("memory provider %r: %s fails: %s", self._provider_id, operation, code)
        if code in TIMED_OUT:
            return MemoryProviderTimedOut(self._provider_id, "S3 Vectors did not answer in time")
        if code in DENIED:
            problem = f"the server's AWS credentials do not permit {operation.replace('_', ' ')} in its vector bucket"
            return MemoryProviderFailed(self._provider_id, problem)
        return MemoryProviderFailed(self._provider_id, f"S3 Vectors failed: {code}", is_outage=code in OUTAGES)


def build_s3_vectors_client(clients: AwsClients, region: str | None, timeout_s: float) -> Any:
    """Return a client for this server's own region by default, with the limit of an answer. Raises StoreUnavailable."""
    return clients.client("s3vectors", region, CONFIG.merge(Config(read_timeout=timeout_s)))


def _index(ref: BankRef) -> str:
    named = f"{ref.tenant}\x00{ref.content_id}"
    return f"bank-{sha256(named.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


def _key(insertion_id: str, position: int) -> str:
    return f"{insertion_id}:{position}"


def _parts(key: str) -> tuple[str, int]:
    insertion_id, _, position = key.rpartition(":")
    return insertion_id, int(position)


def _hit(vector: dict[str, Any]) -> ProviderHit:
    insertion_id, position = _parts(vector["key"])
    return ProviderHit(insertion_id, *chunk_of(vector["metadata"], position), 1.0 - vector["distance"])


def _unit(vector: Sequence[float]) -> list[float]:
    """Return the vector of the length 1, in single precision: squares of others can exceed it."""
    length = math.hypot(*vector)
    return [float(f"{number / length:.{DIGITS}g}") for number in vector]


def _within_limits(vectors: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the vectors in requests that the service takes."""
    some: list[dict[str, Any]] = []
    total = 0
    for vector in vectors:
        size = NUMBER_BYTES * len(vector["data"]["float32"]) + 2 * len(vector["metadata"][WHOLE].encode())
        if some and (len(some) == PUT_AT_ONCE or total + size > MOST_BYTES):
            yield some
            some, total = [], 0
        some.append(vector)
        total += size
    if some:
        yield some
