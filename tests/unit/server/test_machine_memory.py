"""How much memory a process may use: the least of what the machine has and its control groups allow.

Covers: adapters/machine/machine_memory
"""

from __future__ import annotations

from pathlib import Path

import pytest

from turnstone.adapters.machine.machine_memory import usable_memory_bytes

MACHINE = {"proc/meminfo": "MemFree:  1 kB\nMemTotal:       1000 kB\nSwapTotal: 9 kB\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        (MACHINE, 1_024_000),
        ({**MACHINE, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, 1_024_000),
        ({**MACHINE, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "4096\n"}, 4_096),
        (
            {
                **MACHINE,
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/memory.max": "4096",
                "sys/fs/cgroup/a/b/memory.max": "8192",
            },
            4_096,
        ),
        ({**MACHINE, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "4096\n"}, 4_096),
        ({**MACHINE, "proc/self/cgroup": "0::/seen/outside\n", "sys/fs/cgroup/memory.max": "4096\n"}, 4_096),
        ({**MACHINE, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "99999999999\n"}, 1_024_000),
        (
            {
                **MACHINE,
                "proc/self/cgroup": "5:cpu:/x\n4:pids,memory:/a\n0::/\n",
                "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "4096\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            4_096,
        ),
    ],
)
def test_the_least_of_all_limits_holds(tmp_path: Path, files: dict[str, str], expected: int | None) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert usable_memory_bytes(tmp_path) == expected


def test_this_machine_has_a_limit() -> None:
    assert (usable_memory_bytes() or 0) > 100_000_000
