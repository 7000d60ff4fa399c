"""Objects put into the bucket become documents of memory banks, however often and in which order their events come.

Covers: functions/events/ingest.py, edge/jobs, services/memory/documents/uploaded_objects, adapters/aws/s3_objects,
adapters/machine/jobs_by_kind, ports/objects
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count as numbers
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.aws.aws_events import ACCOUNT, Context, load_event
from tests.support.aws.state_machine import BUCKET, TABLE, Bench
from turnstone.adapters.aws.s3_objects import S3Objects
from turnstone.bootstrap.core import Core
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import NotFound, StoreUnavailable
from turnstone.domain.files.stored_files import FilesQuery
from turnstone.domain.memory.banks import BankKind, Chunking, NewBank
from turnstone.domain.memory.documents import Document, NewDocument
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.turns.attempts import Attempt
from turnstone.edge.jobs import IngestWorker
from turnstone.services.memory.documents import uploaded_objects

ANN = Caller(tenant=ACCOUNT, principal="ann", teams=("sea",))
BANK = "shore"
KEY = f"uploads/{ACCOUNT}/{BANK}/herons.md"
FIRST = Attempt(fingerprint="body")
QUEUES = numbers()
# names, and how they may be in an event
NAMES = (
    ("two words.md", "two+words.md"),
    ("three short words.md", "three short words.md"),
    ("1+1=2.md", "1%2B1%3D2.md"),
    ("1+1=3.md", "1+1=3.md"),
    ("birds/häger/ö.md", "birds/h%C3%A4ger/%C3%B6.md"),
    ("50%25.md", "50%25.md"),
    ("a//b.md", "a//b.md"),
    ("\x01line\nbreak.md", "\x01line\nbreak.md"),
)
WITHOUT_BANK = (
    "uploads/",
    "uploads/x",
    f"uploads/{ACCOUNT}/{BANK}",
    f"uploads/{ACCOUNT}/{BANK}/",
    f"uploads/{ACCOUNT}/{BANK}/folder/",
    f"uploads/{ACCOUNT}//x",
    f"uploads//{BANK}/x",
    f"uploads/{ACCOUNT}/none/x",
    f"uploads/999/{BANK}/x",
    f"blobs/{ACCOUNT}/{BANK}/x",
)


@pytest.fixture(scope="module")
def whole_bench() -> Iterator[Bench]:
    with Bench(lambda payload: pytest.fail(f"the worker was invoked with {payload}")) as bench:
        yield bench


@pytest.fixture
def bench(whole_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """An empty account, in the environment of a function."""
    for item in whole_bench.dynamo.scan(TableName=TABLE)["Items"]:
        whole_bench.dynamo.delete_item(TableName=TABLE, Key={"pk": item["pk"], "sk": item["sk"]})
    for entry in whole_bench.s3.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        whole_bench.s3.delete_object(Bucket=BUCKET, Key=entry["Key"])
    queue_url = whole_bench.sqs.create_queue(QueueName=f"ingestions-{next(QUEUES)}")["QueueUrl"]
    for name, value in {**whole_bench.environment, "TURNSTONE_INGEST_QUEUE_URL": queue_url}.items():
        monkeypatch.setenv(name, value)
    return whole_bench


class Function:
    """The function, and the account's memory."""

    def __init__(self, bench: Bench, kind: BankKind = "vector") -> None:
        self.bench = bench
        self.worker = IngestWorker("another module")
        self.core: Core = self.worker.core
        new = NewBank(BANK, kind, "offline" if kind == "vector" else None)
        self.core.banks.register(ANN, new, NO_PROVIDER_DATA, FIRST)

    def put(self, content: bytes, key: str = KEY, **more: Any) -> None:
        self.bench.s3.put_object(Bucket=BUCKET, Key=key, Body=content, **more)

    def notified(self, key: str = KEY) -> list[Any]:
        """Pass an event for the key; return the messages that failed."""
        event = load_event("ingest_upload")
        (record,) = event["Records"]
        body = json.loads(record["body"])
        body["detail"]["object"]["key"] = key
        return self._handled({"Records": [{**record, "body": json.dumps(body)}]})

    def worked_off(self) -> int:
        """Pass the messages of the queue to the function; return their number."""
        queue_url, count = os.environ["TURNSTONE_INGEST_QUEUE_URL"], 0
        while messages := self.bench.sqs.receive_message(QueueUrl=queue_url).get("Messages"):
            (message,), count = messages, count + 1
            (record,) = load_event("ingest")["Records"]
            assert json.loads(record["body"]).keys() == json.loads(message["Body"]).keys()
            assert self._handled({"Records": [{**record, "body": message["Body"]}]}) == []
            self.bench.sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
        return count

    def _handled(self, event: Any) -> list[Any]:
        failures: list[Any] = self.worker(event, Context())["batchItemFailures"]
        return failures

    def document(self, document_id: str = "herons.md", bank: str = BANK) -> Document:
        return self.core.documents.get(ANN, bank, document_id)

    def text(self, document_id: str = "herons.md") -> str:
        return " ".join(chunk.text for chunk in self.core.documents.chunks(ANN, BANK, document_id))

    def files(self) -> list[str]:
        _, files = self.core.files.list(ANN, FilesQuery())
        return [file.file_id for file in files]


def test_an_object_becomes_a_file_and_a_document(bench: Bench) -> None:
    function = Function(bench)
    function.put(b"Herons nest in colonies.", ContentType="text/markdown")
    assert function.notified() == []
    assert function.document().status == "in_progress"
    assert function.worked_off() == 1
    document = function.document()
    assert (document.status, document.mime_type, function.text()) == (
        "completed",
        "text/markdown",
        "Herons nest in colonies.",
    )
    assert function.files() == [document.file_id]
    file = function.core.files.get(ANN, document.file_id or "")
    assert (file.filename, file.stamp) == ("herons.md", function.core.banks.get(ANN, BANK).stamp)


