"""Chat completions that are kept because their caller wants it, each for some time."""

from collections.abc import Mapping
from datetime import datetime

from turnstone.domain.access.access import Stamp
from turnstone.domain.values.frozen import Frozen

MOST_IN_A_LIST = 100


class StoredCompletion(Frozen):
    """What a list knows of a stored chat completion.

    Attributes:
        completion_id: its id on the wire, whose text sorts by the time of the question: its place in the list.
        ends_at: until when it is kept.
        is_large: its wire JSON is kept with large payloads, so that a clean-up job has to remove it.
    """

    completion_id: str
    model: str
    created_at: datetime
    ends_at: datetime
    metadata: Mapping[str, str] = {}
    stamp: Stamp = Stamp.model_construct()
    is_large: bool = False

    def is_over(self, now: datetime) -> bool:
        """Tell whether it has been kept for its time, whether or not it is removed by now."""
        return now >= self.ends_at


class CompletionsQuery(Frozen):
    """Which part of the list of stored chat completions.

    Attributes:
        after: continue behind this one.
        metadata: only those that have all of these.
    """

    limit: int
    after: str | None = None
    model: str | None = None
    metadata: Mapping[str, str] = {}
    is_newest_first: bool = True

    def wants(self, completion: StoredCompletion) -> bool:
        """Tell whether the filters let the completion through."""
        if self.model is not None and completion.model != self.model:
            return False
        return all(completion.metadata.get(name) == value for name, value in self.metadata.items())
