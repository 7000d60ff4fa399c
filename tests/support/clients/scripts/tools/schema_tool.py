"""A client's tool described by a JSON schema, and the server's own tools as listed. Arguments: base URL, the tool.

For clients of 0.3, which define tools by schemas.
"""

import json
import sys

from llama_stack_client import BadRequestError, LlamaStackClient
from reporting import report


def main() -> None:
    client = LlamaStackClient(base_url=sys.argv[1], _strict_response_validation=True)
    agents = client.alpha.agents
    tool = json.loads(sys.argv[2])
    config = {"model": "m", "instructions": "Be brief.", "client_tools": [tool]}
    agent_id = agents.create(agent_config=config).agent_id
    (read,) = agents.retrieve(agent_id).agent_config.client_tools
    report(read={name: getattr(read, name) for name in tool})
    session_id = agents.session.create(agent_id, session_name="first").session_id
    messages = [{"role": "user", "content": "hello"}]
    agents.turn.create(session_id, agent_id=agent_id, messages=messages)
    try:
        agents.create(agent_config={**config, "client_tools": [{**tool, "input_schema": {"type": "string"}}]})
    except BadRequestError as refused:
        report(refused=str(refused))

    (listed,) = client.tools.list(toolgroup_id="builtin::clock")
    same = [client.tools.get(listed.name), *client.tool_runtime.list_tools(tool_group_id="builtin::clock")]
    report(listed=[[t.name, t.toolgroup_id, t.input_schema] for t in (listed, *same)])
    report(groups=[group.identifier for group in client.toolgroups.list()])


main()
