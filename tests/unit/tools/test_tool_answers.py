"""The stored form of tools' answers: what a model sees of a long one, and the files that hold all of it.

Covers: services/tools/tool_answers
"""

from __future__ import annotations

from base64 import b64encode

from turnstone.domain.refs import SessionRef
from turnstone.domain.tools.tool_runs import ProducedFile
from turnstone.domain.tools.tools import ToolResponse
from turnstone.domain.values.content import Content, Image, ImageItem, TextItem, items_of, text_of
from turnstone.services.tools.tool_answers import MAX_FILES, MAX_IMAGE_CHARACTERS, ToolAnswers
from turnstone.store.files.attachments import AttachmentStore

REF = SessionRef(tenant="t", agent_id="a b", session_id="s")
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 8


class Kept(AttachmentStore):
    """Keeps files in a list, without a session."""

    def __init__(self) -> None:
        """Take no store: nothing is read."""
        self.files: list[ProducedFile] = []

    def put(self, ref: SessionRef, attachment_id: str, file: ProducedFile) -> None:
        self.files.append(file)


def _kept(content: Content, *files: ProducedFile, **metadata: object) -> tuple[ToolResponse, list[ProducedFile]]:
    store = Kept()
    response = ToolResponse(call_id="c", tool_name="n", content=content, metadata=metadata or None)
    answer, attachments = ToolAnswers(store, 20).keep(REF, "run", response, files)
    assert [attachment.mime_type for attachment in attachments] == [file.mime_type for file in store.files]
    assert all(str(attachment.content).find("a%20b") > 0 for attachment in attachments)
    return answer, store.files


def test_a_short_answer_stays_as_it_is() -> None:
    answer, files = _kept("short")
    assert (answer.content, answer.metadata, files) == ("short", None, [])


def test_a_long_text_is_cut_and_kept_as_a_file() -> None:
    answer, (file,) = _kept("x" * 30)
    assert text_of(answer.content).startswith("x" * 20 + "\n[This answer was cut: it has 30 characters")
    assert (file.name, file.body) == ("output.txt", b"x" * 30)
    assert answer.metadata is not None
    assert (answer.metadata["is_cut"], answer.metadata["characters"]) == (True, 30)


def test_items_are_cut_together_and_images_stay_as_far_as_they_fit() -> None:
    picture = ImageItem(image=Image(data=b64encode(PNG).decode()))
    large = ImageItem(image=Image(data="A" * (MAX_IMAGE_CHARACTERS + 4)))
    answer, files = _kept((TextItem(text="y" * 15), picture, TextItem(text="z" * 15), large))
    first, shown, second, note = items_of(answer.content)
    assert (first, shown, second) == (TextItem(text="y" * 15), picture, TextItem(text="z" * 5))
    assert isinstance(note, TextItem)
    assert [file.name for file in files] == ["image-1.png", "image-2.bin", "output.json"]
    assert files[0].body == PNG


def test_long_metadata_is_kept_as_a_file_and_an_error_stays_one() -> None:
    answer, (file,) = _kept("short", error=True, trace="x" * 50)
    assert (file.name, file.mime_type) == ("metadata.json", "application/json")
    assert answer.metadata is not None
    assert answer.metadata["error"] is True
    assert "trace" not in answer.metadata


def test_the_number_of_files_is_limited_and_a_foreign_type_becomes_no_header() -> None:
    many = [ProducedFile(str(number), "text/plain\r\nx: y", b"") for number in range(MAX_FILES + 2)]
    answer, files = _kept("short", *many)
    assert {file.mime_type for file in files} == {"application/octet-stream"}
    assert len(files) == MAX_FILES
    assert answer.metadata is not None
    assert answer.metadata["attachments_left_out"] == 2


def test_what_is_no_base64_is_no_image() -> None:
    _, files = _kept((ImageItem(image=Image(data="!")),))
    assert files == []
