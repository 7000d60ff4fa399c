"""The stored form of tools' answers: files as attachments, and a long answer cut to a model's limit."""

import re
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import quote

from pydantic_core import to_json

from turnstone.domain.refs import SessionRef
from turnstone.domain.tools.tool_runs import ProducedFile
from turnstone.domain.tools.tools import ToolResponse
from turnstone.domain.turns.turns import Attachment
from turnstone.domain.values.content import Content, ImageItem, TextItem, Url, items_of, text_of
from turnstone.domain.values.image_files import ImageKind, data_url, find_image_kind
from turnstone.store.files.attachments import AttachmentStore

MAX_IMAGE_CHARACTERS = 4_000_000
MAX_FILES = 20
UNKNOWN = ImageKind("application/octet-stream", ".bin")
MIME_TYPE = re.compile(r"[a-z0-9.+-]+/[a-z0-9.+-]+(; charset=[a-z0-9-]+)?", re.ASCII)


class ToolAnswers(NamedTuple):
    """Attributes:
    max_characters: limit of an answer's text for a model.
    public_url: prefix of the addresses of attachments; without it they are paths of this server.
    keeps_files: whether files are stored; otherwise their addresses contain them.
    """

    store: AttachmentStore
    max_characters: int
    public_url: str = ""
    keeps_files: bool = True

    def keep(
        self, ref: SessionRef, run_key: str, response: ToolResponse, files: Sequence[ProducedFile]
    ) -> tuple[ToolResponse, tuple[Attachment, ...]]:
        """Store files and long contents outside the turn; return the answer for the model, and the attachments.

        The run names the stored files, so that a repetition of the run stores the same. Raises StoreUnavailable.
        """
        shown = _images(response.content)
        response, whole = self._cut(response)
        kept = [*files[:MAX_FILES], *shown[:MAX_FILES], *whole]
        attachments = [self._attached(ref, f"{run_key}:{number}", file) for number, file in enumerate(kept)]
        metadata = dict(response.metadata or {})
        if attachments:
            metadata["attachments"] = [attachment.content.uri for attachment in attachments]  # type: ignore[union-attr] # Url
        if len(files) > MAX_FILES:
            metadata["attachments_left_out"] = len(files) - MAX_FILES
        return response.model_copy(update={"metadata": metadata or None}), tuple(attachments)

    def _attached(self, ref: SessionRef, name: str, file: ProducedFile) -> Attachment:
        attachment_id = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        if not MIME_TYPE.fullmatch(file.mime_type):  # it becomes a header, and may be text of a foreign server
            file = replace(file, mime_type="application/octet-stream")
        if not self.keeps_files:
            return Attachment(content=Url(uri=data_url(file.mime_type, file.body)), mime_type=file.mime_type)
        self.store.put(ref, attachment_id, file)
        return Attachment(content=Url(uri=self.address(ref, attachment_id)), mime_type=file.mime_type)

    def address(self, ref: SessionRef, attachment_id: str) -> str:
        agent_id, session_id = quote(ref.agent_id, safe=""), quote(ref.session_id, safe="")
        return f"{self.public_url}/v1/agents/{agent_id}/session/{session_id}/attachments/{attachment_id}"

    def _cut(self, response: ToolResponse) -> tuple[ToolResponse, tuple[ProducedFile, ...]]:
        """Return the answer within its limits, and the whole of it as a file if it was longer."""
        text = text_of(response.content)
        images = sum(_length(item) for item in items_of(response.content))
        whole: tuple[ProducedFile, ...] = ()
        metadata: dict[str, Any] = dict(response.metadata or {})
        stored = to_json(metadata)
        if len(stored) > self.max_characters:  # it is stored with the turn, and returned with every read
            whole += (ProducedFile("metadata.json", "application/json", stored),)
            metadata = {"error": True, "is_cut": True} if metadata.get("error") else {"is_cut": True}
            response = response.model_copy(update={"metadata": metadata})
        if len(text) <= self.max_characters and images <= MAX_IMAGE_CHARACTERS:
            return response, whole
        metadata |= {"is_cut": True, "characters": len(text)}
        cut = response.model_copy(update={"content": self._shown(response.content, len(text)), "metadata": metadata})
        return cut, (*whole, _whole(response.content, text))

    def _shown(self, content: Content, length: int) -> Content:
        note = (
            f"[This answer was cut: it has {length} characters, of which you see the first {self.max_characters}, and "
            "images as far as they fit. The user finds all of it among the turn's attachments.]"
        )
        if isinstance(content, str):
            return f"{content[: self.max_characters]}\n{note}"
        left, images_left = self.max_characters, MAX_IMAGE_CHARACTERS
        shown: list[TextItem | ImageItem] = []
        for item in items_of(content):
            if isinstance(item, TextItem):
                shown.append(TextItem(text=item.text[:left]))
                left -= min(left, len(item.text))
            elif _length(item) <= images_left:
                shown.append(item)
                images_left -= _length(item)
        return (*shown, TextItem(text=note))


def _images(content: Content) -> list[ProducedFile]:
    """Return the images that the model is shown by value as files."""
    shown = [item.image.data for item in items_of(content) if isinstance(item, ImageItem) and item.image.data]
    files = []
    for number, data in enumerate(shown, 1):
        try:
            body = b64decode(data, validate=True)
        except ValueError:
            continue
        kind = find_image_kind(body) or UNKNOWN
        files.append(ProducedFile(f"image-{number}{kind.suffix}", kind.mime_type, body))
    return files


def _whole(content: Content, text: str) -> ProducedFile:
    if all(isinstance(item, TextItem) for item in items_of(content)):
        return ProducedFile("output.txt", "text/plain; charset=utf-8", text.encode("utf-8", "surrogatepass"))
    body = ToolResponse(call_id="", tool_name="", content=content).model_dump_json(include={"content"})
    return ProducedFile("output.json", "application/json", body.encode())


def _length(item: TextItem | ImageItem) -> int:
    return len(item.image.data or "") if isinstance(item, ImageItem) else 0
