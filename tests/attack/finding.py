"""The outcome of an attack: one row of the table for each bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple


class Finding(NamedTuple):
    """One bar, and the figure that was measured against it.

    Attributes:
        what: a short name of the attack, such as "120 MB of header lines on one connection".
        measured: the figure with its unit, such as "431 after 64 KB, 3 MB more memory".
        bar: the limit it is held against, such as "431, at most 5 MB".
        is_met: whether the figure is within the bar.
    """

    what: str
    measured: str
    bar: str
    is_met: bool


class Attack(NamedTuple):
    """One kind of attack.

    Attributes:
        subject: the first column of the table.
        run: called with an empty folder of its own and whether to attack at full size; at a small size it takes a few
            seconds, because every run of the tests includes most attacks.
    """

    subject: str
    run: Callable[[Path, bool], Iterator[Finding]]
