"""Options that several commands share, and the parser of each."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

FAILED, INTERRUPTED = 1, 130
LOCAL_TENANT = "local"


class CommandParser(argparse.ArgumentParser):
    """A parser that the options it reads refer to as `parser`, so that errors show the usage of their command.

    Attributes:
        hint: the end of the error about unrecognized arguments.
    """

    hint = ""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.set_defaults(parser=self)

    def refuse(self, unrecognized: Sequence[str]) -> NoReturn:
        """End the process with status 2."""
        self.error(f"unrecognized arguments: {' '.join(unrecognized)}{self.hint}")


if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[CommandParser]
else:
    Commands = object  # argparse has no public name for it


def add_json(parser: argparse.ArgumentParser, shape: str) -> None:
    """Add the option `--json`, whose output has that shape."""
    parser.add_argument("--json", action="store_true", help=f"print JSON: {shape}")


def add_tenant(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--tenant", type=name_of, default=LOCAL_TENANT, help="tenant (default: %(default)s)")


def name_of(text: str) -> str:
    """Return the value of an option that must not be blank."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return text
