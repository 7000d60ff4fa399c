"""The same requests to two servers, in turns, so that other load of the machine falls on both; and the results."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from tests.benchmarks.client_operations import Furnishing, Kind
from tests.benchmarks.clients import DrivenLoad, drive, quantile
from tests.benchmarks.processes import Server

FEW = 3


@dataclass(frozen=True, slots=True)
class Party:
    """One of the servers, with its agents and sessions."""

    name: str
    server: Server
    furnishing: Furnishing


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to measure: so often in turns, so many seconds of each server and kind in all."""

    rounds: int
    seconds: float


@dataclass
class Observation:
    """The figures of one server for one kind of request.

    Attributes:
        load: the results of its clients.
        cpu_s: the server's processor time, user and system.
        model_cpu_s: the model server's.
        context_messages: how many messages the model server got last; None if the kind needs no model.
    """

    load: DrivenLoad = field(default_factory=DrivenLoad)
    cpu_s: float = 0.0
    model_cpu_s: float = 0.0
    context_messages: int | None = None

    @property
    def requests(self) -> int:
        return len(self.load.times_s)

    @property
    def rate(self) -> float:
        return self.requests / self.load.took_s if self.load.took_s else 0.0

    @property
    def cpu_s_of_a_thousand(self) -> float:
        return self.cpu_s / max(1, self.requests) * 1_000

    @property
    def client_share(self) -> float:
        """Which share of a core the clients took."""
        return self.load.own_cpu_s / self.load.took_s if self.load.took_s else 0.0

    def quantile_ms(self, share: float) -> float:
        """Return the time that this share of requests took at most; 0 if none went well."""
        return quantile(self.load.times_s, share) * 1_000

    def to_json(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "failed": len(self.load.failures),
            "failures": self.load.failures[:FEW],
            "took_s": self.load.took_s,
            "rate": self.rate,
            "p50_ms": self.quantile_ms(0.5),
            "p99_ms": self.quantile_ms(0.99),
            "cpu_s_of_a_thousand": self.cpu_s_of_a_thousand,
            "cpu_s": self.cpu_s,
            "model_cpu_s": self.model_cpu_s,
            "client_share": self.client_share,
            "context_messages": self.context_messages,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """A kind of request at both servers; the bar is for how many times as many ours answers in the same time."""

    kind: str
    clients: int
    bar: float | None
    ours: Observation
    peer: Observation

    @property
    def ratio(self) -> float:
        return self.ours.rate / self.peer.rate if self.peer.rate else 0.0

    @property
    def verdict(self) -> str:
        if self.bar is None:
            return ""
        return "ok" if self.ratio >= self.bar else "MISSED"

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "clients": self.clients,
            "ratio": self.ratio,
            "bar": self.bar,
            "verdict": self.verdict,
            "ours": self.ours.to_json(),
            "peer": self.peer.to_json(),
        }


def compared(
    kind: Kind, clients: int, parties: Sequence[Party], model: Server, pace: Pace
) -> Mapping[str, Observation]:
    """Return the figures of each party; the parties take turns until each has had its time."""
    observed = {party.name: Observation() for party in parties}
    operations = {party.name: kind.operations(party.furnishing) for party in parties}
    for _ in range(pace.rounds):
        for party in parties:
            mine = observed[party.name]
            # A slow one has used its time up in the first round: requests under way are waited for.
            if mine.load.took_s >= pace.seconds:
                continue
            cpu_before_s, model_cpu_before_s = party.server.cpu_s(), model.cpu_s()
            mine.load.add(
                drive(
                    party.server.port, islice(operations[party.name], kind.at_most), clients, pace.seconds / pace.rounds
                )
            )
            mine.cpu_s += party.server.cpu_s() - cpu_before_s
            mine.model_cpu_s += model.cpu_s() - model_cpu_before_s
            if kind.needs_model:
                mine.context_messages = messages_of_last(model)
    return observed


def messages_of_last(model: Server) -> int:
    """Return how many messages the model server's last request had."""
    with model.connect() as connection:
        body = {"model": "messages-of-last", "messages": [{"role": "user", "content": "How many?"}]}
        answer = connection.post("/v1/chat/completions", body).json()
    return int(answer["choices"][0]["message"]["content"])


def table_of_rates(comparisons: Iterable[Comparison]) -> str:
    """Return how many requests a second each answers, against the bars."""
    rows = [("request", "clients", "ours 1/s", "peer 1/s", "ratio", "bar", "")]
    rows += [
        (
            one.kind,
            str(one.clients),
            f"{one.ours.rate:,.1f}",
            f"{one.peer.rate:,.2f}",
            f"{one.ratio:,.1f} ×",
            "" if one.bar is None else f"≥ {one.bar:g} ×",
            one.verdict,
        )
        for one in comparisons
    ]
    return aligned(rows)


def table_of_times(comparisons: Iterable[Comparison]) -> str:
    """Return the times, the servers' processor time, and the clients' share of a core."""
    rows: list[tuple[str, ...]] = [
        ("request", "clients", "ours n", "p50 ms", "p99 ms", "CPU s/1,000", "client",
         "peer n", "p50 ms", "p99 ms", "CPU s/1,000", "client", "failed")
    ]  # fmt: skip
    rows += [
        (
            one.kind,
            str(one.clients),
            *_times(one.ours),
            *_times(one.peer),
            f"{len(one.ours.load.failures)} / {len(one.peer.load.failures)}",
        )
        for one in comparisons
    ]
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows as a table, the first as its head; the first column and the last are aligned to the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = list(_lines(rows, widths))
    return "\n".join([lines[0], "-+-".join("-" * width for width in widths), *lines[1:]])


def _lines(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    for first, *middle, last in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(middle, widths[1:-1], strict=True)]
        yield " | ".join([f"{first:<{widths[0]}}", *cells, last]).rstrip()


def _times(observed: Observation) -> tuple[str, ...]:
    return (
        f"{observed.requests:,}",
        f"{observed.quantile_ms(0.5):,.1f}",
        f"{observed.quantile_ms(0.99):,.1f}",
        f"{observed.cpu_s_of_a_thousand:,.2f}",
        f"{observed.client_share:.0%}",
    )
