"""The generated parts of `template.yaml`: the paths of the API's definition, and the permissions to call functions.

Both follow from the routes of the modules that the template's functions name, the routes of the API's document, too.
Everything else of the template is written by hand.

Source: OpenAPI extensions of API Gateway; a path's `x-amazon-apigateway-any-method` takes the methods that it lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.aws.sam_expansion import load_source
from turnstone.http.family_routes import GREEDY
from turnstone.http.route import Route

ROOT = Path(__file__).parents[2]
TEMPLATE = "template.yaml"
SERVED = "functions/unserved/served.py"
BEGIN, END = "# generated: make template", "# end of what is generated"
FUNCTION = "AWS::Serverless::Function"
UNSERVED = "Unserved"
REST = "/{path+}"
ANY_METHOD = "x-amazon-apigateway-any-method"
# the emulator of AWS drops `ANY_METHOD`, so that the path of all others names the methods as well
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
ARN = "arn:${AWS::Partition}:apigateway:${AWS::Region}:lambda:path"
API = "arn:${AWS::Partition}:execute-api:${AWS::Region}:${AWS::AccountId}:${Api}"


class Function(NamedTuple):
    """A function of the template that serves routes.

    Attributes:
        below: path that the function serves alone, with all paths below it, as one greedy resource; routes that need
            no credentials have resources of their own. None for a resource of each path.
    """

    name: str
    routes: Sequence[Route]
    streams: bool
    below: str | None = None


class Operation(NamedTuple):
    """A method of a path."""

    function: Function
    is_open: bool = False


Paths = dict[str, dict[str, Operation]]


def generated() -> dict[str, str]:
    """Return the whole text of each file that is generated or has generated parts, by name."""
    functions = functions_of(load_source(ROOT / TEMPLATE)["Resources"])
    return {
        TEMPLATE: with_definition((ROOT / TEMPLATE).read_text(), functions),
        SERVED: served_module(functions),
    }


def functions_of(resources: Mapping[str, Any]) -> list[Function]:
    """Return the functions that serve routes, in the template's order."""
    found = []
    for name, resource in resources.items():
        if resource["Type"] == FUNCTION and (function := _function(name, resource["Properties"])):
            found.append(function)
    return found


def _function(name: str, properties: Mapping[str, Any]) -> Function | None:
    streamed = properties.get("Environment", {}).get("Variables", {}).get("TURNSTONE_ROUTE_MODULE")
    module = import_module(f"functions.{streamed or properties['Handler'].removesuffix('.handler')}")
    routes = getattr(module.handler, "routes", None)
    if routes is None:
        return None
    return Function(name, tuple(routes), streamed is not None, getattr(routes, "below", None))


def with_definition(text: str, functions: Sequence[Function]) -> str:
    """Return the template with new text in its generated parts: the paths, then the permissions."""
    parts = (list(_definition(functions)), list(_permissions(functions)))
    pieces = text.split(BEGIN + "\n")
    assert len(pieces) == len(parts) + 1, "a mark of a generated part is missing"
    made = pieces[0]
    for lines, piece in zip(parts, pieces[1:], strict=True):
        indent = " " * (len(made) - len(made.rstrip(" ")))
        _, end, rest = piece.partition(f"{indent}{END}\n")
        assert end, "the end of a generated part is missing"
        body = "".join(f"{indent}{line}\n" if line else "\n" for line in lines)
        made += f"{BEGIN}\n{body}{end}{rest}"
    return made


def paths_of(functions: Sequence[Function]) -> Paths:
    """Return the operations of each path, as the gateway writes it."""
    paths: Paths = {}
    for function in functions:
        for route in function.routes:
            for resource in () if route.is_rare else resources_of(route, function.below):
                paths.setdefault(resource, {})[route.method] = Operation(function, route.is_open)
    for function in functions:
        if function.below is not None:
            inside = [path for path in paths if _is_below(path, function.below)]
            owners = [operation.function for path in inside for operation in paths[path].values()]
            assert all(owner is function for owner in owners), f"{function.below} is shared"
    return paths


def resources_of(route: Route, below: str | None) -> list[str]:
    """Return the path of each resource that leads to the route, in a function with that greedy resource."""
    paths = gateway_paths(route)
    return paths if below is None else [_greedy(path, below, is_open=route.is_open) for path in paths]


