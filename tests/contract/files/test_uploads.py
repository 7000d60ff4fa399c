"""Uploads over HTTP: created, filled in parts, completed and cancelled, under both prefixes.

Covers: functions/files, dialects/openai/files, services/files/uploads
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.forms import OF_FORM, FormBody, form_of
from tests.support.server.asgi_client import Answered, Raw, Served, bearer, key_for, served
from turnstone.domain.access.caller import Caller

UPLOADS, FILES = "/v1/openai/v1/uploads", "/v1/openai/v1/files"
MISSING = "upload_01990000-0000-7000-8000-000000000000"
NEW = {"bytes": 12, "filename": "herons.txt", "mime_type": "text/plain", "purpose": "assistants"}
ANN, BEN = Caller(tenant="acme", principal="ann"), Caller(tenant="acme", principal="ben")
FOREIGNER = Caller(tenant="other", principal="ann")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("uploads")) as serving:
        serving.server._jobs.close()  # the clean-up after deletions would change the store between two reads
        yield serving


def created(server: Served, prefix: str = UPLOADS, **more: Any) -> dict[str, Any]:
    answer = server.client.post(prefix, {**NEW, **more})
    assert answer.status == 200, answer
    made: dict[str, Any] = answer.json()
    return made


def added(server: Served, upload_id: str, content: bytes, *headers: tuple[bytes, bytes]) -> Answered:
    body = form_of({}, content, name="data")
    return server.client.send(Raw("POST", f"{UPLOADS}/{upload_id}/parts".encode(), (body,), (*OF_FORM, *headers)))


def ended(server: Served, upload_id: str, how: str, body: object = None) -> Answered:
    return server.client.post(f"{UPLOADS}/{upload_id}/{how}", body)


@pytest.mark.parametrize("prefix", ["/v1/openai/v1/uploads", "/v1/uploads"])
def test_an_upload_becomes_a_file(server: Served, prefix: str) -> None:
    upload = created(server, prefix, expires_after={"anchor": "created_at", "seconds": 3_600})
    assert upload == {
        "id": upload["id"],
        "object": "upload",
        "bytes": 12,
        "created_at": upload["created_at"],
        "expires_at": upload["created_at"] + 3_600,
        "filename": "herons.txt",
        "purpose": "assistants",
        "status": "pending",
        "file": None,
    }
    parts = []
    for content in (" nest.", "Herons"):
        part = server.client.post(f"{prefix}/{upload['id']}/parts", FormBody(data=content)).json()
        assert part == {
            "id": part["id"],
            "object": "upload.part",
            "created_at": part["created_at"],
            "upload_id": upload["id"],
        }
        assert part["created_at"] == pytest.approx(upload["created_at"], abs=5)
        parts.append(part["id"])
    digest = md5(b"Herons nest.").hexdigest()
    body = {"part_ids": parts[::-1], "md5": digest}
    completed = server.client.post(f"{prefix}/{upload['id']}/complete", body).json()
    file = completed["file"]
    assert completed == {**upload, "status": "completed", "file": file}
    assert (file["filename"], file["bytes"], file["purpose"]) == ("herons.txt", 12, "assistants")
    assert file["expires_at"] == pytest.approx(file["created_at"] + 3_600, abs=1)
    assert server.client.get(f"{FILES}/{file['id']}").json() == file
    content = server.client.get(f"{FILES}/{file['id']}/content")
    assert (content.headers["content-type"], content.body) == ("text/plain", b"Herons nest.")
    assert server.client.post(f"{prefix}/{upload['id']}/complete", body).json() == completed
    refused = server.client.post(f"{prefix}/{upload['id']}/cancel", None)
    assert (refused.status, refused.json()["error"]["param"]) == (400, None)
    assert "is completed" in refused.refusal()


def test_a_cancelled_upload_takes_no_more(server: Served) -> None:
    upload = created(server)
    part = added(server, upload["id"], b"Herons nest.").json()["id"]
    cancelled = ended(server, upload["id"], "cancel").json()
    assert cancelled == {**upload, "status": "cancelled"}
    assert ended(server, upload["id"], "cancel").json() == cancelled
    for refused in (added(server, upload["id"], b"x"), ended(server, upload["id"], "complete", {"part_ids": [part]})):
        assert refused.status == 400
        assert "is cancelled; create a new one" in refused.refusal()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"bytes": -1}, "bytes"),
        ({"bytes": 8 * 1024**3 + 1}, "bytes"),
        ({"bytes": "12"}, "bytes"),
        ({"bytes": True}, "bytes"),
        ({"bytes": 1.5}, "bytes"),
        ({"bytes": None}, "bytes"),
        ({"filename": ""}, "filename"),
        ({"filename": "a\nb"}, "filename"),
        ({"filename": "a" * 513}, "filename"),
        ({"mime_type": "text/plain\r\nx: y"}, "mime_type"),
        ({"purpose": "nonsense"}, "purpose"),
        ({"expires_after": {"anchor": "created_at"}}, "expires_after.seconds"),
        ({"expires_after": {"anchor": "now", "seconds": 3_600}}, "expires_after.anchor"),
        ({"expires_after": {"anchor": "created_at", "seconds": 5}}, "expires_after.seconds"),
        ({"expires_after": {"anchor": "created_at", "seconds": "3600"}}, "expires_after.seconds"),
        ({"extra": 1}, "extra"),
    ],
)
def test_a_field_that_cannot_be_accepted_is_named(server: Served, fields: dict[str, Any], param: str) -> None:
    before = server.marks()
    refused = server.client.post(UPLOADS, {**NEW, **fields})
    assert (refused.status, refused.json()["error"]["param"]) == (400, param)
    assert server.marks() == before


def test_a_completion_that_does_not_fit_is_refused_by_its_field(server: Served) -> None:
    upload = created(server)["id"]
    part = added(server, upload, b"Herons nest.").json()["id"]
    for body, param in (
        ({}, "part_ids"),
        ({"part_ids": part}, "part_ids"),
        ({"part_ids": ["part_1"]}, "part_ids.0"),
        ({"part_ids": [part, part]}, "part_ids.1"),
        ({"part_ids": []}, "part_ids"),
        ({"part_ids": [part], "md5": "x"}, "md5"),
        ({"part_ids": [part], "md5": "0" * 32}, "md5"),
        ({"part_ids": [part], "sha": "0" * 32}, "sha"),
        ({"part_ids": ["x"] * 10_001}, "part_ids"),
    ):
        refused = ended(server, upload, "complete", body)
        assert (refused.status, refused.json()["error"]["param"]) == (400, param), body
    assert ended(server, upload, "complete", {"part_ids": [part], "md5": None}).status == 200


def test_a_part_of_a_wrong_size_is_refused(server: Served) -> None:
    upload = created(server, bytes=100_000_000)["id"]
    for size, status in ((0, 400), (64 * 1024**2 + 1, 413)):
        refused = added(server, upload, b"x" * size)
        assert refused.status == status
        assert refused.refusal()
    assert f"limit of {64 * 1024**2} bytes" in refused.json()["error"]["message"]
    small = created(server, bytes=3)["id"]
    assert added(server, small, b"four").json()["error"]["param"] == "data"


def test_a_part_repeated_with_its_key_is_added_once(server: Served) -> None:
    content = os.urandom(12)
    upload = created(server)["id"]
    key = (b"idempotency-key", b"a part")
    first = added(server, upload, content, key)
    assert added(server, upload, content, key).json()["id"] == first.json()["id"]
    assert added(server, upload, content[::-1], key).status == 409
    completed = ended(server, upload, "complete", {"part_ids": [first.json()["id"]]}).json()
    assert server.client.get(f"{FILES}/{completed['file']['id']}/content").body == content


def test_a_hidden_upload_and_a_missing_one_have_the_same_answers(tmp_path: Path) -> None:
    with served(tmp_path, auth="api_keys", owner_only=True) as serving:
        keys = {caller: bearer(key_for(serving, caller)) for caller in (ANN, BEN, FOREIGNER)}

        def answer(target: str, caller: Caller, body: bytes, *headers: tuple[bytes, bytes]) -> Answered:
            return serving.client.send(Raw("POST", target.encode(), (body,), (keys[caller], *headers)))

        hidden = answer(UPLOADS, ANN, b'{"bytes":3,"filename":"a","mime_type":"","purpose":"vision"}').json()["id"]
        acts: tuple[tuple[str, bytes, tuple[tuple[bytes, bytes], ...]], ...] = (
            ("parts", form_of({}, b"abc", name="data"), OF_FORM),
            ("complete", b'{"part_ids": []}', ()),
            ("cancel", b"", ()),
        )
        for caller in (BEN, FOREIGNER):
            for act, body, headers in acts:
                answers = [answer(f"{UPLOADS}/{each}/{act}", caller, body, *headers) for each in (hidden, MISSING)]
                assert [each.status for each in answers] == [404, 404]
                assert answers[0].body.replace(hidden.encode(), MISSING.encode()) == answers[1].body
                assert answers[0].json()["error"]["code"] == "upload_not_found"