def test_an_event_that_comes_twice_changes_nothing(bench: Bench) -> None:
    function = Function(bench)
    function.put(b"Herons nest in colonies.")
    for _ in range(2):
        function.notified()
    assert function.worked_off() == 1
    before = function.document()
    function.put(b"Herons nest in colonies.")
    function.notified()
    assert (function.worked_off(), function.document(), len(function.files())) == (0, before, 1)


def test_the_current_object_counts_in_any_order_of_events(bench: Bench) -> None:
    function = Function(bench)
    function.put(b"Herons nest in colonies.")
    function.notified()
    function.put(b"Terns nest on beaches.")
    for _ in range(2):  # the newer event, then the older one again
        function.notified()
    function.worked_off()
    assert function.text() == "Terns nest on beaches."
    assert function.files() == [function.document().file_id]


def test_an_object_read_before_a_newer_one_was_inserted_does_not_replace_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, others = Function(bench), Function(bench)
    function.put(b"Herons nest in colonies.")
    opened = S3Objects.opened
    acts = [lambda: (others.put(b"Terns nest on beaches."), others.notified())]

    @contextmanager
    def opened_slowly(objects: S3Objects, key: str) -> Iterator[Any]:
        with opened(objects, key) as found:
            content = b"".join(found.pieces) if found else b""
            while acts:
                acts.pop()()
            yield found and found._replace(pieces=iter([content]))

    monkeypatch.setattr(S3Objects, "opened", opened_slowly)
    function.notified()
    function.worked_off()
    assert function.text() == "Terns nest on beaches."
    assert function.files() == [function.document().file_id]


def test_a_process_that_dies_before_the_document_is_begun_leaves_no_second_file(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = Function(bench)
    function.put(b"Herons nest in colonies.")
    with monkeypatch.context() as patch:
        patch.setattr(type(function.core.ingesting), "replace", _fail)
        assert len(function.notified()) == 1
    function.notified()
    function.worked_off()
    assert (function.text(), len(function.files())) == ("Herons nest in colonies.", 1)


def test_the_rest_of_a_key_is_the_id_of_its_document(bench: Bench) -> None:
    function = Function(bench)
    for name, event_name in NAMES:
        function.put(f"Herons nest in {name}".encode(), f"uploads/{ACCOUNT}/{BANK}/{name}")
        assert function.notified(f"uploads/{ACCOUNT}/{BANK}/{event_name}") == []
    function.worked_off()
    for name, _ in NAMES:
        assert function.document(name).status == "completed"


def test_slashes_of_a_bank_are_encoded_in_a_key(bench: Bench) -> None:
    function = Function(bench)
    function.core.banks.register(ANN, NewBank("sea/shore", "keyword"), NO_PROVIDER_DATA, FIRST)
    key = f"uploads/{ACCOUNT}/sea%2Fshore/herons.md"
    function.put(b"Herons nest in colonies.", key)
    function.notified(key)
    function.worked_off()
    assert function.document(bank="sea/shore").status == "completed"


def test_an_object_without_a_bank_is_ignored(bench: Bench) -> None:
    function = Function(bench)
    for key in WITHOUT_BANK:
        function.put(b"Herons nest in colonies.", key)
        assert function.notified(key) == []
    assert (function.worked_off(), function.files()) == (0, [])


def test_an_object_that_was_deleted_is_ignored(bench: Bench) -> None:
    function = Function(bench)
    assert (function.notified(), function.notified(f"{KEY} %"), function.worked_off()) == ([], [], 0)


def test_banks_without_chunks_take_no_objects(bench: Bench) -> None:
    function = Function(bench, "graph")
    function.put(b"Herons nest in colonies.")
    assert (function.notified(), function.worked_off(), function.files()) == ([], 0, [])


def test_an_object_that_is_too_large_fails_its_document_without_a_file(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploaded_objects, "MOST_FILE_BYTES", 10)
    function = Function(bench)
    function.put(b"Herons nest in colonies.")
    assert function.notified() == []
    error = function.document().last_error
    assert error is not None
    assert (error.code, function.worked_off(), function.files()) == ("invalid_file", 0, [])


def test_an_object_replaces_no_file_of_a_caller(bench: Bench) -> None:
    function = Function(bench)
    file = function.core.files.create(ANN, "a", "text/plain", "assistants", [b"Terns"])
    new = NewDocument("herons.md", file_id=file.file_id, chunking=Chunking(tokens=8, overlap=0))
    function.core.ingesting.add_file(ANN, BANK, new, FIRST)
    function.put(b"Herons nest in colonies.")
    function.notified()
    function.worked_off()
    assert function.text() == "Herons nest in colonies."
    assert file.file_id in function.files()
    assert len(function.files()) == 2


def test_a_bucket_that_does_not_answer_keeps_the_event(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    function = Function(bench)
    function.put(b"Herons nest in colonies.")
    monkeypatch.setattr(S3Objects, "_got", _unavailable)
    assert len(function.notified()) == 1
    with pytest.raises(NotFound):
        function.document()


def test_a_failing_bucket_is_unavailable() -> None:
    class Refusing:
        def get_object(self, **_: Any) -> Any:
            raise ClientError({"Error": {"Code": "SlowDown"}}, "GetObject")

    with pytest.raises(StoreUnavailable, match="SlowDown"), S3Objects(Refusing(), BUCKET).opened("key"):
        pytest.fail("it was opened")


def _fail(*_: Any) -> None:
    raise StoreUnavailable("not now")


def _unavailable(*_: Any) -> None:
    raise StoreUnavailable("the bucket can't be reached")
