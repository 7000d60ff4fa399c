"""A session's context for the model: the log of ended turns, and the part that fits a token budget.

The log is a sequence of segments. Only the last, the open segment, is appended to; once it holds about a thousand
tokens the next turn opens another. So a token budget bounds the number of segments to read, however long the history.
A summary is a segment of its own, after the turn at whose end it was written.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter

from pydantic import Field
from pydantic_core import to_json

from turnstone.domain.messages.messages import (
    MESSAGES,
    CompletionMessage,
    Message,
    ToolResponseMessage,
    UserMessage,
)
from turnstone.domain.sessions.call_pairs import answered, begins_with_answers, calls_of
from turnstone.domain.tools.tools import ToolCall, ToolResponse, call_in_text
from turnstone.domain.turns.loop_policies import CONTINUED, FAILED, NEARLY_FULL, LoopPolicy, is_failed
from turnstone.domain.turns.turn_settings import TurnDocument, with_documents
from turnstone.domain.turns.turns import (
    InferenceStep,
    MemoryRetrievalStep,
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
from turnstone.domain.values.content import ImageItem, TextItem, items_of, text_of
from turnstone.domain.values.frozen import Frozen

SEALED_TOKENS = 1_000
INLINE_BYTES = 4_096
IMAGE_TOKENS = 1_000
MESSAGE_TOKENS = 4
UNJUDGED = "The answer of this tool was stopped by a safety check, or never judged by one."
_ENTRY_TOKENS = attrgetter("tokens")
EMPTY_ENTRY_TOKENS = 32  # the cost of an entry without messages, so that a segment of such entries is sealed, too


class Entry(Frozen):
    """An ended turn in the context of later ones.

    Attributes:
        messages: None where only the turn itself holds them.
        continues: whether it answers calls of the turn before it, from which no budget separates it.
    """

    order: str
    tokens: int
    messages: tuple[Message, ...] | None = None
    continues: bool = Field(default=False, exclude_if=lambda continues: not continues)


class Segment(Frozen):
    """A part of the log: ended turns, or a summary of earlier ones."""

    number: int
    entries: tuple[Entry, ...] = ()
    summary: Summary | None = None

    @property
    def tokens(self) -> int:
        return sum(map(_ENTRY_TOKENS, self.entries))

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
        order=ended.order,
        tokens=tokens_of(messages) or EMPTY_ENTRY_TOKENS,
        messages=messages if is_small else None,
        continues=bool(ended.carried_calls) or begins_with_answers(messages),
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
    entries = chain.from_iterable(segment.entries for segment in segments)
    return summary, tuple(entries if summary is None else (e for e in entries if e.order > summary.last_order))


def summary_tokens(summary: Summary | None) -> int:
    return 0 if summary is None else tokens_of((summary_message(summary),))


def summary_message(summary: Summary) -> Message:
    """Return the message that replaces the summarised turns. Not an instruction: it quotes users and tools."""
    return UserMessage(content=f"[Summary of the earlier conversation]\n{summary.text}")


def ended_messages(ended: TurnState) -> tuple[Message, ...]:
    """Return the ended turn's messages: without transient context and stopped content, each call with an answer.

    A turn that ended with calls in its output leaves those to the next turn, which may begin with their answers.
    """
    if _is_question_unjudged(ended):
        return ()
    judged = _without_stopped(_without_unjudged(ended.turn, ended.traces), ended)
    messages = _messages(judged, ended.traces, is_current=False)
    if judged.output_message.tool_calls:
        return messages
    return answered(messages, _reason_unanswered(ended.turn, ended.status))


def current_messages(state: TurnState) -> tuple[Message, ...]:
    """Return the running turn's messages so far."""
    turn = state.turn
    documents = (*state.documents, *inserted_from_memory(turn.steps))
    if documents:
        turn = turn.model_copy(update={"input_messages": with_documents(turn.input_messages, documents)})
    return _messages(turn, state.traces, is_current=True)


def inserted_from_memory(steps: Sequence[Step]) -> tuple[TurnDocument, ...]:
    """Return the context that the turn's memory inserted, for the model to see in this turn only."""
    found = (step.inserted_context for step in steps if isinstance(step, MemoryRetrievalStep))
    return tuple(TurnDocument.model_construct(content=context) for context in found if context)


