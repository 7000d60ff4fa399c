"""Shields of single tools in the turn loop: the messages they judge, the stored steps, and the state after a stop.

Covers: engine/tool_shields, engine/tool_excerpts, engine/tools
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.fakes.models.scripted import ScriptedTools, calls
from tests.fakes.shields import Judges, clean, found, stops
from tests.support.engine.shield_steps import KEPT, LEFT_TO_THE_CLOSE, touchpoints, violations
from tests.support.engine.turn_loop import (
    CLIENT_CALL,
    CONFIG,
    PRICE,
    RAIN,
    TOOL_KEPT,
    Engine,
    Saved,
    new_turn,
    outline,
    read_again,
)
from turnstone.domain.agents.agents import ToolGroup
from turnstone.domain.messages.messages import message_text
from turnstone.domain.sessions.context import ended_messages
from turnstone.domain.tools.tool_runs import OfferedTool, ProducedFile, ToolResult
from turnstone.domain.turns.turns import ToolExecutionStep, TurnState, Verdict
from turnstone.domain.usage.usage import TokenUsage
from turnstone.domain.values.content import Image, ImageItem, TextItem
from turnstone.engine.steps import AwaitClientTools, Blocked, Finish

SECRET = "a secret price"
FILE = ProducedFile("price.txt", "text/plain", b"secret")
SECRETIVE = ToolResult(SECRET, files=(FILE,))
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
STOPPED = "The answer of this tool was stopped by a safety check."


class GuardedTools(ScriptedTools):
    """Tools that have shields, by name: those of the call, those of the answer."""

    def __init__(self, shields: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]], price: ToolResult) -> None:
        super().__init__({"shop": {"price": lambda _: price}, "weather": {"rain": lambda _: "none"}})
        self._shields = shields

    def offered(self, toolgroups: Sequence[ToolGroup]) -> tuple[OfferedTool, ...]:
        return tuple(self._guarded(tool) for tool in super().offered(toolgroups))

    def _guarded(self, tool: OfferedTool) -> OfferedTool:
        inputs, outputs = self._shields.get(tool.definition.name, ((), ()))
        return tool._replace(input_shields=inputs, output_shields=outputs)


def guarded(
    *script: Any,
    inputs: tuple[str, ...] = (),
    outputs: tuple[str, ...] = (),
    price: ToolResult = SECRETIVE,
    **judges: Any,
) -> Engine:
    tools = GuardedTools({"price": (inputs, outputs)}, price)
    config = CONFIG.model_copy(update={"toolgroups": ("shop", "weather")})
    return Engine(*script, config=config, tools=tools, shields=judges)


def answers(state: TurnState) -> list[tuple[str, Any]]:
    steps = [step for step in state.turn.steps if isinstance(step, ToolExecutionStep)]
    return [(response.call_id, response.content) for step in steps for response in step.tool_responses]


def test_clean_shields_of_a_tool_have_steps_around_its_own() -> None:
    engine = guarded(PRICE, "thanks", inputs=("a",), outputs=("a", "b"), a=clean, b=clean)
    ending = engine.run(new_turn())
    ran = ["S tool_execution", "P c1 in_progress", *TOOL_KEPT]
    steps = [*KEPT, *ran, *KEPT, *KEPT]
    assert outline(engine.journal)[4 : 4 + len(steps)] == steps
    assert isinstance(ending, Finish)
    assert touchpoints(engine) == [None, "tool-input", None, "tool-output", "tool-output", None]
    assert answers(ending.state) == [("c1", SECRET)]
    assert [attachment.mime_type for attachment in ending.state.turn.output_attachments] == ["text/plain"]


def test_a_shield_is_shown_the_call_and_the_answer() -> None:
    engine = guarded(PRICE, "thanks", inputs=("a",), outputs=("a",), a=clean)
    engine.run(new_turn())
    questions = [
        (question.touchpoint, question.call_id, message_text(question.judged[0]))
        for _, question in engine.shields.questions
    ]
    assert questions == [("tool-input", "c1", 'price({"item":"tea"})'), ("tool-output", "c1", f"{SECRET}\nsecret")]


def test_a_call_that_is_stopped_is_not_run_and_ends_the_turn() -> None:
    engine = guarded(calls(RAIN, PRICE), inputs=("a",), a=stops("tea"))
    ending = engine.run(new_turn())
    assert isinstance(ending, Blocked)
    assert (ending.output.content, engine.tools.invocations) == ("stopped", [])
    assert outline(engine.journal)[-1:] == LEFT_TO_THE_CLOSE


def test_an_answer_that_is_stopped_is_kept_nowhere_and_ends_the_turn() -> None:
    engine = guarded(PRICE, outputs=("a", "b"), a=stops("secret"), b=clean)
    ending = engine.run(new_turn())
    assert isinstance(ending, Blocked)
    assert (ending.output.content, [name for name, _ in engine.shields.questions]) == ("stopped", ["a"])
    assert answers(ending.state) == [("c1", STOPPED)]
    assert ending.state.turn.output_attachments == ()
    saved = [entry.state.model_dump_json() for entry in engine.journal if isinstance(entry, Saved)]
    assert [text for text in saved if SECRET in text] == []
    ended = ending.state.completed(ending.output, ending.state.turn.started_at)
    assert SECRET not in str(ended_messages(ended))


def of_a_file(mime_type: str, body: bytes) -> ToolResult:
    return ToolResult("3 coins", files=(ProducedFile("price", mime_type, body),))


@pytest.mark.parametrize(
    "price",
    [
        ToolResult("3 coins", {"structured_content": {"of": [{"tea": "a\nsecret"}]}}),
        ToolResult("3 coins", {"structured_content": {"secret": 3}}),
        of_a_file("text/csv", b"price,secret"),
        of_a_file("text/plain; charset=utf-8", "pr\u00edce: secret".encode()),
        of_a_file("text/plain", "pr\u00edce: secret".encode("latin-1")),
        of_a_file("Text/Plain", "pr\u00edce: secret".encode("utf-16")),
        of_a_file("application/ld+json", b'["secret \xff"]'),
        of_a_file("image/svg+xml", b"<svg>secret</svg>"),
        of_a_file("image/svg+xml; charset=latin-1", b"<svg>secret \xff</svg>"),
        of_a_file("application/octet-stream", b"secret"),
        of_a_file("image/gif", b"GIF89a secret"),
    ],
    ids=lambda price: str(price.metadata or (price.files[0].mime_type, price.files[0].body[:8])),
)
def test_files_and_metadata_of_an_answer_are_judged_and_dropped_with_it(price: ToolResult) -> None:
    engine = guarded(PRICE, outputs=("a",), price=price, a=stops("secret"))
    ending = engine.run(new_turn())
    assert isinstance(ending, Blocked)
    assert ending.state.turn.output_attachments == ()
    assert "secret" not in ending.state.model_dump_json()
    (step,) = [step for step in ending.state.turn.steps if isinstance(step, ToolExecutionStep)]
    assert step.tool_responses[0].metadata == {"error": True, "stopped": True}


def test_an_image_among_the_files_is_shown_and_other_files_are_not() -> None:
    files = (ProducedFile("a", "image/png", PNG), ProducedFile("b", "audio/wav", b"RIFF\xff\x00\x00\x00WAVE"))
    engine = guarded(PRICE, "thanks", outputs=("a",), price=ToolResult("3", {"status": 200}, files), a=clean)
    ending = engine.run(new_turn())
    ((_, question),) = engine.shields.questions
    image = ImageItem(image=Image(data=b64encode(PNG).decode()))
    assert question.judged[0].content == (TextItem(text="3"), image)
    assert len(ending.state.turn.output_attachments) == 2


@pytest.mark.parametrize("letter", ["a", "\u20ac", "\U0001f375"])
def test_of_a_long_file_as_much_is_shown_as_of_an_answer_to_a_model(letter: str) -> None:
    engine = guarded(PRICE, "thanks", outputs=("a",), price=of_a_file("", (letter * 5_000).encode()), a=clean)
    engine.run(new_turn())
    ((_, question),) = engine.shields.questions
    assert message_text(question.judged[0]) == "3 coins\n" + letter * ScriptedTools.max_characters


def test_calls_that_ran_beside_one_whose_answer_is_stopped_are_kept() -> None:
    engine = guarded(calls(PRICE, RAIN), outputs=("a",), a=stops("secret"))
    ending = engine.run(new_turn())
    assert isinstance(ending, Blocked)
    assert answers(ending.state) == [("c1", STOPPED), (RAIN.call_id, "none")]


@pytest.mark.parametrize("level", ["info", "warn"])
def test_a_violation_of_an_answer_that_is_only_noted_stops_nothing(level: str) -> None:
    engine = guarded(PRICE, "thanks", outputs=("a",), a=lambda _: found(level))
    ending = engine.run(new_turn())
    assert isinstance(ending, Finish)
    assert [violation.violation_level for violation in violations(ending.state)] == [level]  # type: ignore[attr-defined]


@pytest.mark.parametrize("judged", [clean, stops("secret")], ids=["clean", "stopped"])
def test_a_verdict_from_before_a_crash_is_kept_and_not_requested_again(judged: Any) -> None:
    whole = guarded(PRICE, "thanks", inputs=("b",), outputs=("a", "b"), a=judged, b=clean)
    end = whole.run(new_turn())
    for entry in [entry for entry in whole.journal if isinstance(entry, Saved)]:
        stored = read_again(entry.state)
        heir = guarded("thanks", inputs=("b",), outputs=("a", "b"), a=judged, b=clean)
        if not any(isinstance(step, ToolExecutionStep) for step in stored.turn.steps):
            continue
        ending = heir.run(stored)
        assert [type(step) for step in ending.state.turn.steps] == [type(step) for step in end.state.turn.steps]
        assert (ending.output, heir.shields.questions, heir.tools.invocations) == (end.output, [], [])


def test_shields_of_a_tool_do_not_stand_for_those_of_the_answer_or_of_another_call() -> None:
    again = PRICE.model_copy(update={"call_id": "c9"})
    engine = guarded(calls(PRICE, again), "thanks", inputs=("a",), outputs=("a",), a=clean)
    config = engine.deps.config.model_copy(update={"output_shields": ("a",)})
    engine.deps = engine.deps._replace(config=config)
    engine.run(new_turn())
    questions = [(question.touchpoint, question.call_id) for _, question in engine.shields.questions]
    of_calls = [(touchpoint, call_id) for touchpoint in ("tool-input", "tool-output") for call_id in ("c1", "c9")]
    assert questions == [*of_calls, ("assistant-output", None)]


def test_a_pause_behind_shielded_tools_has_its_words_judged() -> None:
    engine = guarded(calls(PRICE, CLIENT_CALL), inputs=("a",), a=clean)
    engine.deps = engine.deps._replace(config=engine.deps.config.model_copy(update={"output_shields": ("a",)}))
    assert isinstance(engine.run(new_turn()), AwaitClientTools)


def test_tokens_of_a_shield_of_a_tool_are_counted() -> None:
    spent = TokenUsage(prompt_tokens=7, completion_tokens=1, total_tokens=8)
    engine = guarded(PRICE, "thanks", outputs=("a",), a=lambda _: Verdict(usage=spent, model="guard"))
    assert engine.run(new_turn()).state.spent["guard"].prompt_tokens == 7


def test_a_call_is_judged_whose_id_a_model_has_used_before() -> None:
    engine = guarded(PRICE, PRICE, inputs=("a",), a=stops_the_second_time())
    ending = engine.run(new_turn())
    assert isinstance(ending, Blocked)
    assert len(engine.tools.invocations) == 1


def test_an_answer_that_is_stopped_ends_the_turn_though_its_calls_id_was_used_before() -> None:
    engine = guarded(PRICE, PRICE, "thanks", outputs=("a",), a=stops_the_second_time())
    ending = engine.run(new_turn())
    assert isinstance(ending, Blocked)
    assert answers(ending.state) == [("c1", SECRET), ("c1", STOPPED)]


def stops_the_second_time() -> Judges:
    verdicts = iter((Verdict(), found()))
    return lambda _: next(verdicts)
