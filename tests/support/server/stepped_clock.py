"""A server whose wall clock can be set while it runs, as an operator or a time service sets a machine's.

Run as a module it is `turnstone serve` with a wall clock that reads its offset from a file.
`time.monotonic` is unchanged.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

from tests.support.server.servers import ServerProcess

VARIABLE = "STEPPED_CLOCK"


class SteppedServer(ServerProcess):
    """A server process whose wall clock is off by the value of `set_clock`; restarts share the value."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self._offset = folder / "offset"
        self.set_clock(timedelta())

    def set_clock(self, off: timedelta) -> None:
        """Set the server's wall clock to the machine's time and this much."""
        written = self._offset.with_suffix(".new")
        written.write_text(str(off.total_seconds()))
        written.replace(self._offset)

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "tests.support.server.stepped_clock"]

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), VARIABLE: str(self._offset)}


class SteppedDatetime(datetime):
    """The wall clock of this process."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Any:
        return datetime.now(tz) + timedelta(seconds=float(Path(os.environ[VARIABLE]).read_text()))


def main() -> None:
    from functions.local import server as local
    from turnstone.adapters.machine import system

    system.datetime = SteppedDatetime  # type: ignore[misc] # the one function that reads a server's wall clock
    local.serve()


if __name__ == "__main__":
    main()
