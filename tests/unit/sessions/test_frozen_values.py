"""Values are constructed and copied as pydantic does it, only faster.

Covers: domain/values/frozen
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pytest
from pydantic import BaseModel, Field

from turnstone.dialects.openai.chat.chat_requests import CreateChatCompletion
from turnstone.domain.agents.agents import AgentConfig, TurnOverrides
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.turns.turns import NewTurn, Turn, TurnState
from turnstone.domain.values.frozen import MAX_DEPTH, Frozen, is_too_deep

CLASSES = (AgentConfig, TurnOverrides, Session, NewTurn, Turn, TurnState)


class Odd(Frozen):
    made: list[int] = Field(default_factory=lambda: [1])
    nested: dict[str, list[int]] = {"a": [1]}


class Renamed(Frozen):
    model: str = Field(validation_alias="name")


class Free(Frozen, extra="allow"):
    number: int = 0


def by_pydantic(cls: type[Frozen], **values: Any) -> BaseModel:
    return BaseModel.model_construct.__func__(cls, **values)  # type: ignore[attr-defined, no-any-return]


def given(cls: type[Frozen]) -> dict[str, Any]:
    return {name: object() for name, field in cls.model_fields.items() if field.is_required()}


def cases() -> Iterator[tuple[type[Frozen], dict[str, Any]]]:
    for cls in CLASSES:
        yield cls, given(cls)
        yield cls, dict(reversed(given(cls).items()))
        yield cls, {}
        yield cls, {**given(cls), "no_field": 1}
        yield cls, {name: object() for name in cls.model_fields}
    yield Odd, {}
    yield Renamed, {"name": "m"}
    yield Renamed, {"model": "m"}
    yield Free, {"more": 1}


@pytest.mark.parametrize(("cls", "values"), list(cases()))
def test_a_constructed_value_is_that_of_pydantic(cls: type[Frozen], values: dict[str, Any]) -> None:
    expected, made = by_pydantic(cls, **values), cls.model_construct(**values)
    assert (list(expected.__dict__.items()), expected.model_fields_set, expected.__pydantic_extra__) == (
        list(made.__dict__.items()),
        made.model_fields_set,
        made.__pydantic_extra__,
    )
    assert type(made) is cls


@pytest.mark.parametrize("cls", [NewTurn, Odd, TurnState])
def test_no_two_values_share_a_dict_or_list(cls: type[Frozen]) -> None:
    first, second = cls.model_construct(**given(cls)), cls.model_construct(**given(cls))
    mutable = [name for name, value in first.__dict__.items() if isinstance(value, dict | list)]
    assert mutable
    assert not [name for name in mutable if getattr(first, name) is getattr(second, name)]


@pytest.mark.parametrize("update", [None, {"number": 2}, {"more": 3}])
@pytest.mark.parametrize("cls", [Free, TurnState, CreateChatCompletion])
def test_a_copy_is_that_of_pydantic(cls: type[Frozen], update: dict[str, Any] | None) -> None:
    value = by_pydantic(cls, **given(cls))
    expected, copied = BaseModel.model_copy(value, update=update), value.model_copy(update=update)
    assert expected == copied
    assert list(expected.__dict__.items()) == list(copied.__dict__.items())
    assert (expected.model_fields_set, expected.__pydantic_extra__) == (
        copied.model_fields_set,
        copied.__pydantic_extra__,
    )
    assert copied is not value
    assert copied.__dict__ is not value.__dict__
    assert copied.model_fields_set is not value.model_fields_set


def deep(levels: int, beside: Any = ()) -> Any:
    """Return lists, objects and tuples in one another."""
    value: Any = [{}, []][levels % 2]
    for level in range(levels - 1):
        value = [{"a": 1, "b": value, "c": beside}, [beside, value], (value,)][level % 3]
    return value


@pytest.mark.parametrize("beside", [(), {}, [1, None], "text"], ids=["empty", "object", "list", "text"])
def test_nesting_is_counted_along_the_deepest_path(beside: Any) -> None:
    assert not is_too_deep("text", 0)
    for levels in range(1, 8):
        assert is_too_deep(deep(levels), levels - 1)
        assert not is_too_deep(deep(levels), levels)
    assert not is_too_deep(deep(MAX_DEPTH, beside))
    assert is_too_deep(deep(MAX_DEPTH + 1, beside))


class Parent(Frozen):
    number: int = 0


class Child(Parent):
    @cached_property
    def text(self) -> str:
        return str(self.number)


def test_values_are_equal_as_pydantic_compares_them() -> None:
    shown = Child()
    assert shown.text == "0"
    values = (Parent(), Parent(number=1), Child(), shown, Free(), Free(more=1), Free(more=2), Odd(), Odd(made=[]), None)
    for one in values:
        for other in values:
            assert (one == other) == (
                (isinstance(one, BaseModel) and BaseModel.__eq__(one, other) is True) or one is other
            )
            assert one != other or hash_of(one) == hash_of(other)


def hash_of(value: object) -> int:
    """Return the hash of a value, the same for all without one."""
    try:
        return hash(value)
    except TypeError:
        return 0
