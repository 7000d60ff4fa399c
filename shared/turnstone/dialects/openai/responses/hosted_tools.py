"""Tools of a response that this server runs, as a request declares them.

Source: the types of `openai` 3.54.0. A setting that the server's tool has not is refused, but not its neutral value,
which some clients always send.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator
from pydantic import Strict as ByType

from turnstone.dialects.openai.responses.input.content import AsList, Form
from turnstone.dialects.openai.strict import StrictRequest, refuse
from turnstone.domain.agents.agents import ToolGroupWithArgs
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.memory.lent_banks import FILE_SEARCH
from turnstone.domain.responses.hosted import CODE_INTERPRETER, IMAGE_GENERATION, WEB_SEARCH
from turnstone.domain.tools.inline_toolgroups import INLINE, InlineToolgroup, ToolSelection
from turnstone.domain.values.frozen import JsonObject, JsonValue, Many
from turnstone.domain.values.numbers import Count, Flag, count_schema

MOST_STORES, MOST_RESULTS = 64, 50
DOMAIN = r"^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)+$"
MOST_DOMAINS = 20
NO_LOCATION = "this server searches from no place in particular; leave it out"
NO_EFFECT = "the image model of this server is configured by its operator; leave it out"
OF_IMAGES = (
    *("background", "complexity", "frame_count", "frame_duration_ms", "input_fidelity", "input_image_mask", "model"),
    *("moderation", "output_compression", "output_format", "quality", "size", "svg"),
)
Weight = Annotated[float, Field(ge=0, le=1e6), ByType()]
LABEL = r"^[A-Za-z0-9_-]{1,64}$"
HTTP = r"^https?://[^/\s\x85\uFEFF]+[^\s\x85\uFEFF]*$"
OF_SECRETS = {"headers", "authorization", "server_url"}
NO_CONNECTORS = "this server connects to MCP servers by their addresses only; send server_url"
Name = Annotated[str, Field(min_length=1)]


class HostedRequest(StrictRequest):
    """A tool that this server runs."""

    def to_echo(self) -> JsonObject:
        """Return the tool as a response shows it."""
        return self.model_dump(mode="json", exclude_none=True)

    def to_toolgroup(self) -> ToolGroupWithArgs:
        """Return the toolgroup that runs it, with its settings as fixed arguments."""
        raise NotImplementedError

    def to_toolgroups(self, _: Mapping[str, tuple[str, ...]]) -> tuple[ToolGroupWithArgs, ...]:
        """Return its toolgroups; of an MCP server only the named tools, where its label has names."""
        return (self.to_toolgroup(),)


class HybridSearch(StrictRequest):
    """The weights of vectors and of keywords in a search."""

    embedding_weight: Weight
    text_weight: Weight

    @model_validator(mode="after")
    def have_weight(self) -> Self:
        if not self.embedding_weight + self.text_weight:
            raise ValueError("one of embedding_weight and text_weight must be above 0")
        return self


class FileSearchRanking(StrictRequest):
    """How results are ranked, and the least score of one."""

    ranker: Literal["auto", "default-2024-11-15", "none", "weighted", "rrf"] = "auto"
    score_threshold: Annotated[float, Field(ge=0, le=1), ByType()] = 0.0
    hybrid_search: HybridSearch | None = None

    @model_validator(mode="after")
    def fuse_once(self) -> Self:
        if self.hybrid_search is not None and self.ranker in ("none", "rrf"):
            raise ValueError(f"hybrid_search: {self.ranker!r} has no weights; leave one of them out")
        return self


class FileSearch(HostedRequest):
    type: Literal["file_search"]
    vector_store_ids: Annotated[Many[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=MOST_STORES)]
    filters: JsonValue = None
    max_num_results: Annotated[Count, Field(le=MOST_RESULTS), count_schema(MOST_RESULTS)] | None = None
    ranking_options: FileSearchRanking | None = None

    @field_validator("filters")
    @classmethod
    def refuse_unreadable(cls, value: Any) -> Any:
        if value is not None:
            from turnstone.domain.memory.filters import parsed  # few requests search files

            try:
                parsed(value, ("filters",))
            except InvalidRequest as wrong:
                raise ValueError(str(wrong).removeprefix("filters: ")) from wrong
        return value

    def to_toolgroup(self) -> ToolGroupWithArgs:
        args = self.model_dump(mode="json", exclude_none=True, exclude={"type"})
        return ToolGroupWithArgs(name=FILE_SEARCH, args=args)


# how many results of a web search a model is shown, where that is not the usual number
RESULTS_OF_SIZES = {"low": 1, "high": 6}


class SearchFilters(StrictRequest):
    """The domains to search, with their subdomains."""

    allowed_domains: Annotated[Many[Annotated[str, Field(pattern=DOMAIN)]], Field(max_length=MOST_DOMAINS)] = ()


class UserLocation(StrictRequest):
    type: Literal["approximate"] = "approximate"
    city: None = None
    country: None = None
    region: None = None
    timezone: None = None

    @field_validator("city", "country", "region", "timezone", mode="before")
    @classmethod
    def refuse_locations(cls, value: Any, field: ValidationInfo) -> Any:
        return refuse(value, field, dict.fromkeys(cls.model_fields, NO_LOCATION))


class WebSearch(HostedRequest):
    type: Literal["web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"]
    filters: SearchFilters | None = None
    search_context_size: Literal["low", "medium", "high"] = "medium"
    search_content_types: Annotated[Many[Literal["text"]], Field(max_length=1)] = ()
    user_location: UserLocation | None = None
    external_web_access: Flag = True

    @field_validator("external_web_access")
    @classmethod
    def refuse_caches(cls, value: bool) -> bool:
        if not value:
            raise ValueError("this server has no cache of the web; leave it out, or send true")
        return value

    def to_toolgroup(self) -> ToolGroupWithArgs:
        domains = list(self.filters.allowed_domains) if self.filters else []
        args = {"citations": True, **({"allowed_domains": domains} if domains else {})}
        if self.search_context_size in RESULTS_OF_SIZES:
            args["max_num_results"] = RESULTS_OF_SIZES[self.search_context_size]
        return ToolGroupWithArgs(name=WEB_SEARCH, args=args)


class McpFilter(StrictRequest):
    """A part of a server's tools: those to which each condition applies."""

    tool_names: Many[Name] | None = None
    read_only: Flag | None = None

    @model_validator(mode="after")
    def be_a_condition(self) -> Self:
        if self.tool_names is None and self.read_only is None:
            raise ValueError("a filter needs tool_names or read_only")
        return self


