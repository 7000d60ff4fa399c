"""How two answers to the same request differ, apart from their contents: statuses, field paths, kinds of events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tests.beside.recording import Exchange

TYPES = {str: "text", int: "number", float: "number", bool: "bool", type(None): "null"}


@dataclass(frozen=True, order=True)
class Difference:
    """A difference.

    Attributes:
        route: of which request.
        what: `status`, `field …`, `events`, `requests`.
        theirs, ours: the value of either, as text.
        row: in which row of the table of clients.
    """

    route: str
    what: str
    theirs: str
    ours: str
    row: str = ""


def differences(theirs: Sequence[Exchange], ours: Sequence[Exchange]) -> Iterator[Difference]:
    """Yield the differences between both answers to the same steps of a client."""
    for their, our in zip(theirs, ours, strict=False):
        if their.route != our.route:
            yield Difference(their.route, "the next request", their.route, our.route)
            return
        yield from differences_of_answers(their, our)
        if (their.status < 300) != (our.status < 300):
            return
    if len(theirs) != len(ours):
        longer = max(theirs, ours, key=len)
        route = longer[min(len(theirs), len(ours))].route
        yield Difference(
            route, "the next request", *("made" if len(one) == len(longer) else "not made" for one in (theirs, ours))
        )


def differences_of_answers(their: Exchange, our: Exchange) -> Iterator[Difference]:
    if their.status != our.status:
        yield Difference(their.route, "status", str(their.status), str(our.status))
        return
    if their.is_stream != our.is_stream:
        yield Difference(their.route, "stream", str(their.is_stream), str(our.is_stream))
        return
    if their.is_stream:
        kinds = [kinds_of(exchange.events) for exchange in (their, our)]
        if kinds[0] != kinds[1]:
            yield Difference(their.route, "events", *(" · ".join(each) for each in kinds))
    fields = [fields_of(exchange) for exchange in (their, our)]
    for path in sorted(fields[0].keys() | fields[1].keys()):
        if is_within_missing(path, *fields):
            continue
        theirs, ours = (" or ".join(sorted(each.get(path, {"absent"}))) for each in fields)
        if theirs != ours:
            yield Difference(their.route, f"field {path}", theirs, ours)


def is_within_missing(path: str, *fields: Mapping[str, set[str]]) -> bool:
    """Return whether a field is part of one that one side has not, which is a difference already."""
    parts = path.replace("[]", ".[]").split(".")
    befores = [".".join(parts[:number]).replace(".[]", "[]") for number in range(1, len(parts))]
    return any(
        any(before not in each or each[before] == {"null"} for each in fields)
        and any(before in each for each in fields)
        for before in befores
    )


def kinds_of(events: Sequence[Any]) -> list[str]:
    """Return the kinds of events; several of a kind in a row are one."""
    return [kind for kind, _ in groupby(map(kind_of, events))]


def kind_of(event: Any) -> str:
    if not isinstance(event, Mapping):
        return str(event)
    if "error" in event:
        return "error"
    payload = event.get("event", event)
    payload = payload.get("payload", payload)
    delta = payload.get("delta")
    parts = [payload.get("event_type") or payload.get("object"), payload.get("step_type")]
    if payload.get("event_type") in ("step_progress", "progress") and isinstance(delta, Mapping):
        parts += [delta.get("type"), delta.get("parse_status")]
    return " ".join(str(part) for part in parts if part)


def fields_of(exchange: Exchange) -> dict[str, set[str]]:
    """Return the types that each field path of an answer has."""
    found: dict[str, set[str]] = {}
    for value in exchange.events if exchange.is_stream else [exchange.parsed]:
        prefix = f"<{kind_of(value)}>" if exchange.is_stream and isinstance(value, Mapping) else ""
        for path, kind in paths_of(value, prefix):
            found.setdefault(path, set()).add(kind)
    return found


def paths_of(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            if path:
                yield path, "object"
            for name, inner in value.items():
                yield from paths_of(inner, f"{path}.{name}" if path else name)
        case list():
            yield path, "list"
            for inner in value:
                yield from paths_of(inner, f"{path}[]")
        case _:
            yield path, TYPES[type(value)]
