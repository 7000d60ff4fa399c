"""The root of the tree of errors, see the package."""


class TurnstoneError(Exception):
    """The root of the tree.

    Attributes:
        may_be_repeated: False where the same request, sent again, would be taken for an earlier one.
    """

    may_be_repeated = True
