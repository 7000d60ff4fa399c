"""Files and uploads through the official clients.

Covers: functions/files, dialects/openai/files
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cases import rest_at_night
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

VERSIONS = ("0.2.12", "0.2.23", "0.3.5")
PREFIXES = ("/v1", "/v1/openai/v1")
SIZE = 12_000_000  # in three parts of the client
pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("prefix", rest_at_night(PREFIXES, always=PREFIXES[:1]))
def test_openais_client_keeps_files_and_sends_large_ones_in_parts(prefix: str, tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        seen = run_script("openai", "openai_files", server.url + prefix, str(SIZE))
    assert seen == {
        "made": [12, "herons.txt", "assistants", "processed", 3_600],
        "unnamed": ["upload", None],
        "retrieved": True,
        "processed": True,
        "content": "Herons nest.",
        "streamed": "Herons nest.",
        "paged": True,
        "oldest": True,
        "deleted": [True, True, "file"],
        "gone_retrieve": [404, "file_not_found"],
        "gone_delete": [404, "file_not_found"],
        "gone_content": [404, "file_not_found"],
        "refused": [400, "purpose", "invalid_request"],
        "upload": ["completed", "stones.bin", True],
        "same": True,
        "part": ["upload.part", True],
        "twice": ["part_ids.1", True],
        "cancelled": "cancelled",
    }


@pytest.mark.parametrize("version", rest_at_night(VERSIONS, always=("0.2.12",)))
def test_the_official_client_keeps_files(version: str, tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        seen = run_script(version, "llama_stack_files", server.url)
    assert seen == {
        "made": [12, "herons.txt", "assistants", "file"],
        "retrieved": True,
        "listed": True,
        "filtered": True,
        "content": "Herons nest.",
        "as_json": {"a": 1},
        "deleted": [True, True, "file"],
        "gone": 404,
    }
