"""Every attack of `make attack`, at a small size; the slow ones only at night, when `make attack` runs as well.

Covers: tests/attack, functions/local
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attack.every_attack import every_attack
from tests.attack.finding import Attack
from tests.support.cases import NIGHTLY
from tests.support.starts.warm_starts import starts

FROM_COLD = {"the jail's secrets"}  # the environment of a warm server is not where the kernel shows it
AT_NIGHT = {"backups under load", "damaged databases", "full disk", "lost payloads"}
AT_NIGHT |= {
    "large insertions",
    "reading what is deleted",
    "readers that don't read",
    "stopped writer",
    "tenant's share",
    "code calls' memory",
}


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(attack, id=attack.subject.replace(" ", "_"), marks=NIGHTLY if attack.subject in AT_NIGHT else ())
        for attack in every_attack()
    ],
)
def test_an_attack_meets_its_bars(attack: Attack, tmp_path: Path) -> None:
    with starts(are_warm=attack.subject not in FROM_COLD):
        findings = list(attack.run(tmp_path, False))
    assert findings
    assert [finding for finding in findings if not finding.is_met] == []
