"""The layer has what the package needs, in the versions it is tested with."""

import ast
import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
SHARED = ROOT / "shared"
NOT_ON_LAMBDA = {"uvloop"}  # uvicorn does without; a function's only request gains less than loading it takes
LEFT_OUT = {"python-multipart"}  # of `mcp`, for servers; starlette loads it at every start where it is installed
LAMBDA = {"python_version": "3.13", "python_full_version": "3.13.0", "sys_platform": "linux", "extra": ""}


def pins(path: Path) -> dict[str, str]:
    """Return the versions by the names of the packages."""
    lines = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
    named = [line.split("==") for line in lines if line]
    return {canonicalize_name(name): version for name, version in named}


def needed(requirements: list[str]) -> set[str]:
    """Return the names of what is required on a Lambda."""
    parsed = map(Requirement, requirements)
    return {canonicalize_name(r.name) for r in parsed if r.marker is None or r.marker.evaluate(LAMBDA)}


def test_versions_are_those_of_the_tests() -> None:
    tested = pins(ROOT / "constraints.txt")
    shipped = pins(SHARED / "requirements.txt")
    assert {name: tested.get(name) for name in shipped} == shipped


def test_nothing_that_is_needed_is_missing() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    shipped = set(pins(SHARED / "requirements.txt"))
    ours = needed([*project["dependencies"], *project["optional-dependencies"]["aws"]])
    assert ours - NOT_ON_LAMBDA <= shipped
    for name in shipped:
        assert needed(requires(name) or []) - LEFT_OUT <= shipped, f"{name} needs more"


def test_botocore_can_describe_every_service_that_is_called() -> None:
    kept = re.search(r"^SERVICES := (.*)$", (SHARED / "Makefile").read_text(), re.MULTILINE)
    assert kept is not None
    called = {
        argument.value
        for path in SHARED.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in ("client", "lazy_client", "create_client")
        for argument in node.args[:1]
        if isinstance(argument, ast.Constant)
    }
    assert "dynamodb" in called
    assert called <= set(kept[1].split())
