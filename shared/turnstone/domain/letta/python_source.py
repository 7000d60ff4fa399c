"""The function in the Python source of a tool: its name, and the JSON schema of its arguments. Pure.

The source is parsed and never run: neither the module, nor a decorator, an annotation or a default value.
"""

import ast
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.tools.docstrings import described
from turnstone.domain.tools.tool_schemas import SCHEMA_TYPES
from turnstone.domain.turns.loop_policies import LETTA
from turnstone.domain.values.frozen import is_too_deep

AGENT_STATE = "agent_state"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
LISTS = ("list", "List", "tuple", "Tuple", "set", "Set", "Sequence", "Iterable")
FILE = "<tool>"
OBJECTS = ("dict", "Dict", "Mapping")
OF_LOOP = (*LETTA.loop_arguments, LETTA.heartbeat_argument)
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Schema = dict[str, Any]


class PythonFunction(NamedTuple):
    """The function that a call of the tool runs.

    Attributes:
        takes_agent_state: whether it has the parameter `agent_state`, which the model does not see.
    """

    name: str
    description: str
    parameters: Schema
    takes_agent_state: bool


def function_in(source: str, name: str | None = None, schema: Mapping[str, Any] | None = None) -> PythonFunction:
    """Return the function of that name, or the last one of the source, with its schema unless one is given.

    Raises InvalidRequest for source without such a function, and for one that a schema can't be made of.
    """
    function = _found(_parsed(source), name)
    found = _described(function, schema)
    if not _fits_json([found.description, found.parameters]):
        _refuse(f"JSON can't have a text or a number of {function.name!r}, or its types are nested too deep", function)
    return found


def _described(function: FunctionNode, schema: Mapping[str, Any] | None) -> PythonFunction:
    arguments = [*function.args.args, *function.args.kwonlyargs]
    takes_state = any(each.arg == AGENT_STATE for each in arguments)
    if schema is not None:
        parameters = _without_loop(schema.get("parameters"))
        return PythonFunction(function.name, str(schema.get("description") or ""), parameters, takes_state)
    text = ast.get_docstring(function)
    if not text or not text.strip():
        _refuse(f"the function {function.name!r} has no docstring, which describes it to a model", function)
    about, of_parameters = described(text)
    shown = [each for each in arguments if each.arg != AGENT_STATE]
    properties = {each.arg: _property(function, each, of_parameters.get(each.arg, "")) for each in shown}
    optional = _optional(function)
    required = [each.arg for each in shown if each.arg not in optional]
    parameters = {"type": "object", "properties": properties, "required": required}
    return PythonFunction(function.name, about, parameters, takes_state)


def _parsed(source: str) -> ast.Module:
    warnings.filterwarnings("ignore", module=FILE)  # a warning would print a line of the source
    try:
        return ast.parse(source, FILE)
    except SyntaxError as wrong:
        where = f"line {wrong.lineno}: " if wrong.lineno else ""
        raise InvalidRequest(f"source_code: is not Python: {where}{wrong.msg}", ("source_code",)) from wrong
    except (ValueError, RecursionError, MemoryError) as wrong:
        raise InvalidRequest("source_code: is not Python that can be parsed", ("source_code",)) from wrong


def _found(module: ast.Module, name: str | None) -> FunctionNode:
    functions = [each for each in module.body if isinstance(each, FunctionNode)]
    public = [each for each in functions if not each.name.startswith("_")]
    if name is None:
        if not public:
            raise InvalidRequest("source_code: has no function; define the tool as one", ("source_code",))
        chosen = public[-1]
    else:
        named = [each for each in functions if each.name == name]
        if not named:
            raise InvalidRequest(f"name: the source has no function {name!r}", ("name",))
        chosen = named[-1]
    if NAME.fullmatch(chosen.name) is None:
        _refuse(f"the name {chosen.name!r} has other signs than letters, digits and _, or more than 64", chosen)
    if chosen.args.posonlyargs or chosen.args.vararg or chosen.args.kwarg:
        _refuse(f"a model names its arguments, and not all of {chosen.name!r} can be named", chosen)
    return chosen


def _optional(function: FunctionNode) -> set[str]:
    """Return the names of the parameters with a default value, which is not evaluated."""
    given = function.args.args[len(function.args.args) - len(function.args.defaults) :]
    pairs = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    return {each.arg for each in given} | {each.arg for each, value in pairs if value is not None}


