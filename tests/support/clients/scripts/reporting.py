"""Reports of a script to its test: lines of JSON on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # other clients have them elsewhere
    from llama_stack_client.types.agents import AgentTurnResponseStreamChunk, Turn


def report(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def wait_for_word() -> None:
    """Return once the test lets the script continue."""
    sys.stdin.readline()


def turn_report(turn: Turn) -> dict[str, Any]:
    """Return the facts of the client's turn."""
    answer = turn.output_message
    return {
        "turn_id": turn.turn_id,
        "input": [message.content for message in turn.input_messages],
        "steps": [step.step_type for step in turn.steps],
        "step_ids": [step.step_id for step in turn.steps],
        "content": answer.content,
        "stop_reason": answer.stop_reason,
        "calls": [[call.tool_name, call.arguments, call.call_id] for call in answer.tool_calls],
        "is_over": turn.completed_at is not None,
    }


def stream_report(chunks: Iterable[AgentTurnResponseStreamChunk]) -> tuple[list[str], dict[str, Any]]:
    """Return the kinds of the events, and the turn that came with the last."""
    payloads = [chunk.event.payload for chunk in chunks]
    return kinds_of(payloads), turn_report(payloads[-1].turn)


def kinds_of(payloads: Iterable[Any]) -> list[str]:
    """Return the kind of each event; deltas in a row are one."""
    return [kind for kind, _ in groupby(payloads, key=kind_of)]


def kind_of(payload: Any) -> str:
    parts = [payload.event_type, getattr(payload, "step_type", None)]
    if payload.event_type == "step_progress":
        parts.append(payload.delta.type)
    return " ".join(part for part in parts if part)