def unanswered_calls(state: TurnState) -> tuple[ToolCall, ...]:
    """Return the last inference's calls that no tool step has answered yet; before it, those of an earlier turn."""
    calls = {call.call_id: call for call in state.carried_calls}
    for step in state.turn.steps:
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
    """Return the newest entries, oldest first, and the tokens left.

    A turn is never separated from the one that it continues. Only the newest turn, with those that it continues, may
    exceed the budget.
    """
    all_tokens = sum(map(_ENTRY_TOKENS, entries))
    if all_tokens <= budget_tokens:
        return list(entries), budget_tokens - all_tokens
    first = end = len(entries)
    left = budget_tokens
    group_tokens = 0
    for index in range(end - 1, -1, -1):
        group_tokens += entries[index].tokens
        if entries[index].continues and index:
            continue
        if group_tokens > left and first < end:
            break
        first, left, group_tokens = index, left - group_tokens, 0
        if left < 0:
            break
    return list(entries[first:]), left


def first_kept(entries: Sequence[Entry], index: int) -> int:
    """Return the index from which entries are kept, moved so that no turn is separated from the one it continues."""
    while 0 < index < len(entries) and entries[index].continues:
        index -= 1
    return index


def newest_of_turns(
    turns: Sequence[tuple[Message, ...]], budget_tokens: int, *, is_continued: bool = False
) -> list[tuple[Message, ...]]:
    """Return the part of the turns' messages that fits the budget: their newest, each turn's by itself.

    Args:
        is_continued: whether the next turn answers the last calls, which are kept at any length.
    """
    messages = [message for turn in turns for message in turn]
    count = len(newest_within(messages, budget_tokens))
    if is_continued:
        last = next((i for i in range(len(messages) - 1, -1, -1) if calls_of(messages[i])), len(messages))
        count = max(count, len(messages) - last)
    parts: list[tuple[Message, ...]] = []
    for turn in reversed(turns):
        part = turn[max(0, len(turn) - count) :]
        parts.insert(0, part)
        count -= len(part)
    return parts


def tokens_of(messages: Iterable[Message]) -> int:
    """Return the messages' estimated tokens: four bytes of text each, a thousand for an image."""
    return sum(_tokens(message) for message in messages)


def _tokens(message: Message) -> int:
    size = sum(
        len((call.tool_name + (call.arguments_json or str(call.arguments))).encode()) for call in calls_of(message)
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


def _without_stopped(turn: Turn, ended: TurnState) -> Turn:
    """Return the turn without content that a shield stopped, or had not judged yet.

    A stopped user message leaves nothing; the message shown to the user replaces a stopped answer.
    """
    status = ended.status
    stops = [index for index, step in enumerate(turn.steps) if isinstance(step, ShieldCallStep) and step.has_stopped]
    spoken = [index for index, step in enumerate(turn.steps) if isinstance(step, InferenceStep)]
    if stops and (not spoken or stops[0] < spoken[0]):
        return turn.model_copy(update={"input_messages": (), "steps": ()})
    if stops:
        run = (_hidden(call, turn.output_message, ended.policy) for call in _run_calls(turn.steps, spoken[-1]))
        output = turn.output_message.model_copy(update={"tool_calls": tuple(run)})
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


def _hidden(call: ToolCall, shown: CompletionMessage, policy: LoopPolicy) -> ToolCall:
    """Return the call; the message shown to the user replaces a stopped answer in its arguments."""
    if policy.answer_in(call) is None:
        return call
    arguments = {policy.answer_argument: text_of(shown.content)}
    return call.model_copy(update={"arguments": arguments, "arguments_json": to_json(arguments).decode()})


def _with_response(turn: Turn, index: int, response: CompletionMessage) -> Turn:
    step = turn.steps[index].model_copy(update={"model_response": response})
    return turn.model_copy(update={"steps": (*turn.steps[:index], step, *turn.steps[index + 1 :])})


def _messages(turn: Turn, traces: Sequence[StepTrace], *, is_current: bool) -> tuple[Message, ...]:
    """Return the turn's messages, with those of its loop; a running turn's also with its transient context."""
    messages: list[Message] = []
    alerts: list[Message] = []
    continued: list[Message] = []
    for given in turn.input_messages:
        if isinstance(given, UserMessage) and not is_current:
            given = given.model_copy(update={"context": None})
        messages.append(given)
    for step, trace in zip(turn.steps, traces, strict=False):
        if isinstance(step, InferenceStep):
            messages += (*alerts, *continued)
            alerts, continued = [NEARLY_FULL] if trace.has_alert else [], []
            if step.model_response.content or step.model_response.tool_calls:
                messages.append(step.model_response)
        elif isinstance(step, ToolExecutionStep):
            responses = step.tool_responses
            if not step.tool_calls:
                responses = _with_client_calls(messages, responses)
            messages += (ToolResponseMessage(call_id=r.call_id, content=r.content) for r in responses)
            if trace.heartbeat:
                continued = [FAILED if any(map(is_failed, step.tool_responses)) else CONTINUED]
    return (*messages, *alerts, *(continued if is_current else ()))


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