def gateway_paths(route: Route) -> list[str]:
    """Return the paths of the route as the gateway writes them."""
    return [_with_slashes(path) if route.takes_slashes else path for path in route.paths]


def _greedy(path: str, below: str, *, is_open: bool) -> str:
    assert _is_below(path, below), f"{path} is not below {below}"
    return path if path == below or is_open else f"{below}/{{proxy{GREEDY}"


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(prefix + "/")


def _with_slashes(path: str) -> str:
    return path.removesuffix("}") + GREEDY


def _definition(functions: Sequence[Function]) -> Iterator[str]:
    """Yield the lines of the paths. Each integration is written at its first use, and named by its function."""
    (unserved,) = (function for function in functions if function.name == UNSERVED)
    written: set[str] = set()
    paths = paths_of(functions)
    paths[REST] = {method: Operation(unserved) for method in METHODS}
    for path, operations in paths.items():
        yield f"{path}:"
        for method, operation in operations.items():
            yield from _operation(method.lower(), operation, written)
        yield from _operation(ANY_METHOD, Operation(unserved), written)
        yield from _preflight(path, written)


def _operation(method: str, operation: Operation, written: set[str]) -> Iterator[str]:
    function = operation.function
    security = ["security: [{NONE: []}]"] if operation.is_open else []
    if function.name in written:
        fields = ["responses: {}", *security, f"x-amazon-apigateway-integration: *{function.name}"]
        yield f"  {method}: {{{', '.join(fields)}}}"
        return
    yield f"  {method}:"
    yield "    responses: {}"
    yield from (f"    {line}" for line in security)
    written.add(function.name)
    yield f"    x-amazon-apigateway-integration: &{function.name}"
    yield "      type: aws_proxy"
    yield "      httpMethod: POST"
    buffered = f"!Sub {ARN}/2015-03-31/functions/${{{function.name}.Arn}}/invocations"
    if not function.streams:
        yield f"      uri: {buffered}"
        return
    yield "      uri: !If"
    yield "        - Streams"
    yield f"        - !Sub {ARN}/2021-11-15/functions/${{{function.name}.Arn}}/response-streaming-invocations"
    yield f"        - {buffered}"
    yield "      responseTransferMode: !If [Streams, STREAM, !Ref AWS::NoValue]"
    yield "      timeoutInMillis: !If [Streams, 900000, !Ref AWS::NoValue]"


def _preflight(path: str, written: set[str]) -> Iterator[str]:
    """Yield the lines of a path's preflights, which prove no identity; without listed origins there are none."""
    assert UNSERVED in written
    integration = f"x-amazon-apigateway-integration: *{UNSERVED}"
    admitted = f"{{responses: {{}}, security: [{{NONE: []}}], {integration}}}"
    otherwise = f"{{responses: {{}}, {integration}}}" if path == REST else "!Ref AWS::NoValue"
    yield f"  options: !If [AllowsOrigins, {admitted}, {otherwise}]"


def _permissions(functions: Iterable[Function]) -> Iterator[str]:
    """Yield the lines of the permissions: this API, and nothing else, may call each function."""
    for number, function in enumerate(functions):
        if number:
            yield ""
        yield f"{function.name}Permission:"
        yield "  Type: AWS::Lambda::Permission"
        yield "  Properties:"
        yield "    Action: lambda:InvokeFunction"
        yield f"    FunctionName: !Ref {function.name}"
        yield "    Principal: apigateway.amazonaws.com"
        yield f"    SourceArn: !Sub {API}/*"


def served_module(functions: Sequence[Function]) -> str:
    """Return the module that names every served path, for the function that refuses other methods."""
    rows: dict[str, tuple[str, list[str]]] = {}
    for function in functions:
        for route in function.routes:
            for path in () if route.is_rare else gateway_paths(route):
                rows.setdefault(path, (route.dialect.name, []))[1].append(route.method)
    lines = [f'    ("{path}", "{name}", {_tuple(methods)}),\n' for path, (name, methods) in rows.items()]
    return (
        '"""Every served path with the name of its dialect and its methods; generated: make template."""\n\n'
        f"SERVED: tuple[tuple[str, str, tuple[str, ...]], ...] = (\n{''.join(lines)})\n"
    )


def _tuple(texts: Sequence[str]) -> str:
    listed = ", ".join(f'"{text}"' for text in texts)
    return f"({listed},)" if len(texts) == 1 else f"({listed})"
