"""A server of several processes: they share their sessions and turns, and the death of one loses none.

Covers: functions/local
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.fakes.models.openai_server import ModelServer
from tests.support.cases import rest_at_night
from tests.support.clients.plain_client import PlainClient, answering, text_in, turn_body
from tests.support.server.served import ONE_SECOND, TOOL, WORDS, Served, begin_and_leave
from tests.support.server.servers import HOST, ServerProcess, wait_until

pytestmark = pytest.mark.timeout(120)
CLIENTS = 8
CROWD = 600  # more than the system keeps for processes that do not take them
SHORT_LEASE_S, LEASE_S = 1, 30
PATIENCE_S = 30.0  # a process takes its time to start where others are busy
ESTABLISHED = "01"


@pytest.fixture
def newcomers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def serving(server: ServerProcess) -> list[int]:
    """Return the processes that the server has started."""
    pid = server.process_id
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def process_of(server: ServerProcess, client: PlainClient) -> int:
    """Return the process at the other end of the client's connection, read from /proc."""
    ends = (f":{server.port:04X}", f":{client.port():04X}", ESTABLISHED)
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    # a set: the table is read in several pieces, and a row can come twice while it changes
    (inode,) = {line[9] for line in lines if (line[1][-5:], line[2][-5:], line[3]) == ends}
    (pid,) = [pid for pid in serving(server) if f"socket:[{inode}]" in open_files(pid)]
    return pid


def open_files(pid: int) -> set[str]:
    folder = Path(f"/proc/{pid}/fd")
    found = set()
    for descriptor in folder.iterdir():
        with suppress(FileNotFoundError):  # closed since
            found.add(os.readlink(descriptor))
    return found


def in_another(server: ServerProcess, client: PlainClient, stack: ExitStack) -> PlainClient:
    """Return a client that another process answers."""
    here = process_of(server, client)
    others: list[PlainClient] = []

    def is_elsewhere() -> bool:
        others.append(stack.enter_context(PlainClient(server.url)))
        return process_of(server, others[-1]) != here

    wait_until(is_elsewhere, PATIENCE_S, "one process answers every client")
    return others[-1]


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}/exe").is_symlink() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]


# ── sharing of connections ───────────────────────────────────────────────────────────────────────────────────────


