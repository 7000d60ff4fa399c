"""Two servers asked the same, in turns, so that what else the machine does falls on both; and what came of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from tests.benchmarks.clients import Asked, ask, quantile
from tests.benchmarks.operations_asked import Kind, Place
from tests.benchmarks.processes import Server

FEW = 3


@dataclass(frozen=True, slots=True)
class Party:
    """One of the servers, with what there is to ask of it."""

    name: str
    server: Server
    place: Place


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to ask: so often in turns, so many seconds of each server and kind in all."""

    rounds: int
    seconds: float


@dataclass
class Told:
    """What one server showed when asked one kind of request.

    Attributes:
        asked: what its clients saw.
        cpu_s: the server's processor time, user and system.
        model_cpu_s: the model server's.
        context_messages: how many messages the model server got last; None if the kind asks no model.
    """

    asked: Asked = field(default_factory=Asked)
    cpu_s: float = 0.0
    model_cpu_s: float = 0.0
    context_messages: int | None = None

    @property
    def requests(self) -> int:
        return len(self.asked.times_s)

    @property
    def rate(self) -> float:
        return self.requests / self.asked.took_s if self.asked.took_s else 0.0

    @property
    def cpu_s_of_a_thousand(self) -> float:
        return self.cpu_s / max(1, self.requests) * 1_000

    @property
    def client_share(self) -> float:
        """Which share of a core the clients took."""
        return self.asked.own_cpu_s / self.asked.took_s if self.asked.took_s else 0.0

    def quantile_ms(self, share: float) -> float:
        """Return the time that this share of requests took at most; 0 if none went well."""
        return quantile(self.asked.times_s, share) * 1_000

    def to_json(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "failed": len(self.asked.failures),
            "failures": self.asked.failures[:FEW],
            "took_s": self.asked.took_s,
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
    ours: Told
    peer: Told

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


def compared(kind: Kind, clients: int, parties: Sequence[Party], model: Server, pace: Pace) -> Mapping[str, Told]:
    """Return what each party shows; the parties take turns until each has been asked for its time."""
    told = {party.name: Told() for party in parties}
    operations = {party.name: kind.operations(party.place) for party in parties}
    for _ in range(pace.rounds):
        for party in parties:
            mine = told[party.name]
            # A slow one has used its time up in the first round: what has begun is waited for.
            if mine.asked.took_s >= pace.seconds:
                continue
            cpu_before_s, model_cpu_before_s = party.server.cpu_s(), model.cpu_s()
            mine.asked.add(
                ask(
                    party.server.port, islice(operations[party.name], kind.at_most), clients, pace.seconds / pace.rounds
                )
            )
            mine.cpu_s += party.server.cpu_s() - cpu_before_s
            mine.model_cpu_s += model.cpu_s() - model_cpu_before_s
            if kind.asks_model:
                mine.context_messages = messages_of_last(model)
    return told


def messages_of_last(model: Server) -> int:
    """Return how many messages the model server was last asked with."""
    with model.connect() as connection:
        body = {"model": "messages-of-last", "messages": [{"role": "user", "content": "How many?"}]}
        told = connection.post("/v1/chat/completions", body).json()
    return int(told["choices"][0]["message"]["content"])


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
    """Return how long each takes, what it costs the servers, and what share of a core the clients took."""
    rows = [
        ("request", "clients", "ours n", "p50 ms", "p99 ms", "CPU s/1,000", "client",
         "peer n", "p50 ms", "p99 ms", "CPU s/1,000", "client", "failed")
    ]  # fmt: skip
    rows += [
        (
            one.kind,
            str(one.clients),
            *_times(one.ours),
            *_times(one.peer),
            f"{len(one.ours.asked.failures)} / {len(one.peer.asked.failures)}",
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


def _times(told: Told) -> tuple[str, ...]:
    return (
        f"{told.requests:,}",
        f"{told.quantile_ms(0.5):,.1f}",
        f"{told.quantile_ms(0.99):,.1f}",
        f"{told.cpu_s_of_a_thousand:,.2f}",
        f"{told.client_share:.0%}",
    )
