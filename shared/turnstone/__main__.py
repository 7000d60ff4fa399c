"""The command `turnstone`, also as `python -m turnstone`."""

import sys
from importlib import import_module

COMMAND = "turnstone.functions.command.main"


def main() -> None:
    """Run the command with the arguments of this process."""
    import_module(COMMAND).main(sys.argv[1:])


if __name__ == "__main__":
    main()
