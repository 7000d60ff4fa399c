"""Letta's client 1.12, unmodified, at the paths that it calls differently from its earlier versions.

Covers: http/route, dialects/letta/lists, dialects/letta/server/later_methods, functions/letta/memory,
functions/letta/sources
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

pytestmark = pytest.mark.timeout(120)


def test_the_later_client_works_at_its_own_paths(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        seen = run_script("letta-1", "letta_later", server.url + "/letta")
    assert (seen["tools"], seen["detached"], seen["without"]) == (True, True, False)
    assert (seen["attached"], seen["again"]) == (True, True)
    assert seen["labels"] == ["human", "persona", "pet"]
    assert seen["first"] == ["human", "persona"]
    assert (seen["block"], seen["changed"]) == ("pet", "cat")
    assert [seen["seen"][name] for name in ("value", "description", "limit")] == ["cat", "d", 50]
    assert seen["passages"] == ["Herons nest in spring.", "Knots probe the mud."]
    assert (seen["later"], seen["deleted"], seen["left"]) == (seen["passages"][1:], True, seen["passages"][1:])
    assert (seen["folders"], seen["folder"], seen["renamed"]) == (["birds", "fish", "trees"], "birds", "d")
    assert (seen["of_agent"], seen["file"]) == (["waders", "fish", "trees"], ["herons", True])
    assert (seen["file_deleted"], seen["files"], seen["folder_deleted"]) == (None, [], None)
    assert seen["rest"] == ["fish", "trees"]
    assert seen["all"] == [["Sam"], ["human", "persona", "pet"], True]
    assert [status for status, _ in seen["unknown"]] == [404, 404, 404]
    assert [status for status, _ in seen["refused"]] == [422] * 7
    fields = ("order", "before", "read_only", "metadata", "tags", "search", "ascending")
    for field, (_, detail) in zip(fields, seen["refused"], strict=True):
        assert f"'{field}'], 'msg': '" in detail
    methods = ("agents.blocks.attach", "agents.folders.attach", "folders.files.upload", "agents.passages.search")
    assert [status for status, _ in seen["missing"]] == [501] * 4
    for method, (_, detail) in zip(methods, seen["missing"], strict=True):
        assert f"does not have {method} (" in detail
