"""The fields of a wire model, found in the model itself, so that every test over all fields includes a new one."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from turnstone.domain.values.lazy_type import Late

TAGS = ("type", "role")


def paths_of(model: type[BaseModel], before: str = "") -> Iterator[str]:
    """Yield a path for every value that can be sent: names with dots between, a union's choice by its tag."""
    for name, field in model.model_fields.items():
        if name in TAGS and get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1:
            continue
        path = f"{before}{name}"
        leaves = list(dict.fromkeys(leaves_of(field.annotation)))
        models = [leaf for leaf in leaves if isinstance(leaf, type) and issubclass(leaf, BaseModel)]
        if len(models) < len(leaves) or not leaves:
            yield path
        for inner in models:
            tag = tag_of(inner)
            inner_path = f"{path}.{tag}" if tag else path
            yield from list(paths_of(inner, f"{inner_path}.")) or [inner_path]


def leaves_of(annotation: Any) -> Iterator[Any]:
    """Yield the types of a value, of lists and objects those of their items; null is left out."""
    origin = get_origin(annotation)
    if origin is Annotated:
        declared, *about = get_args(annotation)
        late = next((each for each in about if isinstance(each, Late)), None)
        yield from leaves_of(declared if late is None else late.load())
    elif origin is dict:
        yield from leaves_of(get_args(annotation)[1])
    elif origin in (Union, types.UnionType, tuple):
        for inner in get_args(annotation):
            if inner not in (type(None), ...):
                yield from leaves_of(inner)
    elif annotation is not type(None):
        yield annotation


def tag_of(model: type[BaseModel]) -> str:
    """Return the field that distinguishes the model in its union, empty if none does."""
    for name in TAGS:
        if name in model.model_fields:
            return str(get_args(model.model_fields[name].annotation)[0])
    return ""
