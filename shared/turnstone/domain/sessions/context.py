"""A session's context for the model: the log of ended turns, and the part that fits a token budget.

The log is a sequence of segments. Only the last, the open segment, is appended to; once it holds about a thousand
tokens the next turn opens another. So a token budget bounds the number of segments to read, however long the history.
A summary is a segment of its own, after the turn at whose end it was written.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from turnstone.domain.messages.messages import (
    MESSAGES,
    CompletionMessage,
    Message,
    SystemMessage,
    ToolResponseMessage,
    UserMessage,
)
from turnstone.domain.tools.tools import ToolCall, ToolResponse, call_in_text
from turnstone.domain.turns.turns import (
    InferenceStep,
    ShieldCallStep,
    Step,
    StepTrace,
    Summary,
    ToolExecutionStep,
    Turn,
    TurnState,
    TurnStatus,
    newest_from_client,
)
from turnstone.domain.values.content import ImageItem, TextItem, items_of
from turnstone.domain.values.frozen import Frozen

SEALED_TOKENS = 1_000
INLINE_BYTES = 4_096
IMAGE_TOKENS = 1_000
MESSAGE_TOKENS = 4
UNJUDGED = "The answer of this tool was stopped by a safety check, or never judged by one."
EMPTY_ENTRY_TOKENS = 32  # the cost of an entry without messages, so that a segment of such entries is sealed, too


class Entry(Frozen):
    """An ended turn in the context of later ones; `messages` is None where only the turn itself holds them."""

    order: str
    tokens: int
    messages: tuple[Message, ...] | None = None


class History(NamedTuple):
    """Messages of ended turns, oldest first, and their estimated tokens."""

    messages: tuple[Message, ...]
    tokens: int


NO_HISTORY = History((), 0)


class Segment(Frozen):
    """A part of the log: ended turns, or a summary of earlier ones."""

    number: int
    entries: tuple[Entry, ...] = ()
    summary: Summary | None = None

    @property
    def tokens(self) -> int:
        return sum(entry.tokens for entry in self.entries)

    def appended(self, entry: Entry) -> "Segment":
        """Return the new last segment: this one with the entry, or a new one once this one is full."""
        if self.tokens >= SEALED_TOKENS or self.summary is not None:
            return Segment(number=self.number + 1, entries=(entry,))
        return Segment(number=self.number, entries=(*self.entries, entry))


def segments_within(budget_tokens: int) -> int:
    """Return how many of the newest segments can hold the content that fits the budget, including the open one."""
    return 1 + -(-max(budget_tokens, 0) // SEALED_TOKENS)


def without_entry(segments: Sequence[Segment], order: str) -> tuple[Segment, ...]:
    """Return the segment that has the turn's entry, without that entry; empty if no segment has it."""
    for segment in reversed(segments):
        entries = tuple(entry for entry in segment.entries if entry.order != order)
        if len(entries) < len(segment.entries):
            return (segment.model_copy(update={"entries": entries}),)
    return ()


def entry_of(ended: TurnState) -> Entry:
    """Return the ended turn's log entry."""
    messages = ended_messages(ended)
    is_small = len(MESSAGES.dump_json(messages)) <= INLINE_BYTES
    return Entry(
        order=ended.order, tokens=tokens_of(messages) or EMPTY_ENTRY_TOKENS, messages=messages if is_small else None
    )


def appended(segment: Segment, entry: Entry, summary: Summary | None) -> tuple[Segment, ...]:
    """Return the new last segments: the entry's, and one for the summary written at its end."""
    last = segment.appended(entry)
    return (last,) if summary is None else (last, Segment(number=last.number + 1, summary=summary))


def rebuilt(ended: Iterable[TurnState], summaries: Mapping[str, Summary] | None = None) -> tuple[Segment, ...]:
    """Return the whole log, rebuilt from the turns, oldest first.

    `summaries` were written at the ends of turns, by the turn's order key.
    """
    segments = [Segment(number=0)]
    for state in ended:
        changed = appended(segments[-1], entry_of(state), (summaries or {}).get(state.order))
        if changed[0].number == segments[-1].number:
            segments.pop()
        segments += changed
    return tuple(segments)


def living(segments: Sequence[Segment]) -> tuple[Summary | None, tuple[Entry, ...]]:
    """Return the newest summary, and the turns that it does not replace, oldest first."""
    summary = next((segment.summary for segment in reversed(segments) if segment.summary is not None), None)
    entries = (entry for segment in segments for entry in segment.entries)
    return summary, tuple(entry for entry in entries if summary is None or entry.order > summary.last_order)


