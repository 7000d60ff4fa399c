"""The output items of an inference while they grow: reasoning and messages.

Each writes the events of its growth, and ends as the item of the whole response. The items of a response are made by
these alone, so that a stream ends with what a later request reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from turnstone.domain.responses.addresses import item_id

if TYPE_CHECKING:
    from turnstone.domain.tools.citations import CitationReader, Cited

Event = dict[str, Any]
Annotation = dict[str, Any]
Status = Literal["in_progress", "completed", "incomplete", "failed"]


class OpenItem:
    """An item that has begun.

    Attributes:
        index: its position in the output.
        is_dropped: whether the response leaves it out in the end: a call that can't be answered.
    """

    kind = ""

    def __init__(self, turn_id: str, index: int) -> None:
        self.index = index
        self.item_id = item_id(self.kind, turn_id, index)
        self.text = ""
        self.status: Status = "in_progress"
        self.is_dropped = False

    @property
    def item(self) -> dict[str, Any]:
        """The item as it is now."""
        raise NotImplementedError

    def begun(self) -> Iterator[Event]:
        yield self._event("response.output_item.added", item=self.item)

    def grown(self, text: str) -> Iterator[Event]:
        raise NotImplementedError

    def ended(self, status: Status = "completed") -> Iterator[Event]:
        self.status = status
        yield self._event("response.output_item.done", item=self.item)

    def _event(self, kind: str, **fields: Any) -> Event:
        return {"type": kind, "output_index": self.index, **fields}

    def _part_event(self, kind: str, **fields: Any) -> Event:
        return self._event(kind, item_id=self.item_id, content_index=0, **fields)


class OpenReasoning(OpenItem):
    kind = "rs"

    @property
    def item(self) -> dict[str, Any]:
        content = [{"type": "reasoning_text", "text": self.text}] if self.text else []
        return {
            "id": self.item_id,
            "type": "reasoning",
            "summary": [],
            "content": content,
            "encrypted_content": None,
            "status": self.status,
        }

    def grown(self, text: str) -> Iterator[Event]:
        if not self.text:
            yield self._part_event("response.content_part.added", part={"type": "reasoning_text", "text": ""})
        self.text += text
        yield self._part_event("response.reasoning_text.delta", delta=text)

    def ended(self, status: Status = "completed") -> Iterator[Event]:
        if self.text:
            yield self._part_event("response.reasoning_text.done", text=self.text)
            part = {"type": "reasoning_text", "text": self.text}
            yield self._part_event("response.content_part.done", part=part)
        yield from super().ended(status)


class OpenMessage(OpenItem):
    """A message of the model, with the sources that it cites.

    Attributes:
        sources: the beginnings of annotations, by the numbers in marks; None where texts have no marks.
    """

    kind = "msg"

    def __init__(self, turn_id: str, index: int, sources: Mapping[int, Annotation] | None = None) -> None:
        super().__init__(turn_id, index)
        self._sources = sources
        self._reader = None if sources is None else _citation_reader()
        self._annotations: list[Annotation] = []
        self._has_part = False

    @property
    def item(self) -> dict[str, Any]:
        content = [self._part] if self._has_part else []
        return {
            "id": self.item_id,
            "type": "message",
            "role": "assistant",
            "status": self.status,
            "content": content,
        }

    @property
    def _part(self) -> dict[str, Any]:
        return _output_text(self.text, self._annotations)

    def grown(self, text: str) -> Iterator[Event]:
        for piece in (text,) if self._reader is None else self._reader.fed(text):
            if isinstance(piece, str):
                yield from self._text_added(piece)
            else:
                yield from self._cited(piece)

    def ended(self, status: Status = "completed") -> Iterator[Event]:
        if self._reader is not None and (rest := self._reader.rest()):
            yield from self._text_added(rest)
        if self._has_part:
            yield self._part_event("response.output_text.done", text=self.text, logprobs=[])
            yield self._part_event("response.content_part.done", part=self._part)
        yield from super().ended(status)

    def _text_added(self, text: str) -> Iterator[Event]:
        yield from self._with_part()
        self.text += text
        yield self._part_event("response.output_text.delta", delta=text, logprobs=[])

    def _cited(self, cited: Cited) -> Iterator[Event]:
        source = (self._sources or {}).get(cited.number)
        if source is None:
            return
        yield from self._with_part()
        is_file = source["type"] == "file_citation"
        position = {"index": cited.end} if is_file else {"start_index": cited.start, "end_index": cited.end}
        index = len(self._annotations)
        self._annotations.append({**source, **position})
        annotation = self._annotations[-1]
        added = {"annotation": annotation, "annotation_index": index}
        yield self._part_event("response.output_text.annotation.added", **added)

    def _with_part(self) -> Iterator[Event]:
        if not self._has_part:
            yield self._part_event("response.content_part.added", part=_output_text("", ()))
            self._has_part = True


class OpenRefusal(OpenMessage):
    """The message of a shield that stopped the response."""

    @property
    def _part(self) -> dict[str, Any]:
        return {"type": "refusal", "refusal": self.text}

    def grown(self, text: str) -> Iterator[Event]:
        if not self._has_part:
            yield self._part_event("response.content_part.added", part={"type": "refusal", "refusal": ""})
            self._has_part = True
        self.text += text
        yield self._part_event("response.refusal.delta", delta=text)

    def ended(self, status: Status = "completed") -> Iterator[Event]:
        if self._has_part:
            yield self._part_event("response.refusal.done", refusal=self.text)
            yield self._part_event("response.content_part.done", part=self._part)
        yield from OpenItem.ended(self, status)


def _citation_reader() -> CitationReader:
    from turnstone.domain.tools.citations import CitationReader  # few responses search

    return CitationReader()


def _output_text(text: str, annotations: Sequence[Annotation]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}
