"""The layout holds: imports point inwards, subjects do not depend on each other in circles, files stay readable.

Covers: shared, functions
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "shared" / "turnstone"
EDGE = ROOT / "functions"

# what each layer may import of the package, itself aside
MAY_IMPORT = {
    "settings": set[str](),
    "domain": set[str](),
    "ports": {"domain"},
    "engine": {"domain", "ports"},
    "store": {"domain", "ports"},
    "adapters": {"domain", "ports"},
    "services": {"domain", "ports", "engine", "store"},
    "dialects": {"domain"},
    "http": {"domain", "services", "dialects"},
    "edge": {"domain", "http", "bootstrap", "settings"},
    "bootstrap": {"domain", "ports", "engine", "store", "adapters", "services", "settings"},
    "functions": {"domain", "dialects", "http", "edge", "bootstrap", "settings"},
}
# what the modules below one address may not import, though their layer may
NEVER = {
    "engine": ("ports.records", "ports.storage"),
    "services.streams": ("services.turns",),
    "edge": ("settings.auth_settings", "settings.local_settings", "settings.client_settings"),
}
SHARED_ADAPTERS = {"adapters.aws", "adapters.fetching", "adapters.outgoing"}
SAME_SERVERS = {("adapters.tools.images", "adapters.models.openai")}  # a server of OpenAI's API makes images, too
MOST_SERVICE_ARROWS = 46
MAX_FILES = 14
MAX_FILE_LINES = 400
MIN_FILE_LINES = 25
MAX_ROUTE_LINES = 40
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 7
SHORT = {
    "__main__": "the entry of the wheel, which names the command",
    "adapters.machine.system": "the clock and the ids of the machine, beside no other adapter's imports",
    "adapters.outgoing.failed_attempt": "what two providers' adapters return, beside no client's imports",
    "adapters.tools.none": "where no tools run, none of their adapters is loaded",
    "ports.extracting": "the port of parsers, which no function loads at its start",
    "dialects.llama_stack.replies": "the routes that create answer without loading turns",
    "dialects.llama_stack_2024.read_requests": "the addresses of 2024's reads, without the bodies of its changes",
    "dialects.openai.metadata": "a field of chat completions, responses and conversations, which load apart",
    "domain.errors.root": "the root of the tree, which each of its branches imports",
    "domain.turns.open_turns": "a row of an operator's list",
    "domain.usage.prices": "prices stand in model routes, which are loaded where nothing is counted",
    "domain.values.by_identity": "the key of caches in two layers",
    "functions": "the name of the folder `functions` in a checkout; the wheel holds that folder itself",
    "http.unserved_routes": "the routes of two families, in no folder of functions",
    "http.clients": "the versions of clients that are refused",
    "ports.system": "the clock and the ids",
    "store.keys.blocks": "the keys of one subject, beside those of others",
    "store.keys.tools": "the keys of one subject, beside those of others",
    "services.files.attachments": "a use case of one route",
}

# classes of one name that stay, and why
SAME_NAMES = {
    "Health": "the name of both in the OpenAPI document, with the module's",
    "Tool": "the name of both in the OpenAPI document, as Tool-Input and Tool-Output",
}


class Import(NamedTuple):
    """A module that another one imports, below `turnstone`, or as it is called elsewhere."""

    source: str
    target: str


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted([*PACKAGE.rglob("*.py"), *EDGE.rglob("*.py")])}


def address(path: Path) -> str:
    """Return a module's dotted name below the package; a route's begins with `functions`."""
    inside = path.relative_to(EDGE.parent if path.is_relative_to(EDGE) else PACKAGE)
    return ".".join(inside.with_suffix("").parts).removesuffix(".__init__")


def layer_of(module: str) -> str:
    return module.partition(".")[0]


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(trees()[path]))


def is_route(path: Path) -> bool:
    return path.is_relative_to(EDGE) and any(
        isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "ROUTE"
        for node in trees()[path].body
    )


@cache
def modules() -> frozenset[str]:
    return frozenset(map(address, trees()))


@cache
def imports_of(path: Path) -> tuple[str, ...]:
    """Return what a module imports, by dotted names; a name that is a module itself with its package's."""
    found = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.append(whole if whole.removeprefix("turnstone.") in modules() else str(node.module))
    return tuple(found)