def summary_tokens(summary: Summary | None) -> int:
    return 0 if summary is None else tokens_of((summary_message(summary),))


def summary_message(summary: Summary) -> Message:
    """Return the message that replaces the summarised turns. Not an instruction: it quotes users and tools."""
    return UserMessage(content=f"[Summary of the earlier conversation]\n{summary.text}")


def ended_messages(ended: TurnState) -> tuple[Message, ...]:
    """Return the ended turn's messages: without transient context and stopped content, each call with an answer."""
    if _is_question_unjudged(ended):
        return ()
    judged = _without_stopped(_without_unjudged(ended.turn, ended.traces), ended.status)
    return answered(_messages(judged, with_context=False), _reason_unanswered(ended.turn, ended.status))


def current_messages(turn: Turn) -> tuple[Message, ...]:
    """Return the running turn's messages so far."""
    return _messages(turn, with_context=True)


def answered(messages: Sequence[Message], reason: str) -> tuple[Message, ...]:
    """Return the messages with an answer after each unanswered call: models refuse a call without one."""
    complete: list[Message] = []
    open_calls: dict[str, ToolCall] = {}
    for message in messages:
        if isinstance(message, ToolResponseMessage):
            open_calls.pop(message.call_id, None)
        else:
            complete += _answers(open_calls, reason)
            open_calls = {call.call_id: call for call in _calls(message)}
        complete.append(message)
    return (*complete, *_answers(open_calls, reason))


def unanswered_calls(turn: Turn) -> tuple[ToolCall, ...]:
    """Return the last inference's calls that no tool step has answered yet."""
    calls: dict[str, ToolCall] = {}
    for step in turn.steps:
        if isinstance(step, InferenceStep):
            calls = {call.call_id: call for call in step.model_response.tool_calls}
        elif isinstance(step, ToolExecutionStep):
            for response in step.tool_responses:
                calls.pop(response.call_id, None)
    return tuple(calls.values())


def newest_within(messages: Sequence[Message], budget_tokens: int) -> tuple[Message, ...]:
    """Return the longest tail that fits; a call is never separated from its answers."""
    start = len(messages)
    for index in range(len(messages) - 1, -1, -1):
        budget_tokens -= _tokens(messages[index])
        if budget_tokens < 0:
            break
        if not isinstance(messages[index], ToolResponseMessage):
            start = index
    return tuple(messages[start:])


def newest_entries(entries: Sequence[Entry], budget_tokens: int) -> tuple[list[Entry], int]:
    """Return the newest entries, oldest first, and the tokens left; only a lone newest turn may exceed the budget."""
    chosen: list[Entry] = []
    left = budget_tokens
    for entry in reversed(entries):
        if entry.tokens > left and chosen:
            break
        chosen.insert(0, entry)
        left -= entry.tokens
        if left < 0:
            break
    return chosen, left


def tokens_of(messages: Iterable[Message]) -> int:
    """Return the messages' estimated tokens: four bytes of text each, a thousand for an image."""
    return sum(_tokens(message) for message in messages)


