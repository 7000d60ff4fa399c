"""The client that Bedrock is asked with: it waits for slow models, repeats nothing by itself, and can be cut off."""

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
        region: None for that of this process.
        silence_timeout_s: how long a model may be silent, before its answer and within it.

    Raises:
        StoreUnavailable: the region or something else it needs isn't known.
    """
    config = botocore.config.Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=silence_timeout_s,
        max_pool_connections=POOL_SIZE,
        retries={"mode": "standard", "total_max_attempts": 1},  # BedrockInference repeats what can be repeated
        tcp_keepalive=True,  # gateways forget lines that are silent for some minutes
    )
    client = clients.client("bedrock-runtime", region, config)
    # botocore has no way to name the classes of a client's connections: this is the dict that its pools are made from
    client._endpoint.http_session._pool_classes_by_scheme.update(http=PatientAwsPool, https=PatientAwsTlsPool)
    return client
