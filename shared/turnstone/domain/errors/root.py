"""Root of the error tree, which is in the package's docstring."""


class TurnstoneError(Exception):
    """Base class of every Turnstone error.

    Attributes:
        may_be_repeated: False if a repetition of the request would be taken for an earlier one.
    """

    may_be_repeated = True