def test_connections_are_shared_evenly(served: Served, newcomers: ExitStack) -> None:
    server, _ = served(processes=2)
    clients = [newcomers.enter_context(PlainClient(server.url)) for _ in range(CLIENTS)]
    shares = Counter(process_of(server, client) for client in clients)
    assert shares == dict.fromkeys(serving(server), CLIENTS // 2)


def test_turns_of_many_connections_run_in_all_processes(served: Served, newcomers: ExitStack) -> None:
    server, client = served(processes=3)
    session = client.open_session()
    for number in range(3):
        newcomers.enter_context(PlainClient(server.url)).post(f"{session}/turn", turn_body(f"question {number}"))
    turns = [line for line in server.log.splitlines() if "/turn 200" in line]
    assert {int(line.split("[")[1].split("]")[0]) for line in turns} == set(serving(server))
    assert len(client.get(session)["turns"]) == 3


def test_connections_wait_while_no_process_takes_them(served: Served, newcomers: ExitStack) -> None:
    server, _ = served(processes=2)
    children = serving(server)
    for pid in children:
        os.kill(pid, signal.SIGSTOP)
    crowd = [newcomers.enter_context(socket.create_connection((HOST, server.port), 30)) for _ in range(CROWD)]
    for pid in children:
        os.kill(pid, signal.SIGCONT)
    for connection in crowd:
        connection.sendall(b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert [connection.recv(15) for connection in crowd] == [b"HTTP/1.1 200 OK"] * CROWD


# ── across processes ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_turn_is_followed_and_joined_in_another_process(
    served: Served, model: ModelServer, newcomers: ExitStack
) -> None:
    server, client = served(processes=2)
    session = client.open_session(ONE_SECOND)
    other = in_another(server, client, newcomers)
    third = in_another(server, client, newcomers)
    with client.streaming(f"{session}/turn", turn_body("a story")) as events:
        turn_id = next(events)["turn_id"]
        began = time.monotonic()
        with third.streaming(f"{session}/turn", turn_body("a story"), x_stainless_retry_count="1") as joined:
            followed = text_in(other.get_events(f"{session}/turn/{turn_id}/events"))
            joined_events = list(joined)
        took_s = time.monotonic() - began
        own_events = list(events)
    assert text_in(own_events) == followed == text_in(joined_events) == WORDS
    assert own_events[-1]["turn"] == joined_events[-1]["turn"]
    assert took_s < LEASE_S / 2, "the joined request waited for the lease to run out"
    assert len(model.requests) == 1


def test_a_turn_that_paused_in_one_process_is_resumed_in_another(served: Served, newcomers: ExitStack) -> None:
    server, client = served(processes=2)
    session = client.open_session("tool:get_weather", client_tools=[TOOL])
    paused = client.post(f"{session}/turn", turn_body("weather?")).json()
    other = in_another(server, client, newcomers)
    resumed = other.post(f"{session}/turn/{paused['turn_id']}/resume", answering(paused, "rain")).json()
    assert resumed["completed_at"] is not None
    assert client.get(session)["turns"] == [resumed]


@pytest.mark.parametrize("ending", rest_at_night(["cancel", "delete"], ["cancel"]))
def test_a_turn_is_ended_from_another_process(ending: str, served: Served, newcomers: ExitStack) -> None:
    server, client = served(processes=2, lease_seconds=SHORT_LEASE_S)
    session = client.open_session("stream-6")
    other = in_another(server, client, newcomers)
    with client.streaming(f"{session}/turn", turn_body("a story")) as events:
        turn_id = next(events)["turn_id"]
        if ending == "cancel":
            assert other.post(f"{session}/turn/{turn_id}/cancel", {}).status_code == 200
            assert other.post(f"{session}/turn", turn_body("something else")).status_code == 200
        else:
            assert other.delete(session).status_code == 204
        began = time.monotonic()
        last = list(events)[-1]
        assert time.monotonic() - began < 5, "the run did not receive its end"
    assert "error" in last or last["event_type"] == "turn_complete"
    assert "Traceback" not in server.log


# ── deaths ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("cold_starts")
def test_a_killed_process_is_replaced_and_its_turn_continues(
    served: Served, model: ModelServer, newcomers: ExitStack
) -> None:
    server, client = served(processes=2, lease_seconds=SHORT_LEASE_S)
    session = client.open_session(ONE_SECOND)
    other = in_another(server, client, newcomers)
    first = other.post(f"{session}/turn", turn_body("hello")).json()
    doomed = process_of(server, client)
    with client.streaming(f"{session}/turn", turn_body("a story")) as events:
        turn_id = next(events)["turn_id"]
        next(event for event in events if text_in([event]))
        os.kill(doomed, signal.SIGKILL)

    assert other.get(session)["turns"][0] == first
    turn = other.ended_turn(f"{session}/turn/{turn_id}")
    assert turn["output_message"]["content"] == WORDS
    assert other.get(session)["turns"] == [first, turn]
    assert len(model.requests) == 3
    wait_until(lambda: len(serving(server)) == 2, PATIENCE_S, "it was not replaced")
    assert doomed not in serving(server)
    wait_until(lambda: "and is replaced" in server.log, PATIENCE_S, "it was not logged")
    again = newcomers.enter_context(PlainClient(server.url))
    replaced = process_of(server, in_another(server, again, newcomers))
    assert {process_of(server, again), replaced} == set(serving(server))


def test_a_turn_of_killed_processes_is_taken_over_by_one_of_the_new_ones(served: Served, model: ModelServer) -> None:
    server, client = served(processes=3, lease_seconds=SHORT_LEASE_S)
    session = client.open_session(ONE_SECOND)
    turn_id = begin_and_leave(client, session)
    wait_until(lambda: len(model.requests) == 1, PATIENCE_S, "the model was not called")
    children = serving(server)
    for pid in (server.process_id, *children):
        os.kill(pid, signal.SIGKILL)
    server.wait(PATIENCE_S)
    server.start()
    with PlainClient(server.url) as client:
        turn = client.ended_turn(f"{session}/turn/{turn_id}")
        assert client.get(session)["turns"] == [turn]
    assert turn["output_message"]["content"] == WORDS
    assert len(model.requests) == 2


def test_a_failed_replacement_of_a_process_is_retried(served: Served) -> None:
    server, client = served(processes=2)
    session = client.open_session()
    survivor = process_of(server, client)
    database, aside = server.data_dir / "turnstone.db", server.data_dir / "aside"
    database.rename(aside)
    database.mkdir()
    (doomed,) = set(serving(server)) - {survivor}
    os.kill(doomed, signal.SIGKILL)
    wait_until(lambda: "retrying: " in server.log, PATIENCE_S, "it was not logged")
    assert client.get(session)["turns"] == []
    database.rmdir()
    aside.rename(database)
    wait_until(lambda: len(serving(server)) == 2, PATIENCE_S, "it was not tried again")


def test_when_the_first_process_is_killed_the_others_finish_their_turns_and_exit(
    served: Served, model: ModelServer
) -> None:
    server, client = served(processes=2)
    session = client.open_session(ONE_SECOND)
    children = serving(server)
    with client.streaming(f"{session}/turn", turn_body("a story")) as events:
        next(events)
        server.kill()
        received = list(events)
    assert (received[-1]["event_type"], text_in(received)) == ("turn_complete", WORDS)
    wait_until(lambda: not any(map(is_alive, children)), PATIENCE_S, "they stayed without it")
    server.start()
    with PlainClient(server.url) as client:
        assert client.get(session)["turns"] == [received[-1]["turn"]]
    assert len(model.requests) == 1


@pytest.mark.parametrize("by", rest_at_night([signal.SIGTERM, signal.SIGINT], [signal.SIGTERM]))
def test_on_a_stop_signal_all_processes_finish_their_turns(
    by: signal.Signals, served: Served, newcomers: ExitStack
) -> None:
    server, client = served(processes=2)
    other = in_another(server, client, newcomers)
    children = serving(server)
    streams = [
        each.streaming(f"{each.open_session(ONE_SECOND)}/turn", turn_body("a story")) for each in (client, other)
    ]
    received = [newcomers.enter_context(stream) for stream in streams]
    for events in received:
        next(events)
    server.terminate(by)
    if by is signal.SIGINT:  # a terminal signals every process that it started
        for pid in children:
            os.kill(pid, by)
    assert [text_in(events) for events in received] == [WORDS, WORDS]
    assert server.wait(PATIENCE_S) == 0
    assert not any(map(is_alive, children))
    assert "Traceback" not in server.log
