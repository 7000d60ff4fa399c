"""Options and output that several commands share."""

import argparse
import json
from typing import TYPE_CHECKING, TypeAlias

FAILED, INTERRUPTED = 1, 130
LOCAL_TENANT = "local"
if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Commands = object  # argparse has no public name for it


def add_json(parser: argparse.ArgumentParser, shape: str) -> None:
    """Add the option `--json`, whose output has that shape."""
    parser.add_argument("--json", action="store_true", help=f"print JSON: {shape}")


def add_tenant(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", type=name_of, default=LOCAL_TENANT, help="tenant (default: %(default)s)")


def name_of(text: str) -> str:
    """Return the value of an option that must not be blank."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2))
