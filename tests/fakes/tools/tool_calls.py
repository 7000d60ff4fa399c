"""Calls of tools, as the engine has them run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnstone.domain.provider_data import ProviderData
from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation, ToolOptions
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.values.cancellation import StopSignal

ASKER = ToolAsker("acme")


def invocation(
    tool_name: str,
    arguments: Mapping[str, Any],
    options: ToolOptions | None = None,
    provider_data: Mapping[str, Any] | None = None,
    **more: Any,
) -> ToolInvocation:
    call = ToolCall(call_id="c1", tool_name=tool_name, arguments=dict(arguments))
    fields: dict[str, Any] = {"idempotency_key": "turn:1:c1", "timeout_s": 10.0, "stop": StopSignal(), **more}
    return ToolInvocation(
        call=call,
        arguments=arguments,
        ref=None,
        asker=ToolAsker("acme", ProviderData(provider_data or {})),
        options=options or ToolOptions(),
        **fields,
    )