def _property(function: FunctionNode, argument: ast.arg, text: str) -> Schema:
    if argument.arg in OF_LOOP:
        _refuse(f"the parameter {argument.arg!r} of {function.name!r} is one of the loop; rename it", argument)
    if argument.annotation is None:
        _refuse(f"the parameter {argument.arg!r} of {function.name!r} has no type annotation", argument)
    try:
        schema = _schema_of(argument.annotation)
    except RecursionError:
        schema = None
    if schema is None:
        _refuse(
            f"the type of {argument.arg!r} of {function.name!r} has no JSON schema: use str, int, float, bool, list, "
            "dict, Optional, Union, Literal or Any, or send json_schema",
            argument,
        )
    return {**schema, "description": text} if text else schema


def _schema_of(annotation: ast.expr) -> Schema | None:
    """Return the JSON schema of an annotation, None for one that is not a type of JSON."""
    match annotation:
        case ast.Constant(value=None):
            return {"type": "null"}
        case ast.Constant(value=str(text)):
            return _schema_of_text(text)
        case ast.Name() | ast.Attribute():
            return _named(_name_of(annotation))
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _any_of((left, right))
        case ast.Subscript(value=of, slice=inner):
            return _subscripted(_name_of(of), inner)
    return None


def _schema_of_text(text: str) -> Schema | None:
    try:
        return _schema_of(ast.parse(text, FILE, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _name_of(node: ast.expr) -> str:
    """Return the name without its module, empty for another expression."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _named(name: str) -> Schema | None:
    if name == "Any":
        return {}
    if name in LISTS:
        return {"type": "array", "items": {}}
    if name in OBJECTS:
        return {"type": "object"}
    return {"type": SCHEMA_TYPES[name]} if name in ("str", "int", "float", "bool") else None


def _subscripted(name: str, inner: ast.expr) -> Schema | None:
    parts: Sequence[ast.expr] = inner.elts if isinstance(inner, ast.Tuple) else (inner,)
    if not parts:
        return None
    if name == "Annotated":
        return _schema_of(parts[0])
    if name == "Optional":
        return _any_of((*parts, ast.Constant(value=None)))
    if name == "Union":
        return _any_of(parts)
    if name == "Literal":
        values = [each.value for each in parts if isinstance(each, ast.Constant)]
        plain = all(isinstance(each, str | int | bool | None) for each in values)
        return {"enum": values} if plain and len(values) == len(parts) else None
    if name in LISTS:
        found = [_schema_of(each) for each in parts if not _is_ellipsis(each)]
        items = found[0] if found and all(each == found[0] for each in found) else {}
        return None if None in found else {"type": "array", "items": items}
    if name in OBJECTS:
        value = _schema_of(parts[-1])
        return None if value is None else {"type": "object", **({"additionalProperties": value} if value else {})}
    return None


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _any_of(parts: Sequence[ast.expr]) -> Schema | None:
    """Return the schema of one of several types; null is left to the parameter's default value."""
    found = [_schema_of(each) for each in parts]
    others = [each for each in found if each is not None and each != {"type": "null"}]
    if None in found or not others:
        return None
    return others[0] if len(others) == 1 else {"anyOf": others}


def _without_loop(parameters: Any) -> Schema:
    """Return the given schema without the arguments of the loop, which every tool gets when it is offered."""
    properties = {name: each for name, each in parameters.get("properties", {}).items() if name not in OF_LOOP}
    required = [name for name in parameters.get("required", ()) if name not in OF_LOOP]
    return {**parameters, "properties": properties, "required": required}


def _refuse(message: str, node: FunctionNode | ast.arg) -> NoReturn:
    raise InvalidRequest(f"source_code: line {node.lineno}: {message}", ("source_code",))


def with_types(arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments, with a text in place of another type read as a literal of that type, if it is one."""
    properties = parameters.get("properties", {})
    return {name: _typed(value, properties.get(name)) for name, value in arguments.items()}


def _typed(value: Any, schema: Any) -> Any:
    expected = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(value, str) or expected in (None, "string"):
        return value
    is_of_type = IS_OF_TYPE.get(str(expected), lambda _: False)
    return next((each for each in _readings(value) if is_of_type(each) and _fits_json(each)), value)


def _readings(text: str) -> Iterator[Any]:
    try:
        yield ast.literal_eval({"true": "True", "false": "False"}.get(text, text).strip())
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return


def _fits_json(value: Any) -> bool:
    """Return whether stores and readers of JSON take the value: a literal may be a set, infinite, or half a letter."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return not is_too_deep(value)


IS_OF_TYPE: Mapping[str, Callable[[Any], bool]] = {
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
