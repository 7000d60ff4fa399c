"""Letta's own client, unmodified: sources of uploaded files, their jobs, and the archival memory of agents.

Arguments: base URL up to and including /letta, an act, and its id.
"""

import re
import sys
import time

from letta_client import EmbeddingConfig, Letta, LlmConfig
from letta_client.core.api_error import ApiError
from letta_client.types import Job
from reporting import report

EMBEDDING = EmbeddingConfig(
    embedding_model="none", embedding_endpoint_type="openai", embedding_endpoint="http://127.0.0.1:1", embedding_dim=8
)
LLM = LlmConfig(model="offline", model_endpoint_type="openai", model_endpoint="http://127.0.0.1:1", context_window=8192)
TEXT = "Knots probe the mud for clams and worms. " * 120


def ended(client: Letta, job_id: str) -> Job:
    while (job := client.jobs.get(job_id)).status in ("created", "running"):
        time.sleep(0.05)
    return job


def begin(client: Letta, _: str) -> None:
    source = client.sources.create(name="birds", embedding_config=EMBEDDING)
    job = client.sources.files.upload(source.id, file=("knots.txt", TEXT.encode(), "text/plain"))
    report(id=job.id, source=source.id, status=job.status)


def wait(client: Letta, job_id: str) -> None:
    job = ended(client, job_id)
    passages = client.sources.passages.list(job.metadata["source_id"])
    report(
        status=job.status, completed=job.completed_at is not None, same=len(passages) == job.metadata["num_passages"]
    )


def keep(client: Letta, _: str) -> None:
    source = client.sources.create(name="birds", embedding_config=EMBEDDING, metadata={"k": 1})
    report(
        made=[source.name, source.description, source.metadata, source.embedding_config.embedding_dim],
        named=client.sources.get_by_name("birds") == source.id,
        changed=client.sources.update(source.id, name="waders", description="d").name,
        read=[client.sources.get(source.id).description, [each.name for each in client.sources.list()]],
    )
    agent = client.agents.create(name="Sam", llm_config=LLM, embedding_config=EMBEDDING)
    job = client.sources.files.upload(source.id, file=("notes/knots.pdf.txt", TEXT.encode(), "text/plain"))
    report(
        begun=[job.status in ("created", "running"), job.job_type, job.metadata["filename"]],
        listed=[[each.id == job.id for each in client.jobs.list(source_id=source.id)], len(client.jobs.list())],
    )
    job = ended(client, job.id)
    before = len(client.agents.archival_memory.list(agent.id))
    attached = client.sources.attach(source.id, agent_id=agent.id)
    passages = client.agents.archival_memory.list(agent.id)
    (file,) = client.sources.files.list(source.id)
    report(
        job=[job.status, job.metadata["num_passages"] == len(passages) > 3, client.jobs.list_active()],
        attached=[attached.id == source.id, before, {each.source_id == source.id for each in passages} == {True}],
        file=[bool(re.fullmatch(r"knots\.pdf_[a-f0-9]{32}\.txt", file.file_name)), file.file_size, file.file_type],
        of_agent=[each.name for each in client.agents.sources.get(agent.id)],
        state=[each.name for each in client.agents.get(agent.id).sources],
        counted=client.agents.context.get(agent.id).num_archival_memory == len(passages),
        paged=len(client.sources.files.list(source.id, limit=1, cursor=file.id)),
        rest=[each.id for each in client.agents.archival_memory.list(agent.id, limit=2)]
        == [each.id for each in passages[:2]],
    )
    client.sources.detach(source.id, agent_id=agent.id)
    detached = [len(client.agents.archival_memory.list(agent.id)), client.agents.sources.get(agent.id)]
    removed = client.jobs.delete(job.id).id == job.id
    client.sources.files.delete(source.id, file.id)
    left = [client.sources.files.list(source.id), client.sources.passages.list(source.id), client.jobs.list()]
    report(detached=detached, removed=removed, left=left, deleted=client.sources.delete(source.id))
    missing = []
    for act in (
        lambda: client.sources.get(source.id),
        lambda: client.sources.get_by_name("waders"),
        lambda: client.sources.attach(source.id, agent_id=agent.id),
        lambda: client.sources.files.list(source.id),
        lambda: client.jobs.get(job.id),
    ):
        try:
            act()
        except ApiError as error:
            missing.append([error.status_code, error.body["code"]])
    report(missing=missing)


def main(base_url: str, act: str, text: str = "") -> None:
    {"begin": begin, "wait": wait, "keep": keep}[act](Letta(base_url=base_url), text)


main(*sys.argv[1:])
