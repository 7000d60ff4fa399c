"""Sources of Letta's API, and their files."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, RootModel

from turnstone.dialects.letta.blocks import RENAMED_FIELDS, BlockMetadata, Description, refused_names
from turnstone.dialects.letta.ids import organization_id, user_id
from turnstone.dialects.letta.message_requests import AFTER, LIMIT, TEXT, cursor_in, limit_in
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.files.stored_files import OF_UNKNOWN_TYPE, name_problem, type_problem
from turnstone.domain.letta.sources import NewSource, SourceChanges, SourceQuery, source_id_in
from turnstone.domain.memory.banks import Bank
from turnstone.domain.memory.documents import Document
from turnstone.domain.values.frozen import Frozen, JsonObject, NullMeansDefault

DEFAULT_ITEMS = 50
EMBEDDING_DEFAULTS = {
    "embedding_endpoint_type": "openai",
    "embedding_endpoint": None,
    "embedding_model": "",
    "embedding_dim": 0,
    "embedding_chunk_size": 300,
    "handle": None,
    "azure_endpoint": None,
    "azure_version": None,
    "azure_deployment": None,
}
SOURCES_QUERY: Mapping[str, str | Mapping[str, Any]] = {
    "cursor": {"description": "The id of the last source of the part before.", "schema": TEXT},
    "after": AFTER,
    "limit": {"description": "How many sources to return at most.", "schema": LIMIT},
}
SOURCE_FILES_QUERY: Mapping[str, str | Mapping[str, Any]] = {
    "cursor": {"description": "The id of the last file of the part before.", "schema": TEXT},
    "after": AFTER,
    "limit": {"description": "How many files to return at most.", "schema": LIMIT},
}
SourceName = Annotated[str, Field(min_length=1, max_length=256)]


class CreateSource(NullMeansDefault):
    """A new source."""

    name: SourceName
    embedding_config: BlockMetadata | None = None
    description: Description | None = None
    metadata_: BlockMetadata = {}

    _later = refused_names(*RENAMED_FIELDS, "instructions", "embedding", "embedding_chunk_size")

    def to_new(self) -> NewSource:
        """Return the source to create."""
        return NewSource(self.name, self.description, self.metadata_, self.embedding_config)


class UpdateSource(NullMeansDefault):
    """Changes of a source; a missing or null field stays as it is."""

    name: SourceName | None = None
    description: Description | None = None
    metadata_: BlockMetadata | None = None
    embedding_config: BlockMetadata | None = None

    _later = refused_names(*RENAMED_FIELDS, "instructions")

    def to_changes(self) -> SourceChanges:
        """Return the changed fields."""
        of_bank = {"name": self.name, "description": self.description, "metadata": self.metadata_}
        of_fields = {"embedding_config": self.embedding_config}
        return SourceChanges(_given(of_bank), _given(of_fields))


class UploadSourceFile(Frozen):
    """A file to insert into a source: a form."""

    model_config = ConfigDict(extra="forbid")


class LettaSource(Frozen):
    """A source."""

    id: str
    name: str
    description: str | None
    embedding_config: JsonObject
    organization_id: str
    metadata_: JsonObject | None
    created_by_id: str
    last_updated_by_id: str
    created_at: str
    updated_at: str


class LettaSources(RootModel[tuple[LettaSource, ...]]):
    """Sources in the order of their creation, or of their attachment to an agent."""


class LettaSourceId(RootModel[Annotated[str, Field(examples=["source-01a206b0-1787-7f64-92ea-263739085331"])]]):
    """The id of a source."""


class FileMetadata(Frozen):
    """A file of a source."""

    created_at: str
    updated_at: str
    is_deleted: bool = False
    id: str
    organization_id: str
    source_id: str
    file_name: str | None
    file_path: str | None = None
    file_type: str
    file_size: int
    file_creation_date: str | None = None
    file_last_modified_date: str | None = None


class FilesMetadata(RootModel[tuple[FileMetadata, ...]]):
    """Files of a source, oldest first."""


def source_of(bank: Bank, tenant: str) -> LettaSource:
    """Return the source as the API shows it."""
    user, fields = user_id(bank.stamp.owner), bank.source
    return LettaSource(
        id=bank.bank_id,
        name=bank.name or bank.bank_id,
        description=bank.description,
        embedding_config=embedding_of(bank),
        organization_id=organization_id(tenant),
        metadata_=dict(bank.metadata) or None,
        created_by_id=user,
        last_updated_by_id=user,
        created_at=bank.created_at.isoformat(),
        updated_at=(bank.created_at if fields is None else fields.updated_at).isoformat(),
    )


def sources_of(banks: Iterable[Bank], tenant: str) -> LettaSources:
    """Return the sources as the API shows them."""
    return LettaSources(tuple(source_of(each, tenant) for each in banks))


def embedding_of(bank: Bank) -> dict[str, Any]:
    """Return the embedding of a source as it was sent, with defaults; the operator's is used."""
    sent = None if bank.source is None else bank.source.embedding_config
    return {**EMBEDDING_DEFAULTS, **(sent or {})}


def files_of(bank: Bank, documents: Iterable[Document], tenant: str) -> FilesMetadata:
    """Return the files of a source as the API shows them."""
    return FilesMetadata(
        tuple(
            FileMetadata(
                created_at=each.created_at.isoformat(),
                updated_at=(each.ended_at or each.created_at).isoformat(),
                id=each.document_id,
                organization_id=organization_id(tenant),
                source_id=bank.bank_id,
                file_name=each.filename,
                file_type=each.mime_type,
                file_size=each.size_bytes,
            )
            for each in documents
        )
    )


def sources_query(query: Mapping[str, list[str]]) -> SourceQuery:
    """Return the query of a request. Raises InvalidRequest."""
    limit, cursor = _page_in(query)
    return SourceQuery(limit, None if cursor is None else source_id_in(cursor))


def source_files_query(query: Mapping[str, list[str]]) -> SourceQuery:
    """Return the query of a request. Raises InvalidRequest."""
    return SourceQuery(*_page_in(query))


def file_name_in(filename: str | None) -> str:
    """Return the name of a form's file. Raises InvalidRequest."""
    if filename is None or (problem := name_problem(filename)) is not None:
        raise InvalidRequest(f"file: {problem if filename else name_problem(None)}", ("file",))
    return filename


def file_type_in(media_type: str) -> str:
    """Return the media type of a form's file. Raises InvalidRequest."""
    if media_type and (problem := type_problem(media_type)) is not None:
        raise InvalidRequest(f"file: its Content-Type {problem}", ("file",))
    return media_type or OF_UNKNOWN_TYPE


def _page_in(query: Mapping[str, list[str]]) -> tuple[int, str | None]:
    texts = {name: values[-1] for name, values in query.items() if values}
    return limit_in(texts.get("limit"), DEFAULT_ITEMS), cursor_in(query)


def _given(changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if value is not None}
