"""The core builds each service once, at its first use or, for a server with many threads, before the first request.

Covers: bootstrap/core, bootstrap/services, services/use_cases
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest

from tests.support.engine.harness import Harness
from turnstone.bootstrap.core import Core, ServiceOf
from turnstone.services.use_cases import UseCases

SUBJECTS = sorted(name for name, member in vars(Core).items() if isinstance(member, cached_property))
SERVICES = sorted(name for name, member in vars(Core).items() if isinstance(member, ServiceOf))


def parts(holder: object) -> set[str]:
    return {name for name, member in vars(type(holder)).items() if isinstance(member, cached_property)}


def built(holder: object) -> set[str]:
    """Return the parts of a builder that have been built."""
    return parts(holder) & set(vars(holder))


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Core]:
    """Yield a core that has built nothing yet."""
    server = Harness(tmp_path)
    yield Core(server.core.foundation.ports, server.core.foundation.settings)
    server.close()


def test_a_new_core_has_built_nothing(core: Core) -> None:
    assert built(core) == built(core.foundation) == set()


OF_ONE_THREAD = {"_extractor", "uploaded_objects"}  # that of insertions, and a function of the bucket's events


def test_a_loaded_core_has_built_every_part_of_every_subject(core: Core) -> None:
    core.load()
    assert built(core) == set(SUBJECTS)
    for subject in (core.foundation, *(getattr(core, name) for name in SUBJECTS)):
        assert built(subject) >= parts(subject) - OF_ONE_THREAD, subject


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_built_once(core: Core, name: str) -> None:
    assert getattr(core, name) is getattr(core, name)


def test_each_use_case_is_a_service_of_the_core(core: Core) -> None:
    use_cases = {name for name, member in vars(UseCases).items() if isinstance(member, property)}
    assert use_cases - {"max_infer_iters"} <= set(SERVICES)
    assert core.max_infer_iters == core.foundation.settings.max_infer_iters


@pytest.mark.parametrize(
    ("service", "subjects"),
    [
        ("agents", {"agent_services"}),
        ("sessions", {"session_services"}),
        ("attachments", {"session_services"}),
        ("stored_completions", {"model_services"}),
        ("cleaning", {"cleanup_services"}),
        ("models", {"registries"}),
        ("inferring", {"model_services", "registries"}),
        ("reader", {"turn_services", "registries"}),
        ("contexts", {"usage_services", "turn_services", "registries"}),
        ("sweeper", {"cleanup_services", "turn_services", "registries"}),
    ],
)
def test_a_service_builds_its_own_subjects_and_no_others(core: Core, service: str, subjects: set[str]) -> None:
    core.load_service(service, for_changes=False)
    assert built(core) == subjects


def test_changes_of_agents_need_the_registries_and_reads_do_not(core: Core) -> None:
    core.load_service("agents", for_changes=False)
    assert "registries" not in vars(core)
    core.load_service("agents", for_changes=True)
    assert "registries" in vars(core)
