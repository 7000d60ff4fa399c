"""Server tools in turns over a real store: parallel calls, timeouts, attachments and files.

Covers: services/tools/tool_running, services/tools/tenant_tools, services/files/attachments, store/files/attachments,
  services/tools/toolboxes
"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.fakes.models.scripted import ScriptedInference, call, calls
from tests.support.engine.harness import (
    LEASE_S,
    Harness,
    Held,
    answer,
    attempt,
    client_tool,
    outline,
    saves_step,
    serving,
    turn_in,
)
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.agents.agents import ToolGroupWithArgs
from turnstone.domain.errors import NotFound, ToolFailed
from turnstone.domain.refs import SessionRef
from turnstone.domain.tools.tool_runs import ProducedFile, ToolResult
from turnstone.domain.tools.tools import ToolResponse
from turnstone.domain.turns.turns import Attachment, ToolExecutionStep, Turn, TurnStatus
from turnstone.domain.values.content import Image, ImageItem, TextItem, Url
from turnstone.services.tools import toolboxes
from turnstone.store.files.attachments import AttachedFile

SLOW_S = 0.2
FOUR_AT_ONCE_S = 0.26
ATTEMPTS = 5
FOUR = calls(*(call(name, name) for name in ("a", "b", "c", "d")))
PICTURE = ProducedFile("a.png", "image/png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
KEPT_PICTURE = AttachedFile(PICTURE.name, PICTURE.mime_type, PICTURE.body)
SOUND = b"RIFF\x24\x00\x00\x00WAVEfmt "


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    yield from serving(tmp_path)


def run(server: Harness, ref: SessionRef | None = None) -> Turn:
    """Return the turn that the script leads to, in a session of an agent that has the tools."""
    return turn_in(server.whole_turn(ref or server.session(toolgroups=["tools"])))


def responses_of(turn: Turn) -> list[ToolResponse]:
    return [response for step in turn.steps if isinstance(step, ToolExecutionStep) for response in step.tool_responses]


def attachment_id(attachment: Attachment) -> str:
    assert isinstance(attachment.content, Url)
    return attachment.content.uri.rpartition("/")[2]


def test_four_calls_of_two_hundred_milliseconds_take_hardly_longer_than_one(serve: Callable[..., Harness]) -> None:
    took = []
    for _ in range(ATTEMPTS):
        moments: list[float] = []

        def slow(_: object, moments: list[float] = moments) -> str:
            moments.append(time.monotonic())
            time.sleep(SLOW_S)
            return "done"

        def answers(_: object, moments: list[float] = moments) -> str:
            moments.append(time.monotonic())
            return "all done"

        turn = run(serve([FOUR, answers], {"tools": dict.fromkeys("abcd", slow)}))
        assert [response.call_id for response in responses_of(turn)] == list("abcd")
        took.append(moments[-1] - moments[0])  # from the first call's beginning to the model's next, steps stored
        if took[-1] <= FOUR_AT_ONCE_S:
            break
    assert min(took) <= FOUR_AT_ONCE_S


def test_steps_are_emitted_in_the_order_of_the_calls(serve: Callable[..., Harness]) -> None:
    last = Event()

    def waits(_: Mapping[str, Any]) -> str:
        assert last.wait(10)
        return "first called"

    def goes(_: Mapping[str, Any]) -> str:
        last.set()
        return "last called"

    server = serve([calls(call("a", "1"), call("b", "2")), "ok"], {"tools": {"a": waits, "b": goes}})
    ref = server.session(toolgroups=["tools"])
    events = server.drain(server.start(ref))
    assert outline(events) == "start S:infer P P C:infer S:tool P C:tool S:tool P C:tool S:infer P C:infer complete"
    assert [response.content for response in responses_of(server.states(ref)[0].turn)] == [
        "first called",
        "last called",
    ]


def test_a_tool_that_takes_too_long_is_an_answer_and_is_cancelled(serve: Callable[..., Harness]) -> None:
    leave = Event()

    def hangs(_: Mapping[str, Any]) -> str:
        leave.wait(20)
        return "too late"

    server = serve(
        [calls(call("a", "1"), call("b", "2")), "a pity"],
        {"tools": {"a": hangs, "b": lambda _: "quick"}},
        tool_timeout_seconds=0.3,
    )
    turn = run(server)
    leave.set()
    first, second = responses_of(turn)
    assert (first.metadata, second.content, turn.output_message.content) == (
        {"error": True, "timed_out": True},
        "quick",
        "a pity",
    )
    assert "0.3 s" in str(first.content)


def test_a_tool_that_fails_beside_others_is_an_answer(serve: Callable[..., Harness]) -> None:
    def fails(_: Mapping[str, Any]) -> str:
        raise ToolFailed("sold out")

    server = serve([calls(call("a", "1"), call("b", "2")), "ok"], {"tools": {"a": fails, "b": lambda _: "fine"}})
    first, second = responses_of(run(server))
    assert (first.content, first.metadata, second.content) == ("sold out", {"error": True}, "fine")


def test_a_file_of_a_tool_is_an_attachment_of_the_turn(serve: Callable[..., Harness]) -> None:
    server = serve([call("a", "1"), "look"], {"tools": {"a": lambda _: ToolResult("an image", files=(PICTURE,))}})
    ref = server.session(toolgroups=["tools"])
    turn = run(server, ref)
    (attachment,) = turn.output_attachments
    assert attachment.mime_type == "image/png"
    assert server.core.attachments.read(LOCAL_CALLER, ref, attachment_id(attachment)) == KEPT_PICTURE
    assert server.states(ref)[0].turn.output_attachments == (attachment,)
    assert len(server.blobs()) == 1


@pytest.mark.parametrize("of", ["stranger", "other session", "other attachment"])
def test_only_callers_with_access_to_the_session_read_an_attachment(serve: Callable[..., Harness], of: str) -> None:
    server = serve([call("a", "1"), "look"], {"tools": {"a": lambda _: ToolResult("an image", files=(PICTURE,))}})
    ref = server.session(toolgroups=["tools"])
    attachment = attachment_id(run(server, ref).output_attachments[0])
    caller = Caller(tenant="b", principal="b") if of == "stranger" else LOCAL_CALLER
    session = server.session() if of == "other session" else ref.model_copy(update={"tenant": caller.tenant})
    with pytest.raises(NotFound):
        server.core.attachments.read(caller, session, attachment if of != "other attachment" else "0" * 32)


def test_attachments_go_with_their_session(serve: Callable[..., Harness]) -> None:
    server = serve([call("a", "1"), "look"], {"tools": {"a": lambda _: ToolResult("an image", files=(PICTURE,))}})
    ref = server.session(toolgroups=["tools"])
    run(server, ref)
    server.core.deleting.delete_session(LOCAL_CALLER, ref)
    server.clean_up()
    assert server.blobs() == []
    assert [row for row in server.dump() if ref.session_id in row[0] and "attachment" in row[1]] == []


def test_an_answer_that_is_too_long_is_cut_and_kept_whole(serve: Callable[..., Harness]) -> None:
    long = "äöü" * 1_000
    server = serve([call("a", "1"), "I see"], {"tools": {"a": lambda _: long}}, max_tool_output=500)
    ref = server.session(toolgroups=["tools"])
    turn = run(server, ref)
    (response,) = responses_of(turn)
    assert str(response.content).startswith(long[:500] + "\n[This answer was cut: it has 3000 characters")
    (attachment,) = turn.output_attachments
    kept = server.core.attachments.read(LOCAL_CALLER, ref, attachment_id(attachment))
    assert (kept.body.decode(), kept.mime_type) == (long, "text/plain; charset=utf-8")
    assert isinstance(server.inference, ScriptedInference)
    assert len(str(server.inference.requests[1].messages[-1].content)) < 1_000


def test_metadata_that_is_too_long_is_kept_as_a_file(serve: Callable[..., Harness]) -> None:
    result = ToolResult("short", {"structured_content": {"text": "x" * 1_000}})
    server = serve([call("a", "1"), "I see"], {"tools": {"a": lambda _: result}}, max_tool_output=500)
    ref = server.session(toolgroups=["tools"])
    turn = run(server, ref)
    (response,), (attachment,) = responses_of(turn), turn.output_attachments
    assert (response.content, set(response.metadata or {})) == ("short", {"is_cut", "attachments"})
    kept = server.core.attachments.read(LOCAL_CALLER, ref, attachment_id(attachment))
    assert json.loads(kept.body) == result.metadata


def test_tools_are_listed_once_as_a_turn_opens_and_once_as_it_is_resumed(serve: Callable[..., Harness]) -> None:
    server = serve([call("ask", "1"), "done"], {"tools": {"a": lambda _: "4"}})
    ref = server.session(toolgroups=["tools"], client_tools=[client_tool("ask")])
    before = server.tools.listings
    turn = server.paused(ref)
    assert server.tools.listings - before == 1
    server.drain(server.resume(turn, answer("1", tool_name="ask")))
    assert server.tools.listings - before == 2


def test_an_image_shown_to_the_model_is_an_attachment_too(serve: Callable[..., Harness]) -> None:
    image = ImageItem(image=Image(data=b64encode(PICTURE.body).decode()))
    server = serve([call("a", "1"), "I see"], {"tools": {"a": lambda _: ToolResult((TextItem(text="look"), image))}})
    ref = server.session(toolgroups=["tools"])
    (attachment,) = run(server, ref).output_attachments
    kept = server.core.attachments.read(LOCAL_CALLER, ref, attachment_id(attachment))
    assert (kept.body, kept.mime_type) == (PICTURE.body, "image/png")


def test_a_sound_returned_as_an_image_is_not_kept_as_one(serve: Callable[..., Harness]) -> None:
    sound = ImageItem(image=Image(data=b64encode(SOUND).decode()))
    server = serve([call("a", "1"), "I see"], {"tools": {"a": lambda _: ToolResult(sound)}})
    (attachment,) = run(server).output_attachments
    assert attachment.mime_type == "application/octet-stream"


def test_a_mime_type_invalid_in_a_header_becomes_octet_stream(serve: Callable[..., Harness]) -> None:
    odd = ProducedFile("a\r\nb", "text/html\r\nset-cookie: a=b", b"x")
    server = serve([call("a", "1"), "look"], {"tools": {"a": lambda _: ToolResult("a file", files=(odd,))}})
    ref = server.session(toolgroups=["tools"])
    (attachment,) = run(server, ref).output_attachments
    read = server.core.attachments.read(LOCAL_CALLER, ref, attachment_id(attachment))
    assert (attachment.mime_type, read.mime_type) == ("application/octet-stream", "application/octet-stream")


def test_a_call_that_is_run_again_after_a_crash_leaves_no_second_file(serve: Callable[..., Harness]) -> None:
    tools = {"tools": {"a": lambda _: ToolResult("an image", files=(PICTURE,))}}
    first = serve([call("a", "1")], tools)
    ref = first.session(toolgroups=["tools"])
    first.store.before(lambda call: saves_step(call) and len(first.blobs()) == 1, first.store.die)
    first.drain(first.start(ref))
    heir = first.another(["look"], tools)
    heir.clock.advance(LEASE_S + 1)
    heir.reconcile_open()
    heir.settle()
    assert heir.states(ref)[0].status is TurnStatus.COMPLETED
    (attachment,) = heir.states(ref)[0].turn.output_attachments
    assert heir.core.attachments.read(LOCAL_CALLER, ref, attachment_id(attachment)) == KEPT_PICTURE


def test_groups_of_the_turn_are_used_beside_those_of_the_agent_and_their_arguments_are_fixed(
    serve: Callable[..., Harness],
) -> None:
    server = serve(
        [calls(call("a", "1", x=1), call("b", "2", x=1)), "ok"],
        {"tools": {"a": lambda arguments: str(arguments)}, "more": {"b": lambda arguments: str(arguments)}},
    )
    ref = server.session(toolgroups=["tools"])
    fixed = ToolGroupWithArgs(name="more/b", args={"x": 2, "y": 3})
    server.drain(server.start(ref, toolgroups=[fixed]))
    contents = [response.content for response in responses_of(server.states(ref)[0].turn)]
    assert contents == ["{'x': 1}", "{'x': 2, 'y': 3}"]


def test_slow_tools_of_one_tenant_leave_threads_to_others(
    serve: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolboxes, "MAX_PARALLEL_TOOLS", 2)
    monkeypatch.setattr(toolboxes, "MAX_PARALLEL_TOOLS_OF_TENANT", 1)
    slow = Held("at last")
    server = serve(
        [calls(call("a", "1"), call("a", "2")), "ok"],
        {"tools": {"a": slow, "b": lambda _: "quick"}},
        tool_timeout_seconds=5,
    )
    ref = server.session(toolgroups=["tools"])
    broadcast = server.start(ref)
    slow.wait()
    other = Caller(tenant="b", principal="b")
    _, result, has_failed = server.core.toolgroups.invoke(other, "b", {}, attempt())
    slow.open()
    assert (result.content, has_failed) == ("quick", False)
    assert [response.content for response in responses_of(turn_in(server.drain(broadcast)))] == ["at last", "at last"]
