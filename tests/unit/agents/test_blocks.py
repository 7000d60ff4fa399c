"""Memory blocks as values: limits, edits, and the text of a prompt.

Covers: domain/agents/blocks
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from turnstone.domain.agents.blocks import (
    KEYS_KEPT,
    MemoryBlock,
    StoredBlock,
    compiled,
    refuse_same_labels,
    with_core_memory,
)
from turnstone.domain.errors import InvalidRequest

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HARD = ["{foo}", "%s %(a)d", "line\nline", "\\1 \\g<0>", "😀 end"]


def block(value: str = "name: Bob", **fields: object) -> MemoryBlock:
    return MemoryBlock.model_validate({"block_id": "b", "label": "human", "value": value, "updated_at": NOW, **fields})


def test_a_text_is_appended_on_a_line_of_its_own() -> None:
    assert block().appended("likes tea", NOW).value == "name: Bob\nlikes tea"
    assert block("").appended("likes tea", NOW).value == "likes tea"


@pytest.mark.parametrize("text", HARD)
def test_a_text_is_replaced_as_it_is_at_each_occurrence(text: str) -> None:
    assert block(f"a {text} b {text}").replaced(text, "X", NOW).value == "a X b X"
    assert block("a X b X").replaced("X", text, NOW).value == f"a {text} b {text}"


@pytest.mark.parametrize("old", ["", "Bobby"])
def test_a_text_that_does_not_occur_is_refused(old: str) -> None:
    with pytest.raises(InvalidRequest, match="does not contain"):
        block().replaced(old, "X", NOW)


def test_a_value_over_the_limit_is_refused_with_both_lengths() -> None:
    full = block("12345", limit=8)
    assert full.appended("67", NOW).value == "12345\n67"
    with pytest.raises(InvalidRequest, match=r"9 characters, over the block's limit of 8"):
        full.appended("678", NOW)
    with pytest.raises(InvalidRequest, match=r"10 .* 8"):
        full.replaced("1", "123456", NOW)


@pytest.mark.parametrize("label", ["", "<human", 'a"b>', "a\nb", "x" * 101])
def test_a_label_that_could_break_the_prompt_is_refused(label: str) -> None:
    with pytest.raises(ValueError, match="label"):
        block(label=label)


def test_two_blocks_of_an_agent_have_different_labels() -> None:
    refuse_same_labels(["human", "persona"])
    with pytest.raises(InvalidRequest, match="'human'"):
        refuse_same_labels(["human", "persona", "human"])


def test_the_blocks_replace_each_marker_and_other_braces_stay() -> None:
    memory = compiled([block("{CORE_MEMORY} {x}")], ["A line."])
    assert memory.splitlines()[:2] == ["Memory, last changed at 2026-01-02 03:04:05 UTC.", "A line."]
    assert '<human characters="17/5000">\n{CORE_MEMORY} {x}\n</human>' in memory
    written = with_core_memory("{foo} {CORE_MEMORY} {} {CORE_MEMORY}", [block()])
    assert written == f"{{foo}} {compiled([block()])} {{}} {compiled([block()])}"


def test_without_a_marker_the_blocks_follow_the_instructions() -> None:
    assert with_core_memory("Be kind.", [block()]) == f"Be kind.\n\n{compiled([block()])}"
    assert with_core_memory("", []) == "Memory."


def test_a_block_remembers_the_keys_of_its_last_edits() -> None:
    stored = StoredBlock(block=block(), order="1")
    for number in range(KEYS_KEPT + 2):
        stored = stored.edited(stored.block, str(number))
    assert stored.applied == tuple(str(number) for number in range(2, KEYS_KEPT + 2))


def test_a_block_of_an_agent_is_left_over_once_no_agent_has_it() -> None:
    stored = StoredBlock(block=block(), order="1", agents=("a",), is_kept=False).attached_to("b").attached_to("a")
    assert stored.agents == ("a", "b")
    assert not stored.detached_from("a").is_left
    assert stored.detached_from("a").detached_from("b").is_left
    assert not StoredBlock(block=block(), order="1").is_left