@cache
def own_imports() -> tuple[Import, ...]:
    return tuple(
        Import(address(path), name.removeprefix("turnstone."))
        for path in trees()
        for name in imports_of(path)
        if name.startswith("turnstone.")
    )


@cache
def room_of(module: str) -> str:
    """Return the folder that a module is in; a package counts as one of its own modules."""
    folder = PACKAGE / module.replace(".", "/")
    return module if folder.is_dir() else module.rpartition(".")[0]


def arrows(layer: str) -> set[tuple[str, str]]:
    """Return which folders of a layer import from which others."""
    inside = [each for each in own_imports() if layer_of(each.source) == layer_of(each.target) == layer]
    return {(room_of(each.source), room_of(each.target)) for each in inside} - {
        (room, room) for room in {room_of(each.source) for each in inside}
    }


def circle_in(pairs: set[tuple[str, str]]) -> list[str]:
    """Return the folders that can be reached from themselves."""
    beyond = defaultdict(set)
    for source, target in pairs:
        beyond[source].add(target)

    def reached(room: str) -> set[str]:
        found: set[str] = set()
        waiting = [room]
        while waiting:
            new = beyond.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return found

    return sorted(room for room in list(beyond) if room in reached(room))


def test_the_page_on_the_layout_has_each_layer_with_its_imports() -> None:
    page = (ROOT / "docs" / "internals" / "layout.md").read_text()
    rows = re.findall(r"^\| (\w+) \| `\w+/` \| .* \| ([^|]*) \|$", page, re.MULTILINE)
    assert {layer: set(imports.split(", ")) - {"–"} for layer, imports in rows} == MAY_IMPORT


def test_imports_point_inwards() -> None:
    assert {layer_of(address(path)) for path in trees()} - {"__init__", "__main__", "", "turnstone"} == set(MAY_IMPORT)
    outwards = [
        each
        for each in own_imports()
        if layer_of(each.target) not in (layer_of(each.source), "VERSION", *MAY_IMPORT[layer_of(each.source)])
    ]
    assert not outwards
    forbidden = [
        each
        for each in own_imports()
        for below, targets in NEVER.items()
        if f"{each.source}.".startswith(f"{below}.") and each.target.startswith(targets)
    ]
    assert not forbidden


def test_routes_stand_alone() -> None:
    for path in filter(is_route, trees()):
        assert not [name for name in imports_of(path) if name.startswith("functions")], path
        relative = [node for node in nodes(path) if isinstance(node, ast.ImportFrom) and node.level]
        assert not relative, path
        assert len(path.read_text().splitlines()) <= MAX_ROUTE_LINES, path


def test_subjects_do_not_depend_on_each_other_in_circles() -> None:
    circles = {layer: circle_in(arrows(layer)) for layer in MAY_IMPORT if layer != "functions"}
    assert not {layer: found for layer, found in circles.items() if found}
    between_subjects = {(source, target) for source, target in arrows("services") if source != "services"}
    assert len(between_subjects) <= MOST_SERVICE_ARROWS
    crossing = {
        (source, target)
        for source, target in arrows("adapters")
        if source.split(".")[1:2] != target.split(".")[1:2] and target not in SHARED_ADAPTERS
    }
    assert crossing == SAME_SERVERS


def test_files_folders_and_functions_stay_readable() -> None:
    files = defaultdict(list)
    short = set()
    for path in trees():
        lines = len(path.read_text().splitlines())
        assert lines <= MAX_FILE_LINES, path
        if path.is_relative_to(PACKAGE) and path.stem != "__init__":
            files[path.parent].append(path)
            short |= {address(path)} if lines < MIN_FILE_LINES else set()
        for node in nodes(path):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            assert (node.end_lineno or 0) - node.lineno < MAX_FUNCTION_LINES, (path, node.name)
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            named = [argument for argument in arguments if argument.arg not in ("self", "cls")]
            assert len(named) <= MAX_PARAMETERS, (path, node.name)
    assert not {folder: len(found) for folder, found in files.items() if len(found) > MAX_FILES}
    assert short == set(SHORT)


