"""The layout holds: imports point inwards, and no file or function grows past what can be read at a sitting."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "shared" / "turnstone"
EDGE = ROOT / "functions"

# what each layer may import of the package, itself aside
MAY_IMPORT = {
    "domain": set[str](),
    "records": set[str](),
    "ports": {"domain", "records"},
    "engine": {"domain", "ports"},
    "store": {"domain", "ports", "records"},
    "adapters": {"domain", "ports", "records"},
    "services": {"domain", "ports", "records", "engine", "store"},
    "dialects": {"domain"},
    "http": {"domain", "services"},
    "edge": {"domain", "http", "bootstrap", "settings"},
    "settings": set[str](),
    "bootstrap": {
        "domain",
        "ports",
        "records",
        "engine",
        "store",
        "adapters",
        "services",
        "settings",
    },
    "functions": {"domain", "dialects", "http", "edge", "bootstrap", "settings"},
}
MAX_FILE_LINES = 400
MAX_ROUTE_LINES = 40
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 7
# modules that compose the edge, not routes
COMPOSITION = {
    EDGE / "stream.py",
    *EDGE.glob("local/*.py"),
    *EDGE.glob("command/**/*.py"),
    *EDGE.glob("*/family.py"),
    *(EDGE / "llama_stack_2024" / f"{name}.py" for name in ("changes", "reads", "streams")),
}


def sources() -> list[Path]:
    return sorted([*PACKAGE.rglob("*.py"), *EDGE.rglob("*.py")])


def layer_of(path: Path) -> str:
    if path.is_relative_to(EDGE):
        return "functions"
    inside = path.relative_to(PACKAGE)
    return inside.parts[0].removesuffix(".py")


def imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 or path in COMPOSITION, f"{path} imports relatively"
            yield str(node.module)
            if node.module == "turnstone":
                yield from (f"turnstone.{alias.name}" for alias in node.names if alias.name != "VERSION")


def functions_in(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_inwards(path: Path) -> None:
    layer = layer_of(path)
    for module in imported_modules(path):
        if module.startswith("functions"):
            assert path in COMPOSITION, f"{path} imports {module}: route modules stand alone"
        if not module.startswith("turnstone."):
            continue
        imported = module.split(".")[1]
        assert imported == layer or imported in MAY_IMPORT[layer], f"{layer} may not import {module}"


def test_every_layer_has_a_rule() -> None:
    layers = {layer_of(path) for path in sources()} - {"__init__"}
    assert layers == set(MAY_IMPORT)


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_stay_small(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    is_route = layer_of(path) == "functions" and path not in COMPOSITION
    assert lines <= (MAX_ROUTE_LINES if is_route else MAX_FILE_LINES)
    for function in functions_in(path):
        assert (function.end_lineno or 0) - function.lineno < MAX_FUNCTION_LINES, function.name
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        named = [argument for argument in arguments if argument.arg not in ("self", "cls")]
        assert len(named) <= MAX_PARAMETERS, function.name


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_aws_stays_in_adapters_and_the_environment_in_config(path: Path) -> None:
    if layer_of(path) != "adapters":
        assert not {module.split(".")[0] for module in imported_modules(path)} & {"boto3", "botocore"}
    if path != PACKAGE / "settings/config.py":
        reads = [node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
        assert not set(reads) & {"environ", "getenv"}


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_error_table_catches_everything(path: Path) -> None:
    if path == PACKAGE / "http" / "errors.py":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ExceptHandler):
            if isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None:
                continue  # tidies up and passes it on
            caught = ast.unparse(node.type) if node.type else "everything"
            assert not {"Exception", "BaseException", "everything"} & set(caught.strip("()").split(", "))


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = {"manager", "helper", "helpers", "utils", "util", "base", "impl", "data", "info", "common", "misc"}
    assert not [path for path in sources() if path.stem in vague]


def test_the_engine_does_not_know_whether_a_turn_was_resumed() -> None:
    for path in (PACKAGE / "engine").glob("*.py"):
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert not [name for name in names if "resume" in name]
