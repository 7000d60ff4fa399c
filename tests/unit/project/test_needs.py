"""A requirement that a machine lacks is skipped by its name, and fails where all are required, as in CI.

Covers: tests/support/needs, .ci/run
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.needs import PACKAGES, need_clients, need_programs

TESTS = Path(__file__).parents[2]
CI = TESTS.parent / ".ci" / "run"
ALWAYS_THERE = {"bash", "npm"}
SKIPPING = {"skip", "skipif", "importorskip", "which"}
# What differs between machines and can't be installed, with the reason for which a test does without
OF_THE_MACHINE = {
    "support/needs.py": "the way for all others",
    "contract/store/test_real_table.py": "somebody's own table in the cloud",
    "contract/memory/test_real_vectors.py": "somebody's own bucket of vectors in the cloud",
    "contract/store/test_sqlite_store.py": "Linux",
    "e2e/access/test_callers.py": "IPv6",
    "e2e/store/test_disk_troubles.py": "Linux",
    "e2e/sessions/test_long_sessions.py": "Linux",
    "e2e/server/test_where_it_is_installed.py": "folders that may be written to",
    "support/tools/jailed.py": "a kernel that lets a process shut itself in",
    "integration/tools/test_jail.py": "the kind of processor",
}


@pytest.mark.parametrize(
    ("need", "named"),
    [
        (lambda: need_programs("no-such-program"), "not installed: no-such-program .*no-such-program"),
        (lambda: need_programs("chromium", "node"), "not installed: chromium, node .*chromium, nodejs"),
        (lambda: need_clients("9.9.9"), "not installed: 9.9.9 .*make .clients/9.9.9/ready"),
    ],
)
@pytest.mark.parametrize(
    ("setting", "outcome"), [(None, pytest.skip.Exception), ("0", pytest.skip.Exception), ("1", pytest.fail.Exception)]
)
def test_a_missing_requirement_is_named(
    need: Callable[[], None],
    named: str,
    setting: str | None,
    outcome: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    if setting is None:
        monkeypatch.delenv("TESTS_REQUIRE_ALL", raising=False)
    else:
        monkeypatch.setenv("TESTS_REQUIRE_ALL", setting)
    with pytest.raises(outcome, match=named):
        need()


def test_a_requirement_that_exists_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "google-chrome"
    program.touch(mode=0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    need_programs("chromium")


def test_every_test_that_is_skipped_for_a_missing_requirement_uses_one_marker() -> None:
    skipping = {
        str(path.relative_to(TESTS))
        for path, tree in modules(SKIPPING)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in SKIPPING and root_of(node) in ("pytest", "shutil")
    }
    assert skipping - {"unit/project/test_needs.py"} == set(OF_THE_MACHINE)


def test_ci_installs_whatever_program_a_test_needs_and_lets_none_be_skipped() -> None:
    needed = {
        str(argument.value)
        for path, tree in modules({"need_programs"})
        for node in ast.walk(tree)
        if path != Path(__file__)
        and isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "need_programs"
        for argument in node.args
        if isinstance(argument, ast.Constant)
    }
    assert needed >= {"node", "chromium", "strace", "curl"}
    script = CI.read_text()
    packages = {PACKAGES.get(name, name) for name in needed - ALWAYS_THERE}
    assert {package for package in packages if package not in script} == set()
    assert "export TURNSTONE_REQUIRE_ALL=1" in script


def modules(words: set[str]) -> Iterator[tuple[Path, ast.Module]]:
    """Yield the modules of the tests that have one of the words."""
    for path in TESTS.rglob("*.py"):
        source = path.read_text()
        if any(word in source for word in words):
            yield path, ast.parse(source)


def root_of(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