def test_the_core_names_subjects_and_builds_no_service_itself() -> None:
    path = PACKAGE / "bootstrap" / "core.py"
    builders = {f"turnstone.{address(each)}" for each in path.parent.joinpath("services").rglob("[a-z]*.py")}
    named = {name for name in imports_of(path) if name.startswith("turnstone.")}
    assert builders <= named
    assert named - builders == {"turnstone.services.threads.slots", "turnstone.settings.config"}
    at_once = {name for name in map(imported, trees()[path].body) if name.startswith("turnstone.")}
    assert at_once == {"turnstone.bootstrap.services.foundation"}, "a builder is loaded with its subject"


def imported(statement: ast.stmt) -> str:
    return str(statement.module) if isinstance(statement, ast.ImportFrom) else ""


# a program for a process of its own, which runs the functions of tenants
IN_JAIL = PACKAGE / "adapters" / "tools" / "code" / "python_program.py"


def test_aws_stays_in_adapters_and_the_environment_in_the_settings() -> None:
    for path in trees():
        if layer_of(address(path)) != "adapters":
            assert not {module.split(".")[0] for module in imports_of(path)} & {"boto3", "botocore"}, path
        if path not in (PACKAGE / "settings" / "config.py", IN_JAIL):
            reads = {node.attr for node in nodes(path) if isinstance(node, ast.Attribute)}
            assert not reads & {"environ", "getenv"}, path


def test_only_the_error_table_and_the_guard_of_threads_catch_everything() -> None:
    for path in trees():
        if path in (PACKAGE / "http" / "errors.py", PACKAGE / "domain" / "values" / "outcome.py", IN_JAIL):
            continue
        for node in nodes(path):
            if isinstance(node, ast.ExceptHandler):
                if isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None:
                    continue  # tidies up and passes it on
                caught = ast.unparse(node.type) if node.type else "everything"
                assert not {"Exception", "BaseException", "everything"} & set(caught.strip("()").split(", ")), path


ACTING_CALLS = {"wait", "wait_for", "select", "execute", "write", "commit", "send", "sendall", "result", "submit"}


def is_inspection(call: ast.Call) -> bool:
    """Return whether the call changes nothing although its result is discarded: the error of a stat is its answer."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "stat"


def acts(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function does more than inspect: it discards a call's result, waits, or changes an object."""
    for node in ast.walk(function):
        if isinstance(node, ast.Await):
            return True
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and not is_inspection(node.value):
            return True
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ACTING_CALLS:
            return True
    return False


def test_a_predicate_does_not_act() -> None:
    misnamed = [
        (address(path), node.name)
        for path in trees()
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.lstrip("_").startswith(("is_", "has_"))
        and acts(node)
    ]
    assert not misnamed, "name these try_…, or after their effect"


def test_no_module_has_a_vague_name() -> None:
    vague = {"manager", "helper", "helpers", "utils", "util", "base", "impl", "data", "info", "common", "misc"}
    assert not [path for path in trees() if path.stem in vague]


def named_types() -> Iterator[tuple[str, str, bool]]:
    """Yield each public class and type alias with its module, and whether it is a class; no type variables."""
    for path, tree in trees().items():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, address(path), True
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if re.match("[A-Z]+[a-z]", name) and "TypeVar(" not in ast.unparse(node.value):
                    yield name, address(path), False


def test_a_name_stands_for_one_type() -> None:
    """An alias may recur, as `Location` does; a class has its name alone."""
    there: defaultdict[str, list[str]] = defaultdict(list)
    classes = set()
    for name, module, is_class in named_types():
        there[name].append(module)
        classes |= {name} if is_class else set()
    twice = {name: found for name, found in there.items() if name in classes and len(found) > 1}
    assert set(twice) == set(SAME_NAMES), twice


def test_the_engine_does_not_know_whether_a_turn_was_resumed() -> None:
    for path in (PACKAGE / "engine").glob("*.py"):
        names = {node.id for node in nodes(path) if isinstance(node, ast.Name)}
        assert not [name for name in names if "resume" in name]