def _tokens(message: Message) -> int:
    size = sum(
        len((call.tool_name + (call.arguments_json or str(call.arguments))).encode()) for call in _calls(message)
    )
    images = 0
    context = message.context if isinstance(message, UserMessage) else None
    for content in (message.content,) if context is None else (message.content, context):
        if isinstance(content, str):  # the form of most messages in a long history
            size += len(content) if content.isascii() else len(content.encode())
            continue
        for item in items_of(content):
            if isinstance(item, TextItem):
                size += len(item.text.encode())
            elif isinstance(item, ImageItem):
                images += 1
    return MESSAGE_TOKENS + -(-size // 4) + images * IMAGE_TOKENS


def _is_question_unjudged(ended: TurnState) -> bool:
    """Return whether the turn ended before all of its input shields had passed its messages, and before inference."""
    if any(isinstance(step, InferenceStep) for step in ended.turn.steps):
        return False
    return not _passed(ended.turn.steps, ended.traces).issuperset(ended.input_shields)


def _passed(steps: Sequence[Step], traces: Sequence[StepTrace]) -> set[str | None]:
    """Return the shields that passed the judged content in these steps."""
    judged = zip(steps, traces, strict=False)
    return {trace.shield_id for step, trace in judged if isinstance(step, ShieldCallStep) and not step.has_stopped}


def _without_unjudged(turn: Turn, traces: Sequence[StepTrace]) -> Turn:
    """Return the turn without the client's last answers if a shield stopped them, or had not judged them yet.

    An inference after them proves that they were judged.
    """
    since = newest_from_client(turn.steps, traces) or 0
    step = turn.steps[since - 1] if since else None
    if not isinstance(step, ToolExecutionStep):
        return turn
    if _passed(turn.steps[since:], traces[since:]).issuperset(traces[since - 1].input_shields):
        return turn
    unjudged = {"content": UNJUDGED} if step.tool_calls else {"content": UNJUDGED, "tool_name": ""}
    hidden = (answer.model_copy(update=unjudged) for answer in step.tool_responses)
    step = step.model_copy(update={"tool_responses": tuple(hidden)})
    return turn.model_copy(update={"steps": (*turn.steps[: since - 1], step, *turn.steps[since:])})


def _without_stopped(turn: Turn, status: TurnStatus) -> Turn:
    """Return the turn without content that a shield stopped, or had not judged yet.

    A stopped user message leaves nothing; the message shown to the user replaces a stopped answer.
    """
    stops = [index for index, step in enumerate(turn.steps) if isinstance(step, ShieldCallStep) and step.has_stopped]
    spoken = [index for index, step in enumerate(turn.steps) if isinstance(step, InferenceStep)]
    if stops and (not spoken or stops[0] < spoken[0]):
        return turn.model_copy(update={"input_messages": (), "steps": ()})
    if stops:
        output = turn.output_message.model_copy(update={"tool_calls": _run_calls(turn.steps, spoken[-1])})
        return _with_response(turn, spoken[-1], output)
    if spoken and status is not TurnStatus.COMPLETED:
        answer = turn.steps[spoken[-1]]
        is_last = not any(isinstance(step, ToolExecutionStep) for step in turn.steps[spoken[-1] :])
        if isinstance(answer, InferenceStep) and is_last and not answer.model_response.tool_calls:
            return _with_response(turn, spoken[-1], answer.model_response.model_copy(update={"content": ""}))
    return turn


def _run_calls(steps: Sequence[Step], spoken: int) -> tuple[ToolCall, ...]:
    """Return that inference's calls that were run."""
    return tuple(
        call for step in steps[spoken + 1 :] if isinstance(step, ToolExecutionStep) for call in step.tool_calls
    )


def _with_response(turn: Turn, index: int, response: CompletionMessage) -> Turn:
    step = turn.steps[index].model_copy(update={"model_response": response})
    return turn.model_copy(update={"steps": (*turn.steps[:index], step, *turn.steps[index + 1 :])})


def _messages(turn: Turn, *, with_context: bool) -> tuple[Message, ...]:
    messages: list[Message] = []
    for given in turn.input_messages:
        if isinstance(given, UserMessage) and not with_context:
            given = given.model_copy(update={"context": None})
        messages.append(given)
    for step in turn.steps:
        if isinstance(step, InferenceStep):
            if step.model_response.content or step.model_response.tool_calls:
                messages.append(step.model_response)
        elif isinstance(step, ToolExecutionStep):
            responses = step.tool_responses
            if not step.tool_calls:
                responses = _with_client_calls(messages, responses)
            messages += (ToolResponseMessage(call_id=r.call_id, content=r.content) for r in responses)
    return tuple(messages)


def _with_client_calls(messages: list[Message], responses: Sequence[ToolResponse]) -> tuple[ToolResponse, ...]:
    """Add the calls that the client parsed from the model's text to its message, the last one; return the answers.

    Every provider refuses a tool's answer without a call.
    """
    calls = tuple(map(call_in_text, responses))
    if messages and isinstance(messages[-1], CompletionMessage):
        messages[-1] = messages[-1].model_copy(update={"tool_calls": (*messages[-1].tool_calls, *calls)})
    else:
        messages.append(CompletionMessage(content="", stop_reason="end_of_turn", tool_calls=calls))
    return tuple(
        response.model_copy(update={"call_id": call.call_id}) for response, call in zip(responses, calls, strict=True)
    )


def _calls(message: Message | SystemMessage) -> tuple[ToolCall, ...]:
    return message.tool_calls if isinstance(message, CompletionMessage) else ()


def _answers(calls: dict[str, ToolCall], reason: str) -> list[Message]:
    return [ToolResponseMessage(call_id=call_id, content=reason) for call_id in calls]


def _reason_unanswered(turn: Turn, status: TurnStatus) -> str:
    match status:
        case TurnStatus.EXPIRED:
            return "Not executed: no answer came before the deadline."
        case TurnStatus.CANCELLED:
            return "Not executed: the user went on with something else."
        case TurnStatus.FAILED:
            return "Not executed: the turn failed before this call could run."
    if turn.output_message.stop_reason == "out_of_tokens":
        return "Not executed: the answer was cut off by the token limit."
    return "Not executed: the turn reached its limit of inference iterations."
