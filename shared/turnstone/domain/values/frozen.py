"""Base classes of domain models, and JSON objects with arbitrary content."""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

MAX_DEPTH = 64
NESTS = (dict, list, tuple)
FrozenT = TypeVar("FrozenT", bound="Frozen")
_set = object.__setattr__
_EXTRA = "__pydantic_extra__"
_get = object.__getattribute__  # a model's own access also tries pydantic's, and takes several times as long


if TYPE_CHECKING:  # the metaclass of models has no public name
    from pydantic._internal._model_construction import ModelMetaclass as ByClass
else:

    class ByClass(type(BaseModel)):
        """Models to which only instances of their class and its subclasses belong.

        pydantic's own check also admits registered classes, as abstract ones do, and takes several times as long; a
        turn makes hundreds of checks.
        """

        __instancecheck__ = type.__instancecheck__


class Frozen(BaseModel, metaclass=ByClass):
    """An immutable value; `model_copy(update=…)` creates a new one. Unrecognised fields are ignored.

    Validation errors omit the value, which may be a secret or a message.
    """

    model_config = ConfigDict(
        frozen=True,
        defer_build=True,
        extra="ignore",
        protected_namespaces=(),
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return the value itself: it cannot change, and pydantic copies every default."""
        return self

    # pydantic's own construction, copy and comparison take several times as long; a turn makes dozens of values

    def __eq__(self, other: object) -> bool:
        """Return whether the other value has the same class and the same fields."""
        if self is other:
            return True
        if type(self) is not type(other) or _get(self, _EXTRA) or _get(other, _EXTRA):
            return super().__eq__(other)
        mine, theirs = _get(self, "__dict__"), _get(other, "__dict__")
        if mine == theirs:
            return True
        has_more = max(len(mine), len(theirs)) > len(type(self).__pydantic_fields__)
        return has_more and super().__eq__(other)  # without cached properties

    if not TYPE_CHECKING:  # pydantic's plugin gives mypy the signature of each class

        @classmethod
        def model_construct(cls, _fields_set: set[str] | None = None, **values: Any) -> Self:
            """Return the value of these validated fields, with the defaults of all others."""
            template = _templates.get(cls) or _template_of(cls)
            fields = {**template.fields, **values}
            if not template.is_plain or len(fields) > len(template.fields) or not template.required <= values.keys():
                return super().model_construct(_fields_set, **values)
            for name in template.empty - values.keys():
                fields[name] = fields[name].copy()
            return _made(cls, fields, set(values) if _fields_set is None else _fields_set)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with these fields changed, without validation."""
        if deep or _get(self, _EXTRA) is not None:
            return super().model_copy(update=update, deep=deep)
        changes = update or {}
        given = _get(self, "__pydantic_fields_set__")
        return _made(type(self), {**_get(self, "__dict__"), **changes}, {*given, *changes})


class _Template(NamedTuple):
    """What `model_construct` needs of a class of values.

    Attributes:
        fields: all fields in their order, with their defaults; a required one is None.
        empty: those whose default is an empty dict, list or set, which each value gets for itself.
        is_plain: whether construction does no more than fill in these defaults.
    """

    fields: dict[str, Any]
    required: frozenset[str]
    empty: frozenset[str]
    is_plain: bool


_templates: dict[type[Frozen], _Template] = {}


def _template_of(cls: type[Frozen]) -> _Template:
    fields = cls.model_fields
    required = frozenset(name for name, field in fields.items() if field.is_required())
    defaults = {name: None if name in required else field.default for name, field in fields.items()}
    empty = frozenset(name for name, default in defaults.items() if isinstance(default, dict | list | set))
    is_plain = not (
        any(field.default_factory or field.validation_alias for field in fields.values())
        or any(defaults[name] for name in empty)
        or cls.model_config.get("extra") == "allow"
        or cls.__pydantic_post_init__
    )
    template = _templates[cls] = _Template(defaults, required, empty, is_plain)
    return template


def _made(cls: type[FrozenT], fields: dict[str, Any], given: set[str]) -> FrozenT:
    value = cls.__new__(cls)
    _set(value, "__dict__", fields)
    _set(value, "__pydantic_fields_set__", given)
    _set(value, "__pydantic_extra__", None)
    _set(value, "__pydantic_private__", None)
    return value


class Strict(Frozen):
    """A part of the operator's file: an unrecognised field is an error."""

    model_config = ConfigDict(extra="forbid")


class NullMeansDefault(Frozen):
    """A value whose fields, sent as null, take their default.

    Source: the Llama Stack Agents contract, where clients send null for lists and counts.
    """

    @model_validator(mode="before")
    @classmethod
    def drop_nulls(cls, fields: Any) -> Any:
        if isinstance(fields, dict):
            return {name: value for name, value in fields.items() if value is not None}
        return fields


def is_too_deep(value: Any, levels: int = MAX_DEPTH) -> bool:
    """Return whether the value's nesting exceeds the limit of stores and readers."""
    layer = [value] if isinstance(value, NESTS) else []
    for _ in range(levels):
        layer = [
            inner
            for nest in layer
            for inner in (nest.values() if isinstance(nest, dict) else nest)
            if isinstance(inner, NESTS)
        ]
        if not layer:
            return False
    return bool(layer)


def infinity_path(value: Any) -> tuple[str | int, ...] | None:
    """Return the position of a number that JSON cannot hold, such as 1e999 after parsing, None if there is none."""
    if isinstance(value, float):
        return None if math.isfinite(value) else ()
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    for name, inner in inside:
        if (path := infinity_path(inner)) is not None:
            return (name, *path)
    return None


def refuse_too_deep(value: Any) -> Any:
    """Return the value. Raises ValueError if it is nested too deep."""
    if is_too_deep(value):
        raise ValueError(f"lists and objects may be nested at most {MAX_DEPTH} deep")
    return value


Member = TypeVar("Member")
# stops at the first invalid member: a list of a million of them must not produce a million problems
Many = Annotated[tuple[Member, ...], Field(fail_fast=True)]
JsonValue = Annotated[Any, AfterValidator(refuse_too_deep)]
JsonObject = Annotated[dict[str, Any], AfterValidator(refuse_too_deep)]
