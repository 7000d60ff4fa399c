"""Root of the error tree, which is in the package's docstring."""


class TurnstoneError(Exception):
    """Root of the tree.

    Attributes:
        may_be_repeated: False if a repetition of the request would be taken for an earlier one.
    """

    may_be_repeated = True
