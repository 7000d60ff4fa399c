"""Tools that run here: the functions of a Python file, with their definitions for the server."""

import asyncio
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import ArgsKwargs, PydanticSerializationError, to_json

from turnstone.domain.tools.docstrings import described
from turnstone.http.errors import outcome_of

from ..client import CommandFailed
from ..wire import Json

MODULE = "turnstone_chat_tools"
INTERRUPTED = object()


@dataclass(frozen=True)
class ClientTool:
    """A tool that the model may call.

    Attributes:
        definition: its definition for the server.
        call: runs it with the model's arguments.
    """

    name: str
    definition: Json
    call: Callable[[Json], Any]

    def run(self, arguments: Json) -> str:
        """Return the answer for the model; an exception is one, too.

        Raises KeyboardInterrupt for Ctrl-C.
        """

        def outcome() -> object:
            try:
                with output_among_errors():
                    found = self.call(arguments)
                    return asyncio.run(found) if inspect.iscoroutine(found) else found
            except KeyboardInterrupt:
                return INTERRUPTED

        found, problem = outcome_of(outcome)
        if found is INTERRUPTED:
            raise KeyboardInterrupt
        return _text(found) if problem is None else _error_text(problem)


@contextmanager
def output_among_errors() -> Iterator[None]:
    """Redirect standard output to standard error, also that of started programs: it is not part of the answer."""
    try:
        sys.stdout.flush()
        kept = os.dup(sys.__stdout__.fileno())  # type: ignore[union-attr] # None is caught below
    except (AttributeError, OSError, ValueError):  # standard output is closed, or a stand-in
        with redirect_stdout(sys.stderr):
            yield
        return
    try:
        with suppress(OSError):  # standard error is closed
            os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def tool_of_function(function: Callable[..., Any]) -> ClientTool:
    """Return the function as a tool whose arguments are checked against its type hints.

    Raises CommandFailed for type hints of which no JSON schema can be made.
    """
    name = function.__name__
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(function)  # type: ignore[arg-type] # takes functions, too
        schema = adapter.json_schema()
    except (PydanticUserError, NameError) as problem:
        raise CommandFailed(f"{name}() can't be a tool: {str(problem).splitlines()[0]}") from problem
    description, parameters = described(function.__doc__ or "")
    for parameter, described_by in schema.get("properties", {}).items():
        described_by.pop("title", None)  # repeats the name
        if parameter in parameters:
            described_by["description"] = parameters[parameter]
    definition = {"name": name, "description": description, "input_schema": {"properties": {}, **schema}}
    return ClientTool(name, definition, lambda arguments: adapter.validate_python(ArgsKwargs((), arguments)))


def tool_of_decorated(made: Any) -> ClientTool:
    """Return the tool that the official client's decorator `client_tool` made of a function."""
    parameters = [dict(parameter) for parameter in made.get_params_definition().values()]
    name = str(made.get_name())
    definition = {"name": name, "description": str(made.get_description()), "parameters": parameters}
    return ClientTool(name, definition, lambda arguments: made.run_impl(**arguments))


def _text(found: object) -> str:
    if isinstance(found, str):
        return found
    try:
        return to_json(found, indent=None).decode()
    except PydanticSerializationError:
        return str(found)


def _error_text(problem: Exception) -> str:
    if isinstance(problem, ValidationError):
        wrong = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problem.errors(include_url=False))
        return f"Error: {'; '.join(wrong)}"
    return f"Error: {type(problem).__name__}: {problem}"


def load_tools(path: Path, note: Callable[[str], None]) -> Mapping[str, ClientTool]:
    """Return the tools of a file by name; `note` receives the functions that are none, with the reason.

    Tools are the public functions that the file itself defines, with a docstring and type hints. Raises CommandFailed.
    """
    module = _loaded(path)
    tools = [tool_of_decorated(value) for value in vars(module).values() if _is_decorated(value)]
    for name, function in _functions(module):
        if why := _why_not(function):
            note(f"{path.name}: {name}() is not offered to the model: {why}")
        else:
            tools.append(tool_of_function(function))
    if not tools:
        raise CommandFailed(
            f"{path} has no function to offer: a tool is a public function with a docstring and type hints."
        )
    return {tool.name: tool for tool in tools}


def _loaded(path: Path) -> ModuleType:
    """Return the file as a module that may import its neighbours, as a script may."""
    if not path.is_file():
        raise CommandFailed(f"there is no file {path}.")
    spec = spec_from_file_location(MODULE, path)
    if spec is None or spec.loader is None:
        raise CommandFailed(f"{path} is not a Python file: its name must end in .py.")
    module = module_from_spec(spec)
    sys.modules[MODULE] = module
    sys.path.insert(0, str(path.parent.resolve()))
    with output_among_errors():
        _, problem = outcome_of(lambda: spec.loader.exec_module(module))  # type: ignore[union-attr] # checked above
    if problem is not None:
        raise CommandFailed(f"{path} can't be loaded: {type(problem).__name__}: {problem}") from problem
    return module


def _functions(module: ModuleType) -> Iterable[tuple[str, Callable[..., Any]]]:
    for name, value in vars(module).items():
        if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == module.__name__:
            yield name, value


def _is_decorated(value: object) -> bool:
    parts = ("get_name", "get_description", "get_params_definition", "run_impl")
    return not inspect.isclass(value) and all(callable(getattr(value, part, None)) for part in parts)


def _why_not(function: Callable[..., Any]) -> str:
    """Return why the function is no tool, an empty text if it is one."""
    if not (function.__doc__ or "").strip():
        return "it has no docstring, which describes it to a model"
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            return f"a model names its arguments, and {name} can't be named"
        if parameter.annotation is parameter.empty:
            return f"{name} has no type hint"
    return ""
