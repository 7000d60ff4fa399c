"""Client for Bedrock: long timeouts for slow models, no retries of its own, connections that can be cut."""

from __future__ import annotations

from typing import Any

import botocore.config
from botocore.awsrequest import AWSHTTPConnection, AWSHTTPSConnection
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool

from turnstone.adapters.aws.aws_clients import AwsClients
from turnstone.adapters.outgoing.connections import Patient

SILENCE_TIMEOUT_S = 600.0
CONNECT_TIMEOUT_S = 5
POOL_SIZE = 64


class PatientAwsConnection(Patient, AWSHTTPConnection):  # type: ignore[misc] # botocore has no types
    pass


class PatientAwsTlsConnection(Patient, AWSHTTPSConnection):  # type: ignore[misc] # botocore has no types
    pass


class PatientAwsPool(HTTPConnectionPool):
    ConnectionCls = PatientAwsConnection


class PatientAwsTlsPool(HTTPSConnectionPool):
    ConnectionCls = PatientAwsTlsConnection


def build_bedrock_client(
    clients: AwsClients, region: str | None = None, silence_timeout_s: float = SILENCE_TIMEOUT_S
) -> Any:
    """Return a client of `bedrock-runtime` for `BedrockInference`.

    Args:
        region: None for this process's region.
        silence_timeout_s: the longest pause before and within an answer.

    Raises:
        StoreUnavailable: the region or another setting is missing.
    """
    config = botocore.config.Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=silence_timeout_s,
        max_pool_connections=POOL_SIZE,
        retries={"mode": "standard", "total_max_attempts": 1},  # BedrockInference does the retries
        tcp_keepalive=True,  # gateways drop connections after some idle minutes
    )
    client = clients.client("bedrock-runtime", region, config)
    # botocore has no option for the connection classes: its pools are created from this dict
    client._endpoint.http_session._pool_classes_by_scheme.update(http=PatientAwsPool, https=PatientAwsTlsPool)
    return client
