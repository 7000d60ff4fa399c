"""The client that AgentCore is asked with: it waits for code that takes its time, and runs nothing twice."""

from __future__ import annotations

from typing import Any

import botocore.config

from turnstone.adapters.aws.aws_clients import AwsClients

CONNECT_TIMEOUT_S = 5


def build_agentcore_client(clients: AwsClients, region: str | None, silence_timeout_s: float) -> Any:
    """Return a client of `bedrock-agentcore`.

    Args:
        region: None for that of this process.
        silence_timeout_s: how long code may run without a word.

    Raises:
        StoreUnavailable: the region or something else it needs isn't known.
    """
    config = botocore.config.Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=silence_timeout_s,
        retries={"mode": "standard", "total_max_attempts": 1},
    )
    return clients.client("bedrock-agentcore", region, config)
