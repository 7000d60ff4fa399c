"""Letta's own client, unmodified: sources, uploads whose process is killed, and archival memory with them.

Covers: functions/letta/sources, functions/letta/jobs, dialects/letta/sources, dialects/letta/turns/jobs,
services/letta/sources, services/letta/source_files
"""

from __future__ import annotations

import pytest

from tests.support.clients.client_script import run_script
from tests.support.server.served import Served

pytestmark = pytest.mark.timeout(120)


def test_lettas_own_client_keeps_sources_and_jobs(served: Served) -> None:
    server, _ = served()
    seen = run_script("letta", "letta_sources", server.url + "/letta", "keep")
    assert seen["made"] == ["birds", None, {"k": 1}, 8]
    assert (seen["named"], seen["changed"], seen["read"]) == (True, "waders", ["d", ["waders"]])
    assert (seen["begun"], seen["listed"]) == ([True, "job", "knots.pdf.txt"], [[True], 1])
    assert seen["job"] == ["completed", True, []]
    assert seen["attached"] == [True, 0, True]
    assert seen["file"] == [True, 41 * 120, "text/plain"]
    assert seen["of_agent"] == seen["state"] == ["waders"]
    assert (seen["counted"], seen["paged"], seen["rest"]) == (True, 0, True)
    assert seen["detached"] == [0, []]
    assert (seen["removed"], seen["left"], seen["deleted"]) == (True, [[], [], []], None)
    assert seen["missing"] == [[404, "source_not_found"]] * 4 + [[404, "job_not_found"]]


def test_the_job_of_a_killed_server_completes(served: Served) -> None:
    server, _ = served(lease_seconds=1)
    begun = run_script("letta", "letta_sources", server.url + "/letta", "begin")
    assert begun["status"] == "created"
    server.restart()
    seen = run_script("letta", "letta_sources", server.url + "/letta", "wait", begun["id"])
    assert (seen["status"], seen["completed"], seen["same"]) == ("completed", True, True)