def _shape(value: Any) -> str:
    return "object" if isinstance(value, McpFilter | dict) else "list"


NamesOrFilter = Annotated[
    Annotated[Many[Name], Tag("list")] | Annotated[McpFilter, Tag("object")], Discriminator(_shape)
]


class ApprovalFilters(StrictRequest):
    """The tools that run after an approval, and those that run without one; others run after one, too."""

    always: NamesOrFilter | None = None
    never: NamesOrFilter | None = None

    @model_validator(mode="after")
    def be_disjoint(self) -> Self:
        if both := set(_selection(self.always).names or ()) & set(_selection(self.never).names or ()):
            raise ValueError(f"never: names {min(both)!r}, and so does always")
        return self


class McpTool(HostedRequest):
    """The tools of an MCP server; its headers and its authorization are for its turn alone."""

    type: Literal["mcp"]
    server_label: Annotated[str, Field(pattern=LABEL)]
    server_url: Annotated[str, Field(pattern=HTTP)]
    headers: dict[str, str] = Field(default={}, repr=False)
    authorization: Annotated[str, Field(min_length=1)] | None = Field(default=None, repr=False)
    allowed_tools: NamesOrFilter | None = None
    require_approval: Annotated[
        Annotated[Literal["always", "never"], Tag("text")] | Annotated[ApprovalFilters, AsList], Form
    ] = "always"
    server_description: str | None = None
    allowed_callers: Annotated[Many[Literal["direct"]], Field(max_length=1)] = ()
    defer_loading: Literal[False] = False
    connector_id: None = None
    tunnel_id: None = None

    @field_validator("connector_id", "tunnel_id", mode="before")
    @classmethod
    def refuse_connectors(cls, value: Any, field: ValidationInfo) -> Any:
        return refuse(value, field, dict.fromkeys(("connector_id", "tunnel_id"), NO_CONNECTORS))

    @model_validator(mode="after")
    def authorize_once(self) -> Self:
        if self.authorization is not None and any(name.lower() == "authorization" for name in self.headers):
            raise ValueError("authorization: headers have one, too; send one of them")
        return self

    def approved(self) -> Self:
        """Return the tool; no call needs an approval unless its own `require_approval` is for one."""
        return (
            self
            if "require_approval" in self.model_fields_set
            else self.model_copy(update={"require_approval": "never"})
        )

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that its turn keeps apart: any of them may be a secret."""
        return (self.server_url, self.authorization or "", *self.headers, *self.headers.values())

    def to_echo(self) -> JsonObject:
        shown = self.model_dump(mode="json", exclude_none=True, exclude_unset=True, exclude=OF_SECRETS)
        approval = self.require_approval
        shown["require_approval"] = approval if isinstance(approval, str) else shown["require_approval"]
        return {**shown, "server_url": without_secrets(self.server_url)}

    def to_toolgroup(self, only: str | None = None) -> ToolGroupWithArgs:
        """Return the toolgroup of its tools, or of one of them."""
        name = INLINE + self.server_label
        return ToolGroupWithArgs(name=name if only is None else f"{name}/{only}", args={})

    def to_toolgroups(self, only: Mapping[str, tuple[str, ...]]) -> tuple[ToolGroupWithArgs, ...]:
        return tuple(map(self.to_toolgroup, only.get(self.server_label, (None,))))

    def to_own(self) -> InlineToolgroup:
        """Return the toolgroup that its turn keeps."""
        bearer = {} if self.authorization is None else {"Authorization": f"Bearer {self.authorization}"}
        approval = self.require_approval
        always, never = None, ToolSelection() if approval == "never" else None
        if isinstance(approval, ApprovalFilters):
            always = None if approval.always is None else _selection(approval.always)
            never = None if approval.never is None else _selection(approval.never)
        return InlineToolgroup(
            label=self.server_label,
            uri=self.server_url,
            headers={**self.headers, **bearer},
            description=self.server_description,
            allowed=ToolSelection() if self.allowed_tools is None else _selection(self.allowed_tools),
            always=always,
            never=never,
        )


def _selection(given: "McpFilter | tuple[str, ...] | None") -> ToolSelection:
    if isinstance(given, McpFilter):
        return ToolSelection(names=given.tool_names, read_only=given.read_only)
    return ToolSelection(names=given)


def without_secrets(url: str) -> str:
    """Return the address without a name, a password, a query and a fragment, which may be secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class NoNetwork(StrictRequest):
    type: Literal["disabled"]


