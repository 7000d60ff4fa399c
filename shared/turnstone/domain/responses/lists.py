"""The requested parts of lists of responses, and of their input items."""

from turnstone.domain.values.frozen import Frozen

MOST_RESPONSES = 100


class ResponsesQuery(Frozen):
    """The requested part of the list of responses.

    Attributes:
        after: the turn of the response to continue after.
        model: only those of this model.
    """

    limit: int
    after: str | None = None
    model: str | None = None
    is_newest_first: bool = True


class ItemsQuery(Frozen):
    """The requested part of a list of items. `after` and `before` are ids of items."""

    limit: int
    after: str | None = None
    before: str | None = None
    is_newest_first: bool = True
