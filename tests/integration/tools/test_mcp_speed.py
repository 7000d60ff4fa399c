"""A call of an MCP server's tool adds little to the tool's own time.

Covers: adapters/tools/mcp/mcp
"""

from pathlib import Path

import pytest

from tests.benchmarks.mcp_calls import mcp_calls


@pytest.mark.alone
def test_a_call_adds_little_to_its_tools_own_time(tmp_path: Path) -> None:
    figures = list(mcp_calls(tmp_path))
    assert len(figures) == 2
    assert [figure for figure in figures if not figure.is_met] == []
