"""Letta's client 1.12, unmodified: an agent is exported, imported, and exported again.

Arguments: base URL up to and including /letta, and the agent.
"""

import json
import sys

from letta_client import APIStatusError, Letta
from reporting import report


def refused(act: object) -> list[object]:
    try:
        act()
    except APIStatusError as error:
        return [error.status_code, str(error.body)]
    raise AssertionError("nothing was raised")


def main(base_url: str, agent_id: str) -> None:
    client = Letta(base_url=base_url, api_key="none")
    first = client.agents.export_file(agent_id)
    content = json.loads(first)

    def imported(changed: object, **more: object) -> list[str]:
        body = changed if isinstance(changed, bytes) else json.dumps(changed).encode()
        return client.agents.import_file(file=("agent.af", body), **more).agent_ids

    (made,) = imported(content, append_copy_suffix=False)
    (copied,) = imported(content)

    def messages_of(agent_id: str, **more: object) -> list[object]:
        return json.loads(client.agents.export_file(agent_id, **more))["agents"][0]["messages"]

    def name_of(agent_id: str) -> str:
        return json.loads(client.agents.export_file(agent_id))["agents"][0]["name"]

    report(
        exported=[content["agents"][0]["name"], len(content["agents"][0]["messages"])],
        is_equal=json.loads(client.agents.export_file(made)) == content,
        is_new=made not in (agent_id, copied),
        copy=name_of(copied),
        scrubbed=messages_of(agent_id, scrub_messages=True),
        stripped=messages_of(*imported(content, strip_messages=True)),
        named=name_of(*imported(content, name="Ann")),
        made=made,
        refused=[
            refused(lambda: imported({**content, "groups": [{"id": "group-0"}]})),
            refused(lambda: imported({**content, "skills": [{"name": "x"}]})),
            refused(lambda: imported(b"[" * 100_000)),
            refused(lambda: imported(content, secrets='{"KEY": "x"}')),
            refused(lambda: client.agents.export_file(agent_id, use_legacy_format=True)),
            refused(lambda: client.agents.export_file("agent-00000000-0000-0000-0000-000000000000")),
        ],
    )


main(*sys.argv[1:])
