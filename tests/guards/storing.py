"""Guards of the two stores: a write is whole or none, under conditions that are checked in the same step."""

from tests.guards.guard import Guard, ours
from tests.guards.races import Race

DYNAMO = "tests/contract/store/test_dynamo_store.py::TestDynamoConformance::"
NUMBERS = "tests/unit/settings/test_numbers.py::"
REQUESTS = "tests/unit/store/test_dynamo_requests.py::"
SQLITE = "tests/contract/store/test_sqlite_store.py::"
BACKUP = "tests/integration/command/test_backup_command.py::"
CONFORMANCE = f"{SQLITE}TestSqliteConformance::"
EVERY_PAIR = "test_every_pair_of_conditions"
UNDONE = '            connection.execute("ROLLBACK")\n            connection.execute("BEGIN IMMEDIATE")\n'
NAMES_THE_FIRST = "test_a_conflict_names_the_first_operation_that_failed_and_nothing_is_written[small]"

ON_SQLITE = (
    Guard(
        Race.TWO_WRITERS,
        "SQLite: a record is absent",
        (ours("adapters/sqlite/sqlite_writes.py", "{_INSERT} NOTHING", "{_INSERT} UPDATE SET rev = excluded.rev"),),
        (f"{CONFORMANCE}{EVERY_PAIR}[put-True]",),
    ),
    Guard(
        Race.TWO_WRITERS,
        "SQLite: a record that is changed or checked is absent",
        (ours("adapters/sqlite/sqlite_writes.py", "return state is None\n", "return True\n"),),
        (f"{CONFORMANCE}{EVERY_PAIR}[check-True]",),
    ),
    Guard(
        Race.TWO_WRITERS,
        "SQLite: a record that is changed or checked has this revision",
        (ours("adapters/sqlite/sqlite_writes.py", "state is not None and state.rev == rev", "state is not None"),),
        (f"{CONFORMANCE}{EVERY_PAIR}[check-True]",),
    ),
    Guard(
        Race.TWO_WRITERS,
        "SQLite: a record has this revision",
        (
            ours(
                "adapters/sqlite/sqlite_writes.py",
                "WHERE pk = ? AND sk = ? AND rev = ?",
                "WHERE pk = ? AND sk = ? AND ? > 0",
            ),
        ),
        (f"{CONFORMANCE}{EVERY_PAIR}[put-True]",),
    ),
    Guard(
        Race.TWO_WRITERS,
        "SQLite: an attribute has this value",
        (
            ours(
                "adapters/sqlite/sqlite_writes.py",
                "state is not None and state.attributes.get(name) == value",
                "state is not None",
            ),
        ),
        (f"{CONFORMANCE}{EVERY_PAIR}[put-True]",),
    ),
    Guard(
        Race.TWO_WRITERS,
        "SQLite: what is updated is there",
        (
            ours(
                "adapters/sqlite/sqlite_writes.py",
                "                return False\n            merged",
                "                return True\n            merged",
            ),
        ),
        (f"{CONFORMANCE}test_update_of_a_lost_record_conflicts",),
    ),
    Guard(
        Race.TWO_WRITERS,
        "SQLite: conditions are looked at in the transaction that writes",
        (
            ours(
                "adapters/sqlite/sqlite_file.py",
                '        self._writer.execute("BEGIN IMMEDIATE")\n',
                "",
            ),
            ours("adapters/sqlite/sqlite_file.py", '                    self._writer.execute("COMMIT")\n', ""),
        ),
        (f"{SQLITE}test_two_stores_on_one_file_see_and_guard_each_other",),
    ),
    Guard(
        Race.TWO_WRITERS,
        "SQLite: a transaction waits for the other one before it looks (two locks double each other)",
        (
            ours(
                "adapters/sqlite/sqlite_file.py",
                'self._writer.execute("BEGIN IMMEDIATE")',
                'self._writer.execute("BEGIN DEFERRED")',
            ),
            ours("adapters/sqlite/folder_lock.py", "fcntl.LOCK_EX", "fcntl.LOCK_SH"),
        ),
        (f"{SQLITE}test_two_stores_on_one_file_guard_their_changes",),
    ),
    Guard(
        Race.TWO_WRITERS,
        "SQLite: the threads of a process write one after the other",
        (
            ours(
                "adapters/sqlite/sqlite_file.py",
                "        self._writing = threading.Lock()\n",
                "        self._writing = threading.Semaphore(64)\n",
            ),
        ),
        (f"{CONFORMANCE}test_no_increment_is_lost_and_no_half_of_one_is_kept",),
    ),
    Guard(
        Race.TWO_WRITERS,
        "SQLite: a lock that comes when no write waits any more is given back",
        (
            ours(
                "adapters/sqlite/folder_lock.py", "                else:\n                    self.release_lock()\n", ""
            ),
        ),
        (f"{SQLITE}test_a_lock_acquired_after_the_last_waiter_timed_out_is_released",),
    ),
    Guard(
        Race.TWO_WRITERS,
        "SQLite: a database that is in use is not replaced by a backup",
        (
            ours(
                "adapters/sqlite/sqlite_log.py",
                "        fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)\n",
                "",
            ),
        ),
        (f"{BACKUP}test_a_restore_waits_for_no_server",),
    ),
    Guard(
        Race.READ_DURING_WRITE,
        "SQLite: a backup is made again when a payload was removed after the database was copied",
        (ours("bootstrap/places/backup.py", "        if not missed:\n            break\n", "        break\n"),),
        (f"{BACKUP}test_a_payload_that_is_removed_while_payloads_are_copied_is_not_missed",),
    ),
    Guard(
        Race.HALF_A_WRITE,
        "SQLite: what fails is undone",
        (
            ours(
                "adapters/sqlite/sqlite_file.py",
                '                        self._writer.execute("ROLLBACK")\n',
                '                        self._writer.execute("COMMIT")\n',
            ),
        ),
        (f"{SQLITE}test_an_error_within_a_write_undoes_it",),
    ),
    Guard(
        Race.HALF_A_WRITE,
        "SQLite: what was written before a condition failed is undone (here and where all that fails is undone)",
        (
            ours("adapters/sqlite/sqlite.py", UNDONE, ""),
            ours(
                "adapters/sqlite/sqlite_file.py",
                '                        self._writer.execute("ROLLBACK")\n',
                '                        self._writer.execute("COMMIT")\n',
            ),
        ),
        (f"{CONFORMANCE}{NAMES_THE_FIRST}",),
    ),
    Guard(
        Race.HALF_A_WRITE,
        "SQLite: what a write that is made again wrote before it found itself made is undone",
        (ours("adapters/sqlite/sqlite.py", UNDONE, ""),),
        (f"{CONFORMANCE}test_the_same_write_again_leaves_what_others_wrote_since",),
    ),
)
ON_DYNAMODB = (
    Guard(
        Race.TWO_WRITERS,
        "DynamoDB: a record is absent",
        (
            ours(
                "adapters/aws/dynamodb_items.py",
                "attribute_not_exists({self.name('pk')})",
                "(attribute_not_exists({self.name('pk')}) OR attribute_exists({self.name('pk')}))",
            ),
        ),
        (f"{DYNAMO}{EVERY_PAIR}[put-True]",),
    ),
    Guard(
        Race.TWO_WRITERS,
        "DynamoDB: a record has this revision",
        (
            ours(
                "adapters/aws/dynamodb_items.py",
                "{self.name('rev')} = {self.value(rev)}",
                "({self.name('rev')} = {self.value(rev)} OR attribute_exists({self.name('pk')}))",
            ),
        ),
        (f"{DYNAMO}{EVERY_PAIR}[put-True]",),
    ),
    Guard(
        Race.TWO_WRITERS,
        "DynamoDB: an attribute has this value",
        (
            ours(
                "adapters/aws/dynamodb_items.py",
                '{self.name(name)} = {self.value(value)}"\n            case _',
                "({self.name(name)} = {self.value(value)} OR attribute_exists({self.name('pk')}))\"\n"
                "            case _",
            ),
        ),
        (f"{DYNAMO}{EVERY_PAIR}[put-True]",),
    ),
    Guard(
        Race.TWO_WRITERS,
        "DynamoDB: all conditions hold, not one of them",
        (ours("adapters/aws/dynamodb_items.py", '" AND ".join(clauses)', '" OR ".join(clauses)'),),
        (f"{DYNAMO}{EVERY_PAIR}[put-True]",),
    ),
    Guard(
        Race.TWO_WRITERS,
        "DynamoDB: what is updated is there",
        (
            ours(
                "adapters/aws/dynamodb_items.py",
                "clauses.append(must_exist)",
                'clauses.append(f"({must_exist} OR NOT {must_exist})")',
            ),
        ),
        (f"{DYNAMO}test_update_of_a_lost_record_conflicts",),
    ),
    Guard(
        Race.TWO_WRITERS,
        "DynamoDB: a transaction that met another is tried again",
        (
            ours(
                "adapters/aws/dynamodb.py",
                'if any(reason.get("Code") in PASSING_REASONS for reason in reasons):',
                "if False:",
            ),
        ),
        (f"{REQUESTS}test_a_transaction_that_met_another_is_tried_again_under_the_same_token",),
    ),
    Guard(
        Race.HALF_A_WRITE,
        "DynamoDB: several operations are one transaction",
        (
            ours(
                "adapters/aws/dynamodb.py",
                "                self._client.transact_write_items(TransactItems=items, ClientRequestToken=nonce)\n",
                "                for item in items:\n                    self._write_one(item)\n",
            ),
        ),
        (f"{REQUESTS}test_several_writes_and_a_check_are_a_transaction_under_a_token",),
    ),
    Guard(
        Race.READ_DURING_WRITE,
        "DynamoDB: reads see all that was written (one, a range, a batch)",
        (
            ours("adapters/aws/dynamodb.py", "Key=encoded_key(key), ConsistentRead=True)", "Key=encoded_key(key))"),
            ours(
                "adapters/aws/dynamodb.py",
                "            ConsistentRead=True,\n            ScanIndexForward",
                "            ScanIndexForward",
            ),
            ours("adapters/aws/dynamodb.py", '{"Keys": encoded, "ConsistentRead": True}', '{"Keys": encoded}'),
        ),
        (f"{REQUESTS}test_reads_are_consistent_but_for_the_index",),
    ),
)
CONDITIONS_REPEATED = (
    Guard(
        Race.NO_RACE,
        "a text with a number and something else is refused",
        (
            ours(
                "domain/values/numbers.py",
                "        if isinstance(value, str | bool):\n",
                "        if isinstance(value, bool):\n",
            ),
        ),
        (f"{NUMBERS}test_any_other_text_is_refused",),
    ),
    Guard(
        Race.NO_RACE,
        "a text of a number is that number",
        (ours("domain/values/numbers.py", "if isinstance(value, str) and re.fullmatch(pattern, value):", "if False:"),),
        (
            f"{NUMBERS}test_a_text_of_a_number_or_a_flag_is_parsed",
            "tests/unit/server/test_openapi.py::test_numbers_and_flags_may_come_as_texts_and_are_returned_typed",
        ),
    ),
    Guard(
        Race.NO_RACE,
        "a text of a flag is that flag",
        (
            ours(
                "domain/values/numbers.py",
                "return FLAGS.get(value, value) if isinstance(value, str) else value",
                "return value",
            ),
        ),
        (f"{NUMBERS}test_a_text_of_a_number_or_a_flag_is_parsed",),
    ),
    Guard(
        Race.NO_RACE,
        "a client has heard the larger of `after` and `Last-Event-ID`",
        (
            ours(
                "dialects/llama_stack/turns/event_numbers.py",
                "return max(int(text or 0) for text in numbers.values())",
                "return int(next((text for text in numbers.values() if text), 0))",
            ),
        ),
        ("tests/unit/turns/test_event_numbers.py::test_the_larger_of_both_numbers_is_the_last_received",),
    ),
)
STORES = (*ON_SQLITE, *ON_DYNAMODB, *CONDITIONS_REPEATED)
