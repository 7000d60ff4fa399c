"""The kinds of shields of a server on one machine."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from turnstone.adapters.shields.factory import EveryShieldKind
from turnstone.domain.errors import ShieldFailed

if TYPE_CHECKING:
    from turnstone.ports.models import Inference
    from turnstone.ports.shields import ShieldKinds


def local_shields(inference: Inference) -> ShieldKinds:
    """Return every kind, with these models as judges."""
    return EveryShieldKind(lambda: inference, _bedrock)


@cache
def _bedrock() -> Any:
    """Return a client of Bedrock. Raises ShieldFailed, StoreUnavailable if there can be none."""
    try:
        from turnstone.adapters.aws.aws_clients import AwsClients
    except ModuleNotFoundError as missing:
        raise ShieldFailed(f"Bedrock needs the package {missing.name}, pip install -e '.[aws]'") from missing
    return AwsClients().client("bedrock-runtime")
