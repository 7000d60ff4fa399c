"""Calls of an answer whose parts arrive one by one, and their pieces for subscribers. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import uuid4

from turnstone.adapters.models.openai.wire_texts import WholeCharacters, mended
from turnstone.domain.errors import ModelFailed
from turnstone.domain.models.requests import ArgumentsChunk, CallBegun
from turnstone.domain.tools.tools import ToolCall, call_from_json

MOST_NAME_CHARACTERS = 4_096
MOST_CHECKS = 64  # per call, because each attempt parses all of its arguments


@dataclass(slots=True)
class PartialCall:
    """A call, or a fragment of one, as received.

    Attributes:
        begun: its first piece, None before its arguments begin.
        emitted: the number of characters of its arguments in its pieces.
    """

    index: int | None
    call_id: str
    name: str
    arguments: list[str] = field(default_factory=list)
    begun: CallBegun | None = None
    emitted: int = 0
    _characters: WholeCharacters = field(default_factory=WholeCharacters)
    _read: int = 0
    _checks_left: int = MOST_CHECKS

    def append(self, fragment: "PartialCall") -> None:
        self.call_id = self.call_id or fragment.call_id
        if fragment.name != self.name and len(self.name) < MOST_NAME_CHARACTERS:
            self.name += fragment.name
        self.arguments += fragment.arguments

    def is_followed_by(self, fragment: "PartialCall") -> bool:
        """Return whether a fragment with this call's index or id is nevertheless another call."""
        if not fragment.name:
            return False
        has_other_id = "" not in (self.call_id, fragment.call_id) and self.call_id != fragment.call_id
        return has_other_id or bool(fragment.arguments and self._try_parse())

    def new_arguments(self) -> str:
        """Return the whole characters of the arguments that arrived since the last call."""
        new = "".join(self.arguments[self._read :])
        self._read = len(self.arguments)
        text = self._characters.feed(new)
        self.emitted += len(text)
        return text

    def _try_parse(self) -> bool:
        if not self._checks_left or not self.arguments[-1:] or not self.arguments[-1].rstrip().endswith("}"):
            return False
        self._checks_left -= 1
        return isinstance(call_from_json("", "", "".join(self.arguments)).arguments, dict)


class PartialCalls:
    """The calls of one answer, in their order.

    A call's first piece is due when its arguments begin: its name may arrive in parts before. Its id is final then, so
    that a later one of the server is ignored.

    Attributes:
        pending: the pieces since the last call of `take_pending`.
    """

    def __init__(
        self, server: str, taken_call_ids: Callable[[], frozenset[str]] = frozenset, name_of: Callable[[str], str] = str
    ) -> None:
        """Start an answer.

        Args:
            server: names the server in errors.
            taken_call_ids: returns the ids of the history's calls; a new call with one of them gets another.
            name_of: returns the tool that the model called by a name.
        """
        self._server = server
        self._taken_before = taken_call_ids
        self._taken: set[str] | None = None
        self._name_of = name_of
        self._calls: list[PartialCall] = []
        self._begun = 0
        self.pending: list[CallBegun | ArgumentsChunk] = []

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def last(self) -> PartialCall | None:
        return self._calls[-1] if self._calls else None

    def add(self, call: PartialCall) -> None:
        """Add a call after the others."""
        self._calls.append(call)

    def replace(self, call: PartialCall, by: PartialCall) -> None:
        """Take another call in place of one that the server began again."""
        by.begun = call.begun
        self._calls[self._calls.index(call)] = by

    def advance(self, call: PartialCall) -> None:
        """Make the pieces due that a new part of this call has decided."""
        if call.begun is None and call.arguments:
            self._begin_up_to(call)
        if call.begun is not None and (text := call.new_arguments()):
            self.pending.append(ArgumentsChunk(call.begun.index, text))

    def take_pending(self) -> list[CallBegun | ArgumentsChunk]:
        """Return the pieces that became due since the last call."""
        pending, self.pending = self.pending, []
        return pending

    def finished(self, *, is_cut_off: bool) -> Iterator[ToolCall]:
        """Yield the complete calls, and make their last pieces due. Raises ModelFailed for a call without a name."""
        for call in self._calls:
            begun = call.begun or self._begin(call)
            if begun is None:
                raise ModelFailed(f"{self._server} sent a tool call without a name")
            name, arguments = self._name_of(mended(call.name)), mended("".join(call.arguments))
            if is_cut_off and not arguments:
                # Cut off before its arguments: reading them as `{}` would run the call without any.
                yield ToolCall(call_id=begun.call_id, tool_name=name, arguments="")
                continue
            finished = call_from_json(begun.call_id, name, arguments)
            if rest := (finished.arguments_json or "")[call.emitted :]:
                self.pending.append(ArgumentsChunk(begun.index, rest))
            yield finished

    def _begin_up_to(self, last: PartialCall) -> None:
        """Begin the call, and those before it; none after one whose name is missing."""
        while last.begun is None:
            call = self._calls[self._begun]
            if self._begin(call) is None:
                return
            if call is not last and (text := call.new_arguments()):
                self.pending.append(ArgumentsChunk(self._begun - 1, text))

    def _begin(self, call: PartialCall) -> CallBegun | None:
        """Begin the next call; return its first piece, None without a name."""
        name = self._name_of(mended(call.name))
        if not name:
            return None
        if self._taken is None:
            self._taken = set(self._taken_before())
        call_id = mended(call.call_id)
        if not call_id or call_id in self._taken:
            call_id = f"call_{uuid4().hex}"
        self._taken.add(call_id)
        call.begun = CallBegun(self._begun, call_id, name)
        self._begun += 1
        self.pending.append(call.begun)
        return call.begun