class AutoContainer(StrictRequest):
    """A container of each call's own, without network."""

    type: Literal["auto"]
    file_ids: Annotated[Many[str], Field(max_length=0)] = ()
    memory_limit: None = None
    network_policy: NoNetwork | None = None

    @field_validator("file_ids", "memory_limit", mode="before")
    @classmethod
    def refuse_settings(cls, value: Any, field: ValidationInfo) -> Any:
        if value:
            raise ValueError(f"{field.field_name}: containers of this server have no such setting; leave it out")
        return value


def _container(value: Any) -> Any:
    if value == "auto":
        return {"type": "auto"}
    if isinstance(value, str):
        raise ValueError("this server keeps no containers; send {'type': 'auto'}")
    return value


class HostedCode(HostedRequest):
    type: Literal["code_interpreter"]
    container: Annotated[AutoContainer, BeforeValidator(_container)]
    allowed_callers: Annotated[Many[Literal["direct"]], Field(max_length=1)] = ()

    def to_toolgroup(self) -> ToolGroupWithArgs:
        return ToolGroupWithArgs(name=CODE_INTERPRETER, args={})


class ImageGeneration(HostedRequest):
    type: Literal["image_generation"]
    action: Literal["auto", "generate"] = "auto"
    partial_images: Literal[0] = 0
    background: None = None
    complexity: None = None
    frame_count: None = None
    frame_duration_ms: None = None
    input_fidelity: None = None
    input_image_mask: None = None
    model: None = None
    moderation: None = None
    output_compression: None = None
    output_format: None = None
    quality: None = None
    size: None = None
    svg: None = None

    @field_validator(*OF_IMAGES, mode="before")
    @classmethod
    def refuse_settings(cls, value: Any, field: ValidationInfo) -> Any:
        return None if value == "auto" else refuse(value, field, dict.fromkeys(OF_IMAGES, NO_EFFECT))

    @field_validator("partial_images", mode="before")
    @classmethod
    def refuse_parts(cls, value: Any) -> Any:
        if value:
            raise ValueError("the image model of this server gives whole images only; leave it out")
        return value

    def to_toolgroup(self) -> ToolGroupWithArgs:
        return ToolGroupWithArgs(name=IMAGE_GENERATION, args={})
