"""Letta's client 1.12, unmodified, at the paths that it calls differently from its earlier versions.

Arguments: base URL up to and including /letta.
"""

import sys
import time
from collections.abc import Callable

from letta_client import APIStatusError, Letta
from reporting import report

EMBEDDING = {"embedding_model": "none", "embedding_endpoint_type": "openai", "embedding_dim": 8}
LLM = {"model": "offline", "model_endpoint_type": "openai", "context_window": 8192}


def read(answer: object) -> object:
    """Return the answer, which must have every field that its type requires, of an agent all but `blocks`."""
    for each in answer if isinstance(answer, list) else [answer]:
        fields = each.to_dict()
        type(each).model_validate({"blocks": fields["memory"]["blocks"], **fields} if "memory" in fields else fields)
    return answer


def refused(act: Callable[[], object]) -> list[object]:
    try:
        act()
    except APIStatusError as error:
        return [error.status_code, str(error.body["detail"])]
    raise AssertionError("nothing was raised")


def main(base_url: str) -> None:
    client = Letta(base_url=base_url, api_key="none", max_retries=0)
    blocks = [{"label": label, "value": label} for label in ("human", "persona", "pet")]
    agent = client.agents.create(name="Sam", llm_config=LLM, embedding_config=EMBEDDING, memory_blocks=blocks)
    of_agent = client.agents
    tools = list(of_agent.tools.list(agent.id))
    search = next(each for each in tools if each.name == "conversation_search")

    def names() -> list[str]:
        return [read(each).name for each in of_agent.tools.list(agent.id, limit=2)]

    report(
        tools=[each.name for each in tools] == names(),
        detached=[each.name for each in read(of_agent.tools.detach(search.id, agent_id=agent.id)).tools] == names(),
        without=search.name in names(),
        attached=search.name in [each.name for each in read(of_agent.tools.attach(search.id, agent_id=agent.id)).tools],
        again=search.name in names(),
    )
    report(
        labels=[read(each).label for each in of_agent.blocks.list(agent.id, limit=1)],
        first=[each.label for each in of_agent.blocks.list(agent.id, limit=2, order="asc").items],
        block=read(of_agent.blocks.retrieve("pet", agent_id=agent.id)).value,
        changed=read(of_agent.blocks.update("pet", agent_id=agent.id, value="cat", description="d", limit=50)).value,
        seen=of_agent.blocks.retrieve("pet", agent_id=agent.id).to_dict(mode="json", exclude_unset=True),
    )
    (passage,) = read(of_agent.passages.create(agent.id, text="Herons nest in spring."))
    of_agent.passages.create(agent.id, text="Knots probe the mud.")
    report(
        passages=[each.text for each in read(of_agent.passages.list(agent.id))],
        later=[each.text for each in of_agent.passages.list(agent.id, after=passage.id, ascending=True)],
        deleted=of_agent.passages.delete(passage.id, agent_id=agent.id) is not None,
        left=[each.text for each in of_agent.passages.list(agent.id, limit=5)],
    )
    made = [read(client.folders.create(name=name, embedding_config=EMBEDDING)) for name in ("birds", "fish", "trees")]
    folder = made[0]
    sent = {"file": ("herons.txt", b"Herons nest in spring.", "text/plain")}
    form = {"Content-Type": "multipart/form-data"}
    job = client.post(f"/v1/sources/{folder.id}/upload", cast_to=object, files=sent, options={"headers": form})
    while client.get(f"/v1/jobs/{job['id']}", cast_to=object)["status"] != "completed":
        time.sleep(0.05)
    for each in made:
        client.post(f"/v1/sources/{each.id}/attach?agent_id={agent.id}", cast_to=object)
    (file,) = client.folders.files.list(folder.id)
    report(
        folders=[read(each).name for each in client.folders.list(limit=2)],
        folder=read(client.folders.retrieve(folder.id)).name,
        renamed=read(client.folders.update(folder.id, name="waders", description="d")).description,
        of_agent=[read(each).name for each in of_agent.folders.list(agent.id, limit=1)],
        file=[read(file).file_name.partition("_")[0], file.source_id == folder.id],
        file_deleted=client.folders.files.delete(file.id, folder_id=folder.id),
        files=list(client.folders.files.list(folder.id)),
        folder_deleted=client.folders.delete(folder.id),
        rest=[each.name for each in client.folders.list()],
    )
    report(
        all=[
            [each.name for each in client.agents.list(limit=1)],
            sorted(each.label for each in client.blocks.list(limit=1, templates_only=False)),
            len(list(client.tools.list(limit=3))) == len(client.tools.list().items),
        ],
        unknown=[
            refused(lambda: client.folders.retrieve(folder.id)),
            refused(lambda: of_agent.blocks.retrieve("none", agent_id=agent.id)),
            refused(lambda: of_agent.blocks.list(agent.id, after="block-none")),
        ],
        refused=[
            refused(lambda: of_agent.blocks.list(agent.id, order="desc")),
            refused(lambda: client.folders.list(before=made[1].id)),
            refused(lambda: of_agent.blocks.update("pet", agent_id=agent.id, read_only=True)),
            refused(lambda: client.folders.create(name="a", metadata={"k": 1})),
            refused(lambda: of_agent.passages.create(agent.id, text="a", tags=["b"])),
            refused(lambda: of_agent.passages.list(agent.id, search="a")),
            refused(lambda: of_agent.passages.list(agent.id, ascending=False)),
        ],
        missing=[
            refused(lambda: of_agent.blocks.attach("block-0", agent_id=agent.id)),
            refused(lambda: of_agent.folders.attach(made[1].id, agent_id=agent.id)),
            refused(lambda: client.folders.files.upload(made[1].id, file=b"a")),
            refused(lambda: of_agent.passages.search(agent.id, query="a")),
        ],
    )


main(*sys.argv[1:])
