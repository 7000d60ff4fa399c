"""Every attack of `make attack`, at a small size.

Covers: tests/attack, functions/local
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attack.every_attack import every_attack
from tests.attack.finding import Attack


@pytest.mark.parametrize("attack", every_attack(), ids=lambda attack: attack.subject.replace(" ", "_"))
def test_an_attack_meets_its_bars(attack: Attack, tmp_path: Path) -> None:
    findings = list(attack.run(tmp_path, False))
    assert findings
    assert [finding for finding in findings if not finding.is_met] == []
