"""Every scenario that has transcripts."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from tests.golden import connections, crashes, gateway, traffic
from tests.golden.play import Scenario
from tests.golden.scenarios.registry import WRITTEN

for _path in sorted((Path(__file__).parent / "scenarios").glob("*.py")):
    import_module(f"tests.golden.scenarios.{_path.stem}")  # adds its scenarios

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        *WRITTEN.values(),
        *traffic.scenarios(),
        *crashes.scenarios(),
        *gateway.scenarios(),
        *connections.scenarios(),
    )
}


def chosen(names: Sequence[str]) -> list[Scenario]:
    """Return the scenarios with one of these prefixes, all without prefixes."""
    return [scenario for name, scenario in SCENARIOS.items() if not names or name.startswith(tuple(names))]
