"""Guards against a loss of power: acknowledged writes are on the disk, whatever a second sync reports."""

from tests.guards.guard import Guard, ours
from tests.guards.races import Race

LOG = "tests/contract/store/test_sqlite_log.py::"
FAILURES = "tests/contract/store/test_sqlite_log_failures.py::"

LOST_POWER = (
    Guard(
        Race.LOST_POWER,
        "SQLite: a write is on the disk before it is acknowledged",
        (
            ours(
                "adapters/sqlite/sqlite_file.py",
                "                log.keep(number, self._wait_s)\n",
                "                pass\n",
            ),
        ),
        (f"{LOG}test_writers_during_a_sync_share_the_next_one",),
    ),
    Guard(
        Race.LOST_POWER,
        "SQLite: the log that is waited for is the one that SQLite writes",
        (ours("adapters/sqlite/sqlite_log.py", "        real = database.resolve()\n", "        real = database\n"),),
        (f"{LOG}test_a_write_through_a_link_syncs_the_linked_file",),
    ),
    Guard(
        Race.LOST_POWER,
        "SQLite: the cause of a conflict is on the disk before it is reported",
        (
            ours(
                "adapters/sqlite/sqlite_file.py",
                '                    self._writer.execute("COMMIT")\n                finally:\n',
                '                    self._writer.execute("COMMIT")\n                    number = log.wrote()\n'
                "                finally:\n",
            ),
            ours(
                "adapters/sqlite/sqlite_file.py", "                    log, number = self._log, self._log.wrote()\n", ""
            ),
        ),
        (f"{LOG}test_a_conflict_is_raised_only_after_the_found_record_is_synced",),
    ),
    Guard(
        Race.LOST_POWER,
        "SQLite: a wait for the disk keeps the writes before it, not those during it",
        (
            ours("adapters/sqlite/sqlite_log.py", "        until = self._written\n", ""),
            ours("adapters/sqlite/sqlite_log.py", "self._kept = until", "self._kept = self._written"),
        ),
        (f"{LOG}test_writers_during_a_sync_share_the_next_one",),
    ),
    Guard(
        Race.LOST_POWER,
        "SQLite: a disk that failed once is not trusted at the next call",
        (
            ours(
                "adapters/sqlite/sqlite_log.py",
                "        if self._is_in_doubt:\n            raise",
                "        if False:\n            raise",
            ),
        ),
        (f"{LOG}test_a_failed_sync_fails_every_write_that_waited_for_it",),
    ),
    Guard(
        Race.LOST_POWER,
        "SQLite: what a process that died left is on the disk before another reads it",
        (
            ours(
                "adapters/sqlite/sqlite_log.py",
                "        with suppress(OSError):\n            sync_data(self._descriptor)\n",
                "",
            ),
        ),
        (f"{LOG}test_the_log_of_a_dead_process_is_synced_before_another_reads_it",),
    ),
    Guard(
        Race.LOST_POWER,
        "SQLite: nothing is written behind what the disk may not have",
        (
            ours(
                "adapters/sqlite/sqlite_file.py",
                "            self._log.mend()\n",
                "            self._log._is_in_doubt = False\n",
            ),
        ),
        (f"{FAILURES}test_dropped_writes_are_written_again_before_any_other_is_acknowledged",),
    ),
    Guard(
        Race.LOST_POWER,
        "SQLite: what the disk dropped is written again, because it would not fail again",
        (ours("adapters/sqlite/sqlite_log.py", "            self._write_again()\n", ""),),
        (f"{FAILURES}test_dropped_writes_are_written_again_before_any_other_is_acknowledged",),
    ),
    Guard(
        Race.LOST_POWER,
        "SQLite: what was written again is waited for",
        (
            ours(
                "adapters/sqlite/sqlite_log.py",
                "            self._write_again()\n            sync_data(self._descriptor)\n",
                "            self._write_again()\n",
            ),
        ),
        (f"{FAILURES}test_while_the_disk_fails_again_nothing_is_written",),
    ),
    Guard(
        Race.LOST_POWER,
        "SQLite: a log that is opened is in doubt, whoever wrote it",
        (
            ours(
                "adapters/sqlite/sqlite_log.py",
                "received a sync error and died of it.\n        self._is_in_doubt = True\n",
                "received a sync error and died of it.\n        self._is_in_doubt = False\n",
            ),
        ),
        (
            f"{FAILURES}test_a_store_that_opens_a_log_after_a_failed_sync_writes_it_again",
            f"{FAILURES}test_the_log_is_written_again_also_after_the_file_was_read_only",
        ),
    ),
    Guard(
        Race.LOST_POWER,
        "SQLite: the log is closed once no thread waits for the disk",
        (
            ours(
                "adapters/sqlite/sqlite_log.py",
                "            self.keep(self._written, _FOR_EVER)\n        with self._syncing:\n",
                "            pass\n        with suppress(OSError):\n",
            ),
        ),
        (f"{LOG}test_closing_waits_for_writes_that_wait_for_a_sync",),
    ),
    Guard(
        Race.LOST_POWER,
        "folders that were made are on the disk",
        (ours("adapters/sqlite/folders.py", "        sync_folder(one.parent)\n", "        pass\n"),),
        ("tests/unit/store/test_folders.py::test_each_folder_that_was_made_is_synced_where_its_name_stands",),
    ),
)
