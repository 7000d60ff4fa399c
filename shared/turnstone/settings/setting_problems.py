"""Explain problems of settings: the name, the allowed values, and the nearest existing name.

Imported only by a failing start. The allowed values come from the JSON schema of the settings.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError

NEAR = 0.6
OWN_WORDS = ("claims", "keys_url", "origins", "places", "value_error", "assertion_error")
SHORT = {"missing": "must be set", "dict_type": "must be a table", "model_type": "must be a table"}
OF_NAME = "[key]"  # pydantic's last part of a location where the name itself is wrong
UNION_TAGS = ("union_tag_invalid", "union_tag_not_found")
Schema = dict[str, Any]
Location = Sequence[str | int]
NameOf = Callable[[Location], str]


def problems_in_settings(
    kind: type[BaseModel], error: ValidationError, name_of: NameOf, elsewhere: Container[str] = ()
) -> str:
    """Return the problems of settings from variables, without their values.

    `elsewhere` has the fields of functions on AWS, if these settings are of a server on one machine.
    """

    def unknown(loc: Location, candidates: Sequence[str]) -> str:
        field = str(loc[-1])
        if field in elsewhere:
            return "there is no such setting of a server on one machine, only of functions on AWS; unset it"
        return "there is no such setting" + _nearest(field, candidates, lambda near: name_of((near,)))

    return "; ".join(_problems(kind, error, name_of, unknown))


def problems_in_file(kind: type[BaseModel], error: ValidationError) -> str:
    """Return the problems of an operator's file, by its dotted keys."""

    def unknown(loc: Location, candidates: Sequence[str]) -> str:
        return f"there is no such key{_nearest(str(loc[-1]), candidates, str)} (known: {', '.join(sorted(candidates))})"

    return "; ".join(_problems(kind, error, lambda loc: ".".join(map(str, loc)), unknown))


def allowed(node: Schema) -> str | None:
    """Return the allowed values by the schema, None if the schema does not state them."""
    if "description" in node and "properties" not in node:
        return str(node["description"])
    if options := [option for option in node.get("anyOf", ()) if option.get("type") != "null"]:
        alternatives = [words for option in options if (words := allowed(option))]
        return " or ".join(alternatives) if len(alternatives) == len(options) else None
    if "enum" in node or "const" in node:
        return _listed([str(value) for value in node.get("enum", (node.get("const"),))])
    match node.get("type"):
        case "boolean":
            return "true or false"
        case "integer":
            return f"a whole number{_bounds(node)}"
        case "number":
            return f"a number{_bounds(node)}"
        case "string" if node.get("format") == "ipvanyaddress":
            return "an IP address, such as 127.0.0.1"
    return None


def _problems(
    kind: type[BaseModel], error: ValidationError, name_of: NameOf, unknown: Callable[[Location, Sequence[str]], str]
) -> Iterator[str]:
    schema = kind.model_json_schema()
    for problem in error.errors(include_input=False, include_url=False):
        loc, node, parent = _found(schema, problem["loc"])
        reason = SHORT.get(problem["type"], problem["msg"].removeprefix("Value error, "))
        if problem["type"] == "extra_forbidden":
            reason = unknown(loc, list(parent.get("properties", ())))
        elif problem["type"] in UNION_TAGS and "discriminator" in node:
            tagged_by, tags = node["discriminator"]["propertyName"], node["discriminator"]["mapping"]
            loc, reason = (*loc, tagged_by), f"must be {_listed(list(tags))}"
        elif loc and loc[-1] == OF_NAME:
            loc, reason = loc[:-1], f"this name can't be used: {reason}"
        elif problem["type"] not in (*OWN_WORDS, *SHORT) and (words := allowed(node)):
            reason = f"must be {words}"
        yield f"{name_of(loc)}: {reason}" if loc else reason


def _found(schema: Schema, location: Location) -> tuple[Location, Schema, Schema]:
    """Return the position as written, its schema, and the schema of its table; {} for an unrecognised one.

    A location may also name the kind of a table, where there are several.
    """
    definitions = schema.get("$defs", {})
    loc: list[str | int] = []
    node, parent = schema, schema
    for part in location:
        if part in (tags := node.get("discriminator", {}).get("mapping", {})):
            node = _resolved({"$ref": tags[part]}, definitions)
            continue
        loc.append(part)
        parent, node = node, _resolved(_inner(node, part), definitions)
    return loc, node, parent


def _inner(node: Schema, part: str | int) -> Schema:
    for option in (node, *node.get("anyOf", ())):
        inner = option.get("properties", {}).get(part) or option.get("additionalProperties") or option.get("items")
        inner = inner or next(iter(option.get("patternProperties", {}).values()), None)
        if isinstance(inner, dict):
            return inner
    return {}


def _resolved(node: Schema, definitions: Schema) -> Schema:
    if "$ref" in node:
        node = definitions[node["$ref"].rpartition("/")[2]]
    if "anyOf" in node:
        node = {**node, "anyOf": [_resolved(option, definitions) for option in node["anyOf"]]}
    return node


def _bounds(node: Schema) -> str:
    least, most = node.get("minimum"), node.get("maximum")
    lower = f" from {least:,}" if least is not None else ""
    if "exclusiveMinimum" in node:
        lower = f" above {node['exclusiveMinimum']:,}"
    if most is None:
        return lower
    return f"{lower} to {most:,}" if least is not None else f"{lower} and at most {most:,}"


def _listed(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _nearest(name: str, candidates: Sequence[str], shown: Callable[[str], str]) -> str:
    near = get_close_matches(name, candidates, 1, NEAR)
    return f"; did you mean {shown(near[0])}?" if near else ""
