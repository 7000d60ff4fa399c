"""The response around its output items: the request's echo, the status, the error and the usage."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from turnstone.domain.refs import TurnRef
from turnstone.domain.responses.addresses import response_id
from turnstone.domain.responses.hosted import CITED, HostedTool
from turnstone.domain.responses.requests import SentRequest
from turnstone.domain.responses.statuses import incompleteness_of, status_of
from turnstone.domain.turns.turns import TurnState, TurnStatus
from turnstone.domain.usage.usage import TokenUsage
from turnstone.domain.values.ids import moment_of

# Source: the codes of a response's error; any other failure is the server's
CODES: Mapping[str, str] = {"model_busy": "rate_limit_exceeded", "limit_reached": "rate_limit_exceeded"}
ImageAt = Callable[[str], str | None]
NO_END = {"error": None, "incomplete_details": None, "completed_at": None, "usage": None, "output": ()}


class ShownResponse(NamedTuple):
    """A response to show: its turn, and its request.

    Attributes:
        image_at: returns the base64 of the image at an address, None if it is gone. Reads the store.
    """

    ref: TurnRef
    sent: SentRequest
    image_at: ImageAt = lambda _: None

    def is_clients(self, name: str) -> bool:
        """Return whether the client runs the tool."""
        return name in self.sent.functions

    def hosted(self, name: str) -> HostedTool | None:
        """Return the server's tool that models call by the name, None without one."""
        return self.sent.hosted.get(name)

    @property
    def has_citations(self) -> bool:
        """Whether texts of the model may cite results of searches."""
        return any(tool.kind in CITED for tool in self.sent.hosted.values())

    @property
    def is_in_background(self) -> bool:
        """Whether the response runs without its request."""
        return self.sent.is_in_background

    def begun(self, *, is_queued: bool = False) -> dict[str, Any]:
        """Return the response without any output."""
        return self._response("queued" if is_queued else "in_progress", {**NO_END, "output": []})

    def ended(self, state: TurnState, output: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the response of the ended turn with that output."""
        status = status_of(state)
        at = state.turn.completed_at
        end = {
            "error": error_of(state),
            "incomplete_details": {"reason": incompleteness_of(state)} if status == "incomplete" else None,
            "completed_at": None if at is None or status != "completed" else _seconds(at),
            "usage": usage_of(trace.usage for trace in state.traces),
            "output": output,
        }
        return self._response(status, end)

    def _response(self, status: str, end: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "id": response_id(self.ref),
            "object": "response",
            "created_at": _created_at(self.ref.turn_id),
            "status": status,
            **self.sent.echo,
            **end,
        }


def error_of(state: TurnState) -> dict[str, str] | None:
    """Return the error of a failed response, in the words that readers of its turn are given."""
    failure = state.turn.failure
    if failure is None or state.status is TurnStatus.CANCELLED:
        return None
    return {"code": CODES.get(failure.kind, "server_error"), "message": failure.message}


def usage_of(reported: Iterable[TokenUsage | None]) -> dict[str, Any] | None:
    """Return the tokens of all inferences together, None if there was none."""
    usages = [usage for usage in reported if usage is not None]
    if not usages:
        return None
    sent, made = sum(each.prompt_tokens for each in usages), sum(each.completion_tokens for each in usages)
    return {
        "input_tokens": sent,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sent + made,
    }


@lru_cache(maxsize=1_024)  # each event with the response has it
def _created_at(turn_id: str) -> int:
    return _seconds(moment_of(turn_id))


def _seconds(at: datetime) -> int:
    return int(at.timestamp())
