"""Jobs of Letta's API: insertions of uploaded files, as its clients read them."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import RootModel

from turnstone.dialects.letta.ids import shown, user_id
from turnstone.dialects.letta.message_requests import LIMIT, TEXT, limit_in
from turnstone.domain.letta.sources import JOB_KIND, JobQuery, LettaJob, sent_name, source_id_in
from turnstone.domain.memory.documents import Document
from turnstone.domain.values.frozen import Frozen

DEFAULT_JOBS = 50
ACTIVE_JOBS_QUERY: Mapping[str, str | Mapping[str, Any]] = {
    "limit": {"description": "How many jobs to return at most, of the newest.", "schema": LIMIT},
}
JOBS_QUERY: Mapping[str, str | Mapping[str, Any]] = {
    "source_id": {"description": "Only jobs of this source.", "schema": TEXT},
    **ACTIVE_JOBS_QUERY,
}
CANCELLED = "the insertion was cancelled"
JobStatus = Literal["created", "running", "completed", "failed"]


class JobObject(Frozen):
    """The insertion of an uploaded file."""

    created_by_id: str
    last_updated_by_id: str
    created_at: datetime
    updated_at: datetime
    status: JobStatus
    completed_at: datetime | None
    metadata_: dict[str, Any]
    job_type: Literal["job"] = "job"
    id: str
    user_id: str


class JobObjects(RootModel[tuple[JobObject, ...]]):
    """Jobs, newest first."""


def job_of(job: LettaJob) -> JobObject:
    """Return the job as the API shows it: the number of passages once it is completed, or why it failed."""
    listed, document = job.listed, job.document
    user, status = user_id(listed.stamp.owner), _status_of(document)
    ended_at = (document.ended_at or document.created_at) if status in ("completed", "failed") else None
    return JobObject(
        created_by_id=user,
        last_updated_by_id=user,
        created_at=listed.created_at,
        updated_at=ended_at or listed.created_at,
        status=status,
        completed_at=ended_at,
        metadata_=_metadata_of(job, status) if job.is_seen else {},
        id=shown(JOB_KIND, listed.order),
        user_id=user,
    )


def jobs_of(jobs: Iterable[LettaJob]) -> JobObjects:
    """Return the jobs as the API shows them."""
    return JobObjects(tuple(map(job_of, jobs)))


def jobs_query(query: Mapping[str, list[str]]) -> JobQuery:
    """Return the query of a request. Raises InvalidRequest."""
    source_id = query["source_id"][-1] if query.get("source_id") else None
    return JobQuery(_limit_in(query), None if source_id is None else source_id_in(source_id))


def active_jobs_query(query: Mapping[str, list[str]]) -> JobQuery:
    """Return the query of a request. Raises InvalidRequest."""
    return JobQuery(_limit_in(query), is_active=True)


def _limit_in(query: Mapping[str, list[str]]) -> int:
    return limit_in(query["limit"][-1] if query.get("limit") else None, DEFAULT_JOBS)


def _status_of(document: Document) -> JobStatus:
    match document.status:
        case "in_progress":
            return "created" if document.progress is None else "running"
        case "completed":
            return "completed"
        case _:
            return "failed"


def _metadata_of(job: LettaJob, status: JobStatus) -> dict[str, Any]:
    listed, document = job.listed, job.document
    name = sent_name(document.filename or listed.file_id)
    found: dict[str, Any] = {"type": "embedding", "filename": name, "source_id": listed.source_id}
    if status == "completed":
        found |= {"num_passages": document.chunks, "num_documents": 1}
    elif document.last_error is not None:
        found["error"] = document.last_error.message
    elif status == "failed":
        found["error"] = CANCELLED
    return found
