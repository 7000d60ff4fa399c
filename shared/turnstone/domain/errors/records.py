"""Errors of stored records and of the store; the tree is in the package's docstring."""

from typing import Any

from turnstone.domain.errors.root import TurnstoneError


class LeaseLost(TurnstoneError):
    """This process may no longer write to the turn: another process took it over, or it was ended."""

    def __init__(self, turn_id: str) -> None:
        super().__init__(
            f"turn {turn_id!r} was taken over or ended by another process; read it to see how it continues"
        )
        self.turn_id = turn_id


class ContentLost(TurnstoneError):
    """Stored content is missing or damaged, permanently."""

    may_be_repeated = False

    def __init__(self, kind: str, identifier: str) -> None:
        super().__init__(
            f"the content of {kind} {identifier!r} is lost: the server's stored copy is missing or damaged; "
            "only a backup of the server's data brings it back"
        )
        self.kind = kind
        self.identifier = identifier


class StoreUnavailable(TurnstoneError):
    """The store can't be read or written now.

    Attributes:
        may_be_applied_later: whether the store may still apply a write after this was raised for it.
    """

    def __init__(self, message: str, *, may_be_applied_later: bool = False) -> None:
        super().__init__(message)
        self.may_be_applied_later = may_be_applied_later


class RecordTooNew(StoreUnavailable):
    """A newer version of Turnstone stored the record in a format that this one cannot read."""

    may_be_repeated = False

    def __init__(self, kind: str, identifier: str, form: str) -> None:
        """Take the kind and id of the record, and the name of its format, such as `2`."""
        super().__init__(
            f"{kind} {identifier!r} was stored by a newer version of Turnstone (format {form}), which this version "
            "cannot read and leaves unchanged; run the newer version to use it"
        )
        self.kind = kind
        self.identifier = identifier


class Conflict(TurnstoneError):
    """A condition of an atomic write did not hold, so nothing was written.

    Attributes:
        operation: the index of the first operation whose condition failed.
        key: that operation's key, a `Key` of the ports.
        found: the existing `Record`, None if there was none.
    """

    def __init__(self, operation: int, key: Any, found: Any) -> None:
        super().__init__(f"operation {operation} on {key!r}: its condition does not hold")
        self.operation = operation
        self.key = key
        self.found = found
