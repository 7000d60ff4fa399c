"""Uses the tools of an MCP server that requires a header. Arguments: base URL, the server's URL, the header's value.

Reports a tool in both lists, the result of a call, the stored call of a turn, and the text of the server's refusal.
"""

import json
import sys
from typing import Any

from llama_stack_client import APIStatusError, LlamaStackClient

GROUP = "mcp::guarded"
FIELDS = (
    "identifier",
    "provider_id",
    "provider_resource_id",
    "type",
    "toolgroup_id",
    "tool_host",
    "name",
    "description",
)


def main() -> None:
    base_url, uri, value = sys.argv[1:]
    stranger: Any = LlamaStackClient(base_url=base_url, max_retries=0)
    data = {"mcp_headers": {uri: {"Authorization": value}}}
    client: Any = LlamaStackClient(base_url=base_url, max_retries=0, provider_data=data)
    stranger.toolgroups.register(toolgroup_id=GROUP, provider_id="model-context-protocol", mcp_endpoint={"uri": uri})
    (listed,) = client.tools.list(toolgroup_id=GROUP)
    (same,) = client.tool_runtime.list_tools(tool_group_id=GROUP)
    report(listed={name: getattr(listed, name) for name in FIELDS}, same={name: getattr(same, name) for name in FIELDS})
    ran = client.tool_runtime.invoke_tool(tool_name=f"{GROUP}/{listed.name}", kwargs={})
    report(content=[[item.type, item.text] for item in ran.content], error_code=ran.error_code, error=ran.error_message)
    report(
        list_refused=refused(lambda: stranger.tools.list(toolgroup_id=GROUP)),
        runtime_list_refused=refused(lambda: list(stranger.tool_runtime.list_tools(tool_group_id=GROUP))),
        invoke_refused=refused(lambda: stranger.tool_runtime.invoke_tool(tool_name=f"{GROUP}/echo", kwargs={})),
        all_listed=[tool.identifier for tool in stranger.tools.list()],
    )


def refused(act: Any) -> list[Any]:
    """Return the status that the act is refused with, and the reason."""
    try:
        act()
    except APIStatusError as error:
        return [error.status_code, error.response.json()["detail"]]
    return []


def report(**facts: object) -> None:
    print(json.dumps(facts))


main()
