"""Bounds of the fields of Letta's requests.

Covers: dialects/letta/message_requests, dialects/letta/requests, dialects/letta/tool_rules, dialects/letta/blocks,
domain/agents/blocks
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from turnstone.dialects.letta.blocks import BlockUpdate, CreateBlock
from turnstone.dialects.letta.message_requests import (
    BackgroundRequest,
    MessageCreate,
    RequestConfig,
    messages_query,
)
from turnstone.dialects.letta.passages import CreatePassage
from turnstone.dialects.letta.requests import CreateLettaAgent, UpdateLettaAgent
from turnstone.dialects.letta.sources import CreateSource, UpdateSource
from turnstone.domain.agents.blocks import MemoryBlock

BLOCK = {"label": "human", "value": ""}
BODIES = [(CreateBlock, BLOCK), (BlockUpdate, {})]


@pytest.mark.parametrize("field", ["assistant_message_tool_name", "assistant_message_tool_kwarg"])
def test_the_name_of_the_answering_tool_has_a_bound(field: str) -> None:
    assert getattr(RequestConfig.model_validate({field: "é" * 256}), field) == "é" * 256
    messages_query({field: ["é" * 256]})
    with pytest.raises(ValidationError, match=field):
        RequestConfig.model_validate({field: "é" * 257})


@pytest.mark.parametrize(("model", "body"), BODIES)
@pytest.mark.parametrize(
    ("field", "most", "more"),
    [
        ("name", "n" * 256, "n" * 257),
        ("description", "d" * 1_000, "d" * 1_001),
        ("metadata_", {"k": "é" * 7_996}, {"k": "é" * 7_997}),
    ],
)
def test_a_field_of_a_block_has_a_bound(
    model: type[BaseModel], body: dict[str, Any], field: str, most: Any, more: Any
) -> None:
    assert getattr(model.model_validate({**body, field: most}), field) == most
    with pytest.raises(ValidationError, match=field):
        model.model_validate({**body, field: more})


@pytest.mark.parametrize(("model", "body"), BODIES)
@pytest.mark.parametrize("label", ["a/b", "/", "human/", "a<b", ""])
def test_a_label_that_no_path_or_prompt_can_have_is_refused(
    model: type[BaseModel], body: dict[str, Any], label: str
) -> None:
    assert model.model_validate({**body, "label": "the human, é"}).model_dump()["label"] == "the human, é"
    with pytest.raises(ValidationError, match="label"):
        model.model_validate({**body, "label": label})


def test_a_stored_block_keeps_a_label_of_earlier_rules() -> None:
    stored = {"block_id": "b", "label": "a/b", "updated_at": "2026-01-01T00:00:00Z"}
    assert MemoryBlock.model_validate(stored).label == "a/b"


@pytest.mark.parametrize(("model", "body"), BODIES)
@pytest.mark.parametrize("value", [1, 0, "yes", "on", 1.0])
def test_whether_a_block_is_a_model_is_a_flag(model: type[BaseModel], body: dict[str, Any], value: Any) -> None:
    assert model.model_validate({**body, "is_template": "true"}).model_dump()["is_template"] is True
    with pytest.raises(ValidationError, match="is_template"):
        model.model_validate({**body, "is_template": value})


def test_a_run_has_no_stream() -> None:
    body = {"messages": [{"role": "user", "text": "hi"}]}
    for value in (False, "false", None):
        BackgroundRequest.model_validate({**body, "stream_tokens": value})
    with pytest.raises(ValidationError, match="stream_tokens"):
        BackgroundRequest.model_validate({**body, "stream_tokens": True})


@pytest.mark.parametrize(
    ("model", "body", "fields"),
    [
        (CreateBlock, BLOCK, {"metadata": {"k": 1}, "read_only": True, "tags": ["a"], "hidden": True}),
        (BlockUpdate, {}, {"metadata": {"k": 1}, "project_id": "p", "preserve_on_migration": True}),
        (CreateSource, {"name": "birds"}, {"metadata": {"k": 1}, "instructions": "i", "embedding": "e"}),
        (CreateSource, {"name": "birds"}, {"embedding_chunk_size": 100}),
        (UpdateSource, {}, {"metadata": {"k": 1}, "instructions": "i"}),
        (CreatePassage, {"text": "t"}, {"tags": ["a"], "created_at": "2026-11-28"}),
    ],
)
def test_a_field_of_later_clients_is_refused_by_its_name_unless_it_is_empty(
    model: type[BaseModel], body: dict[str, Any], fields: dict[str, Any]
) -> None:
    for name, value in fields.items():
        with pytest.raises(ValidationError, match=f"{name}: (has no effect|is called metadata_) here"):
            model.model_validate({**body, name: value})
        model.model_validate({**body, name: None})
        model.model_validate({**body, name: type(value)()})


def test_an_agent_names_its_embedding_model_by_its_handle_or_by_its_configuration() -> None:
    body = {"llm": "openai/words", "embedding": "openai/vectors"}
    new = CreateLettaAgent.model_validate(body).to_new("Sam")
    assert new.fields.embedding_config == {"embedding_model": "vectors", "handle": "openai/vectors"}
    whole = CreateLettaAgent.model_validate({**body, "embedding_config": {"embedding_model": "own"}}).to_new("Sam")
    assert whole.fields.embedding_config == {"embedding_model": "own"}
    assert CreateLettaAgent.model_validate({"llm": "words"}).to_new("Sam").fields.embedding_config is None


def test_the_size_of_passages_is_accepted_and_any_other_size_refused() -> None:
    for size in (300, None, 0):
        CreateLettaAgent.model_validate({"llm": "words", "embedding_chunk_size": size})
    for size in (299, 301):
        with pytest.raises(ValidationError, match="300 tokens"):
            CreateLettaAgent.model_validate({"llm": "words", "embedding_chunk_size": size})


@pytest.mark.parametrize(("model", "body"), BODIES)
def test_a_block_has_its_name_by_either_of_its_names(model: type[BaseModel], body: dict[str, Any]) -> None:
    assert model.model_validate({**body, "template_name": "kind"}).model_dump()["name"] == "kind"
    assert model.model_validate({**body, "name": "a", "template_name": "b"}).model_dump()["name"] == "a"
    assert model.model_validate({**body, "template_name": None}).model_dump()["name"] is None
    with pytest.raises(ValidationError, match="name"):
        model.model_validate({**body, "template_name": "n" * 257})


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, "InitToolRule"),
        ({"children": ["send_message"]}, "ToolRule"),
        ({"child_output_mapping": {"yes": "send_message"}}, "conditional"),
    ],
)
def test_a_tool_rule_without_a_type_has_the_type_of_its_fields(fields: dict[str, Any], kind: str) -> None:
    for typed in ({}, {"type": None}):
        body = {"llm": "words", "tool_rules": [{"tool_name": "roll", **fields, **typed}]}
        for model in (CreateLettaAgent, UpdateLettaAgent):
            (rule,) = model.model_validate(body).model_dump()["tool_rules"]
            assert (rule["tool_name"], rule["type"]) == ("roll", kind)
    terminal = {"tool_name": "roll", "type": "TerminalToolRule"}
    (rule,) = CreateLettaAgent.model_validate({"llm": "words", "tool_rules": [terminal]}).model_dump()["tool_rules"]
    assert rule == terminal
    for wrong in (1, "roll", {"tool_name": "roll", "type": "other"}):
        with pytest.raises(ValidationError, match="tool_rules"):
            CreateLettaAgent.model_validate({"llm": "words", "tool_rules": [wrong]})


def test_the_name_of_a_sender_is_refused_unless_it_is_empty() -> None:
    for name in (None, ""):
        assert MessageCreate.model_validate({"role": "user", "text": "hi", "name": name}).to_message().content == "hi"
    with pytest.raises(ValidationError, match="a message has no name here; leave it out"):
        MessageCreate.model_validate({"role": "user", "text": "hi", "name": "bob"})
