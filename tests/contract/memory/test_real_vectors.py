"""The laws of memory banks' providers, for a vector bucket of S3 Vectors in the cloud.

`TURNSTONE_TEST_VECTOR_BUCKET` names the bucket. Credentials and region are botocore's own settings. Each test removes
its own indexes, so the bucket may hold others.

Covers: adapters/vectors/s3_vectors, adapters/vectors/s3_vector_metadata
"""

from __future__ import annotations

import os

import pytest

from tests.support.stores.bank_provider_suite import ApproximateConformance
from turnstone.adapters.aws.aws_clients import AwsClients
from turnstone.adapters.vectors.s3_vectors import S3VectorBanks
from turnstone.ports.memory_providers import BankProvider

BUCKET = os.environ.get("TURNSTONE_TEST_VECTOR_BUCKET", "")
if not BUCKET:
    pytest.skip("no vector bucket to test with: TURNSTONE_TEST_VECTOR_BUCKET is not set", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("beyond_loopback")


class TestInTheCloud(ApproximateConformance):
    @pytest.fixture
    def provider(self) -> BankProvider:
        client = AwsClients().client("s3vectors")
        return S3VectorBanks("large", lambda: client, BUCKET)
