"""Client for AgentCore: long timeouts for slow code, no retries."""

from __future__ import annotations

from typing import Any

import botocore.config

from turnstone.adapters.aws.aws_clients import AwsClients

CONNECT_TIMEOUT_S = 5


def build_agentcore_client(clients: AwsClients, region: str | None, silence_timeout_s: float) -> Any:
    """Return a client of `bedrock-agentcore`.

    Args:
        region: None for this process's region.
        silence_timeout_s: how long code may run without output.

    Raises:
        StoreUnavailable: the region or another setting is missing.
    """
    config = botocore.config.Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=silence_timeout_s,
        retries={"mode": "standard", "total_max_attempts": 1},
    )
    return clients.client("bedrock-agentcore", region, config)
