"""A measured figure, its bar, and how both are shown."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import quantiles
from typing import Any, Literal

Must = Literal["be exactly", "be at most", "be at least"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A measurement, against its bar.

    Attributes:
        bar: the required value, None if it only informs.
        must: how it relates to its bar.
        is_asserted: it is the same on every machine, so a run that misses it has failed.
        spread: further values, such as the 10th and 90th percentile.
        note: more of it in words, for the table.
    """

    name: str
    measured: float
    unit: str
    bar: float | None = None
    must: Must = "be at most"
    is_asserted: bool = False
    spread: tuple[tuple[str, float], ...] = ()
    note: str = ""

    @property
    def is_met(self) -> bool:
        if self.bar is None:
            return True
        if self.must == "be at least":
            return self.measured >= self.bar
        return self.measured == self.bar if self.must == "be exactly" else self.measured <= self.bar

    @property
    def has_failed(self) -> bool:
        return self.is_asserted and not self.is_met

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "spread": dict(self.spread), "is_met": self.is_met}


def of_times(name: str, times_s: Sequence[float], bar_ms: float | None = None) -> Figure:
    """Return the median of the times."""
    tenths = quantiles(times_s, n=10)
    p10_ms, p50_ms, p90_ms = (tenths[index] * 1_000 for index in (0, 4, 8))
    return Figure(
        f"{name}, p50", p50_ms, "ms", bar_ms, spread=(("p10", p10_ms), ("p90", p90_ms), ("times", len(times_s)))
    )


def counted(name: str, measured: float, unit: str, bar: float, must: Must, *, note: str = "") -> Figure:
    return Figure(name, measured, unit, bar, must, is_asserted=True, note=note)


def table(figures: Iterable[Figure]) -> str:
    rows = [("figure", "measured", "bar", "")]
    rows += [(figure.name, _amount(figure.measured, figure.unit), _bar(figure), _last(figure)) for figure in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        f"{name:<{widths[0]}} | {measured:>{widths[1]}} | {bar:>{widths[2]}} | {verdict}".rstrip()
        for name, measured, bar, verdict in rows
    ]
    rule = "-+-".join("-" * width for width in (*widths, len("MISSED")))
    return "\n".join([lines[0], rule, *lines[1:]])


def _amount(number: float, unit: str) -> str:
    return f"{number:,.0f} {unit}".rstrip() if number == int(number) or number >= 1_000 else f"{number:,.2f} {unit}"


def _bar(figure: Figure) -> str:
    if figure.bar is None:
        return ""
    sign = {"be exactly": "=", "be at most": "≤", "be at least": "≥"}[figure.must]
    return f"{sign} {_amount(figure.bar, figure.unit)}"


def _last(figure: Figure) -> str:
    return f"{_verdict(figure):<6}  {figure.note}" if figure.note else _verdict(figure)


def _verdict(figure: Figure) -> str:
    if figure.bar is None:
        return ""
    if figure.is_met:
        return "ok"
    return "FAILED" if figure.is_asserted else "MISSED"
