"""Insertions of files into memory banks, by jobs."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from turnstone.domain.access.caller import Caller
from turnstone.domain.jobs import Job
from turnstone.domain.memory.banks import BankRef
from turnstone.domain.values.frozen import Frozen


class Ingestion(Frozen):
    """An insertion of a file, from its request until the end of its job.

    Attributes:
        caller: of the request; the bank's model is used in its name.
        replaced_file_id: a file to delete at the end, because this document was its only use; empty for none.
    """

    bank_id: str
    document_id: str
    insertion_id: str
    file_id: str
    caller: Caller
    replaced_file_id: str = ""


def ref_of(job: Job, bank_id: str = "") -> BankRef:
    """Return the bank of the job of an insertion."""
    return BankRef(job.tenant, job.order, bank_id or job.order)


class Adding(NamedTuple):
    """A request to insert files.

    Attributes:
        after: the only insertion that this one may replace, empty for none; None for any.
        is_only_use: whether the files are deleted at the end of their insertions.
        until: the end of the time in which this request does insertions of small files itself, and the time at which
            their jobs are due; None for none.
    """

    caller: Caller
    ref: BankRef
    after: str | None = None
    is_only_use: bool = False
    until: datetime | None = None


class Outdated(Exception):
    """The document has changed since the caller read it."""
