"""The list of all attacks: the `ATTACK` of each module of this folder."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path

from tests.attack.finding import Attack


def every_attack() -> tuple[Attack, ...]:
    """Return the attacks in the order of their modules' names."""
    names = sorted(
        module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if module.name != "__main__"
    )
    modules = [import_module(f"tests.attack.{name}") for name in names]
    return tuple(module.ATTACK for module in modules if hasattr(module, "ATTACK"))
