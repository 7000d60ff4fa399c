"""Stored chat completions, kept at their caller's request for a limited time."""

from collections.abc import Mapping
from datetime import datetime

from turnstone.domain.access.access import Ownership
from turnstone.domain.values.frozen import Frozen

MOST_IN_A_LIST = 100


class StoredCompletion(Frozen):
    """The list entry of a stored chat completion.

    Attributes:
        completion_id: its id on the wire, which sorts by the time of the request: its position in the list.
        ends_at: its expiry.
        is_large: whether its wire JSON is stored as a large payload, which a clean-up job has to remove.
    """

    completion_id: str
    model: str
    created_at: datetime
    ends_at: datetime
    metadata: Mapping[str, str] = {}
    stamp: Ownership = Ownership.model_construct()
    is_large: bool = False

    def is_over(self, now: datetime) -> bool:
        """Return whether it has expired, removed or not."""
        return now >= self.ends_at


class CompletionsQuery(Frozen):
    """The requested part of the list of stored chat completions.

    Attributes:
        after: the entry to continue after.
        metadata: only entries with all of these.
    """

    limit: int
    after: str | None = None
    model: str | None = None
    metadata: Mapping[str, str] = {}
    is_newest_first: bool = True

    def matches(self, completion: StoredCompletion) -> bool:
        """Return whether the completion matches the filters."""
        if self.model is not None and completion.model != self.model:
            return False
        return all(completion.metadata.get(name) == value for name, value in self.metadata.items())
