"""Vector stores through the official clients, and the pollers of OpenAI's.

Covers: functions/vector_stores, dialects/openai/vector_stores
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cases import rest_at_night
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

VERSIONS = ("0.2.12", "0.2.23", "0.3.5")
PREFIXES = ("/v1", "/v1/openai/v1")
pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("prefix", rest_at_night(PREFIXES, always=PREFIXES[:1]))
def test_openais_client_keeps_vector_stores(prefix: str, tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        seen = run_script("openai", "openai_vector_stores", server.url + prefix)
    owls = "# Owls\n\nOwls hunt at night."
    assert seen == {
        "made": ["birds", "vector_store", "completed", {"region": "north"}, 7],
        "lives": 7 * 86_400,
        "file": [True, "completed", {"year": 2025}, 24, None],
        "uploaded": ["completed", 100],
        "batch": ["completed", 2, 1, 3],
        "of_one": ["completed", 1],
        "listed": [3, 3, True],
        "every": [True, 4],
        "failed": ["invalid_file"],
        "content": [owls],
        "results": ["vector_store.search_results.page", [["owls.md", owls, {"year": 2026}]]],
        "both": ["herons.txt", "owls.md"],
        "filtered": [["herons.txt", {"year": 2024, "is_seen": True}]],
        "updated": ["waders", {}, None, 4],
        "cancelled": [True, "vector_store.files_batch"],
        "emptied": [0, 0],
        "kept": "herons.txt",
        "none": 0,
        "gone": [404, "bank_not_found"],
        "refused": [400, "expires_after.days", "invalid_request"],
    }


@pytest.mark.parametrize("version", rest_at_night(VERSIONS, always=("0.2.12",)))
def test_the_official_client_keeps_vector_stores(version: str, tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        seen = run_script(version, "llama_stack_vector_stores", server.url)
    text = "Herons nest in colonies."
    expected = {
        "made": ["birds", "vector_store", 1],
        "found": ["vector_store.search_results.page", "Where do herons nest?", [["herons.txt", text]]],
        "updated": "waders",
        "added": [True, {"year": 2026}, "static"],
        "listed": [[True]],
        "deleted": [True],
        "gone": 404,
    }
    if version != "0.2.12":
        expected |= {"content": ["herons.txt", text], "files": [[True]], "removed": True}
    if version == "0.3.5":
        expected |= {"batch": 1}
    assert seen == expected
