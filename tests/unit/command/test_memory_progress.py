"""What `turnstone memory add` prints while files are inserted.

Covers: functions/command/memory/progress
"""

from __future__ import annotations

from io import StringIO

import pytest

from functions.command.memory.progress import AdditionProgress


@pytest.mark.parametrize(("is_silent", "shown"), [(False, 1), (True, 0)])
def test_a_problem_that_delays_a_file_is_printed_once(is_silent: bool, shown: int) -> None:
    err = StringIO()
    with AdditionProgress(err, 1, is_silent=is_silent) as progress:
        for _ in range(3):
            progress.at("terns.txt", "inserting", "too many requests")
            progress.at("terns.txt", "inserting")
    assert err.getvalue().count("terns.txt is tried again: too many requests\n") == shown
