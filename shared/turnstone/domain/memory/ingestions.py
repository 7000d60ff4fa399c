"""Insertions of files into memory banks, by jobs."""

from __future__ import annotations

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
