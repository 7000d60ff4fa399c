"""Options that several commands share, and the parser of each."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

FAILED, INTERRUPTED = 1, 130
LOCAL_TENANT = "local"


class CommandParser(argparse.ArgumentParser):
    """A parser that refuses unknown arguments itself, with the usage of its own command.

    Attributes:
        hint: follows the error for unknown arguments.
    """

    hint = ""

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> tuple[Any, list[str]]:  # type: ignore[override] # one signature for its overloads
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self.hint}")
        return found, unknown


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
