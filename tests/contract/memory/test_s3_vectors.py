"""The laws of memory banks' providers, for indexes of S3 Vectors: in moto, with a double of the queries that it lacks.

Covers: adapters/vectors/s3_vectors, adapters/vectors/s3_vector_metadata, adapters/aws/aws_clients,
  tests/fakes/aws/vector_queries.py
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError
from botocore.stub import ANY, Stubber
from moto import mock_aws

from tests.fakes.aws.vector_queries import answer_queries
from tests.support.stores.bank_provider_suite import (
    ApproximateConformance,
    axis,
    documents,
    inserted,
    question,
)
from turnstone.adapters.aws.aws_clients import AwsClients
from turnstone.adapters.vectors.s3_vectors import S3VectorBanks
from turnstone.domain.errors import InvalidRequest, MemoryProviderFailed, MemoryProviderTimedOut, Unsupported
from turnstone.domain.memory.banks import Bank, BankRef, VectorSpace
from turnstone.domain.memory.filters import parsed
from turnstone.domain.values.ids import moment_of
from turnstone.ports.memory_providers import BankProvider

REGION = "eu-central-1"
BUCKET = "some-vectors"
REF = BankRef("tenant", "content", "bank")


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        client = AwsClients().client("s3vectors", REGION)
        client.create_vector_bucket(vectorBucketName=BUCKET)
        yield client


@pytest.fixture
def stubbed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with Stubber(AwsClients().client("s3vectors", REGION)) as stubbed:
        yield stubbed
        stubbed.assert_no_pending_responses()


class TestInMoto(ApproximateConformance):
    @pytest.fixture
    def provider(self, client: Any) -> BankProvider:
        answer_queries(client)
        return S3VectorBanks("large", lambda: client, BUCKET)


def test_a_search_reads_page_after_page(client: Any) -> None:
    requests = answer_queries(client, most=3)
    provider = S3VectorBanks("large", lambda: client, BUCKET)
    provider.put(REF, [inserted("one", *(axis(0, at / 100) for at in range(10)))])
    assert len(provider.search(REF, question(axis(0), 8))) == 8
    assert [each.get("nextToken") for each in requests if "topK" in each] == [None, "3", "6"]


def test_no_text_of_a_caller_is_a_name_and_no_request_exceeds_the_limits() -> None:
    requests: list[list[dict[str, Any]]] = []

    class Recording:
        def put_vectors(self, vectors: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
            requests.append(vectors)
            return {}

    one = inserted("d", *[[1.0] * 4_096] * 150, metadata={"$gt" * 40: "x" * 5_000}, texts=["y" * 30_000] * 150)
    many = inserted("e", *[[1.0, 2.0]] * 1_001)
    provider = S3VectorBanks("large", Recording, BUCKET)
    provider.refuse_insertion(one)
    provider.put(REF, [one, many])
    assert sum(len(vectors) for vectors in requests) == 1_151
    assert max(len(vectors) for vectors in requests) == 500
    assert max(len(json.dumps(vectors)) for vectors in requests) < 18 * 1024 * 1024
    names = {name for vectors in requests for vector in vectors for name in vector["metadata"]}
    assert all(name == "chunk" or name.startswith("f-") for name in names)


@pytest.mark.parametrize(
    ("kind", "value", "number"),
    [
        ("gt", 2**60, 1),
        ("gte", 2**60, 1),
        ("ne", 2**60, 1),
        ("nin", [2**60], 1),
        ("eq", 2**60, 0),
        ("lt", 2**60 + 2, 1),
    ],
)
def test_numbers_beyond_the_precision_of_the_service_are_compared_exactly(
    client: Any, kind: str, value: Any, number: int
) -> None:
    answer_queries(client)
    provider = S3VectorBanks("large", lambda: client, BUCKET)
    provider.put(REF, [inserted("d", axis(0), metadata={"n": 2**60 + 1})])
    assert len(provider.search(REF, question(axis(0), 10, {"type": kind, "key": "n", "value": value}))) == number


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"texts": ["é" * 25_000]}, "at most 40960 bytes of text, metadata and attributes of a chunk, not 50"),
        ({"metadata": {str(at): "x" * 60 for at in range(30)}}, "at most 2048 bytes of metadata and attributes"),
        ({"metadata": dict.fromkeys(map(str, range(60)), 1)}, "at most 49 values of metadata and attributes"),
        ({"attributes": {"size": 10**400}}, "size: must be a number between ±1e\\+300"),
    ],
)
def test_content_beyond_a_limit_is_refused_by_its_name(more: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        S3VectorBanks("large", lambda: None, BUCKET).refuse_insertion(inserted("d", axis(0), **more))


def test_banks_and_filters_that_do_not_fit_are_refused_by_name() -> None:
    provider, now = S3VectorBanks("large", lambda: None, BUCKET), moment_of("")
    provider.refuse_bank(
        Bank(bank_id="b", kind="vector", space=VectorSpace(model="m", dimension=4_096), created_at=now)
    )
    with pytest.raises(Unsupported, match="'large' stores vectors of at most 4096 dimensions, not 4097"):
        provider.refuse_bank(
            Bank(bank_id="b", kind="vector", space=VectorSpace(model="m", dimension=4_097), created_at=now)
        )
    with pytest.raises(Unsupported, match="'large' stores banks of vectors only"):
        provider.refuse_bank(Bank(bank_id="b", kind="graph", created_at=now))
    compared = {"type": "or", "filters": [{"type": "lt", "key": "a", "value": "x"}]}
    with pytest.raises(Unsupported, match="'large' has no 'lt' for texts"):
        provider.search(REF, question(axis(0), 1, compared))
    with pytest.raises(Unsupported, match="'large' has no 'lt' for texts"):
        provider.refuse_filters(parsed(compared, ("filters",)))


def test_an_index_is_made_with_the_first_vectors(stubbed: Stubber) -> None:
    named = {"vectorBucketName": BUCKET, "indexName": ANY}
    stubbed.add_client_error("put_vectors", "NotFoundException")
    made = {
        **named,
        "dataType": "float32",
        "dimension": 8,
        "distanceMetric": "cosine",
        "metadataConfiguration": {"nonFilterableMetadataKeys": ["chunk"]},
    }
    arn = "arn:aws:s3vectors:us-east-1:123456789012:bucket/some-vectors/index/bank-1"
    stubbed.add_response("create_index", {"indexArn": arn}, made)
    stubbed.add_response("put_vectors", {}, {**named, "vectors": ANY})
    S3VectorBanks("large", lambda: stubbed.client, BUCKET).put(REF, [inserted("one", axis(0))])


@pytest.mark.parametrize(
    ("code", "error", "problem"),
    [
        ("AccessDeniedException", MemoryProviderFailed, "credentials do not permit query vectors in its vector bucket"),
        ("ServiceUnavailableException", MemoryProviderFailed, "S3 Vectors failed: ServiceUnavailableException"),
        ("ValidationException", MemoryProviderFailed, "S3 Vectors failed: ValidationException"),
        ("RequestTimeoutException", MemoryProviderTimedOut, "did not answer in time"),
    ],
)
def test_a_refusal_of_the_service_is_named(stubbed: Stubber, code: str, error: Any, problem: str) -> None:
    stubbed.add_client_error("query_vectors", code, "arn:aws:secret")
    with pytest.raises(error, match=rf"^memory provider 'large': .*{problem}") as raised:
        S3VectorBanks("large", lambda: stubbed.client, BUCKET).search(REF, question(axis(0)))
    assert "secret" not in str(raised.value)
    assert raised.value.is_outage is (code == "ServiceUnavailableException")


@pytest.mark.parametrize(
    ("failure", "error", "problem"),
    [
        (ReadTimeoutError(endpoint_url="u"), MemoryProviderTimedOut, "did not answer in time"),
        (ConnectTimeoutError(endpoint_url="u"), MemoryProviderTimedOut, "did not answer in time"),
        (EndpointConnectionError(endpoint_url="u"), MemoryProviderFailed, "can't be reached"),
        (NoCredentialsError(), MemoryProviderFailed, "the server has no AWS credentials"),
    ],
)
def test_a_service_that_is_not_reached_is_named(failure: Exception, error: Any, problem: str) -> None:
    class Unreached:
        def query_vectors(self, **_: Any) -> None:
            raise failure

    with pytest.raises(error, match=problem) as raised:
        S3VectorBanks("large", Unreached, BUCKET).search(REF, question(axis(0)))
    # one slow request must not keep others from the service
    assert raised.value.is_outage is isinstance(failure, ConnectTimeoutError | EndpointConnectionError)


def test_a_missing_bucket_is_named_at_the_creation_of_a_bank_and_to_an_operator(
    client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    missing = S3VectorBanks("large", lambda: client, "elsewhere")
    for act in (lambda: missing.create(REF, 3), missing.check):
        with (
            caplog.at_level(logging.DEBUG, "turnstone"),
            pytest.raises(MemoryProviderFailed, match="no such vector buc"),
        ):
            act()
    assert S3VectorBanks("large", lambda: client, BUCKET).check() == "the vector bucket some-vectors"


def test_the_documents_found_are_those_of_the_bank(client: Any) -> None:
    answer_queries(client)
    provider = S3VectorBanks("large", lambda: client, BUCKET)
    provider.put(REF, [inserted("one", axis(0))])
    assert documents(provider.search(REF, question(axis(0)))) == ["one"]
