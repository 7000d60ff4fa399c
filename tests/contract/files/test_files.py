"""Files over HTTP: sent as forms, listed, read and deleted, under both prefixes.

Covers: functions/files, dialects/openai/files, dialects/openai/pages, services/files/files, http/forms
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.forms import FORM_TYPE, OF_FORM, SentPart, field, file, form, form_of
from tests.support.server.asgi_client import Answered, Raw, Served, bearer, key_for, served
from turnstone.domain.access.caller import Caller
from turnstone.store.files.contents import SMALL_BYTES

FILES = "/v1/openai/v1/files"
MISSING = "file-01990000-0000-7000-8000-000000000000"
CONTENT = b"Herons nest in colonies.\n"
ANN, BEN = Caller(tenant="acme", principal="ann"), Caller(tenant="acme", principal="ben")
FOREIGNER = Caller(tenant="other", principal="ann")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("files"), max_file_bytes=2_000_000) as serving:
        serving.server._jobs.close()  # the clean-up after deletions would change the store between two reads
        yield serving


def sent(server: Served, body: bytes, *headers: tuple[bytes, bytes], path: str = FILES) -> Answered:
    return server.client.send(Raw("POST", path.encode(), (body,), (*OF_FORM, *headers)))


def created(server: Served, content: bytes = CONTENT, purpose: str = "assistants", **of_file: str) -> dict[str, Any]:
    answer = sent(server, form_of({"purpose": purpose}, content, **of_file))
    assert answer.status == 200, answer
    made: dict[str, Any] = answer.json()
    return made


def deleted(server: Served, file_id: str) -> Answered:
    return server.client.send(Raw("DELETE", f"{FILES}/{file_id}".encode()))


def listed(server: Served, query: str = "") -> dict[str, Any]:
    answer = server.client.get(f"{FILES}{query}")
    assert answer.status == 200, answer
    page: dict[str, Any] = answer.json()
    return page


@pytest.mark.parametrize("prefix", ["/v1/openai/v1/files", "/v1/files"])
def test_a_file_is_sent_read_listed_and_deleted(server: Served, prefix: str) -> None:
    answer = sent(server, form_of({"purpose": "user_data"}, CONTENT, filename="herons.txt"), path=prefix)
    shown = answer.json()
    assert shown == {
        "id": shown["id"],
        "object": "file",
        "bytes": len(CONTENT),
        "created_at": shown["created_at"],
        "expires_at": None,
        "filename": "herons.txt",
        "purpose": "user_data",
        "status": "processed",
        "status_details": None,
    }
    assert server.client.get(f"{prefix}/{shown['id']}").json() == shown
    assert server.client.get(f"{prefix}?limit=1").json() == {
        "object": "list",
        "data": [shown],
        "first_id": shown["id"],
        "last_id": shown["id"],
        "has_more": server.client.get(f"{prefix}?limit=1").json()["has_more"],
    }
    content = server.client.get(f"{prefix}/{shown['id']}/content")
    assert (content.status, content.body) == (200, CONTENT)
    removed = server.client.send(Raw("DELETE", f"{prefix}/{shown['id']}".encode()))
    assert removed.json() == {"id": shown["id"], "object": "file", "deleted": True}
    for gone in (f"{prefix}/{shown['id']}", f"{prefix}/{shown['id']}/content"):
        refused = server.client.get(gone)
        assert (refused.status, refused.json()["error"]["code"]) == (404, "file_not_found")
    assert shown["id"] not in [each["id"] for each in server.client.get(prefix).json()["data"]]


def test_a_content_is_downloaded_and_never_run(server: Served) -> None:
    page = b"<script>alert(1)</script>"
    for media_type, expected in (
        ("text/html; charset=utf-8", "text/html; charset=utf-8"),
        ("application/x-notes", "application/x-notes"),
        ("pdf", "application/octet-stream"),
        ("", "application/octet-stream"),
    ):
        made = created(server, page, filename="r\u00e9sum\u00e9.html", media_type=media_type)
        answer = server.client.get(f"{FILES}/{made['id']}/content")
        assert answer.body == page
        assert answer.headers["content-type"] == expected
        disposition = "attachment; filename*=UTF-8''r%C3%A9sum%C3%A9.html"
        assert answer.headers["content-disposition"] == disposition
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"


def test_a_large_file_is_read_in_pieces(server: Served) -> None:
    content = os.urandom(SMALL_BYTES * 3)
    made = created(server, content)
    assert made["bytes"] == len(content)
    assert server.client.get(f"{FILES}/{made['id']}/content").body == content
    head = server.client.send(Raw("HEAD", f"{FILES}/{made['id']}/content".encode()))
    assert head.status == 200
    empty = created(server, b"")
    assert server.client.get(f"{FILES}/{empty['id']}/content").body == b""


def test_an_expiry_is_shown_and_that_of_batches_is_the_usual_one(server: Served) -> None:
    expiry = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    short = sent(server, form_of({"purpose": "batch", **expiry}, CONTENT)).json()
    assert short["expires_at"] == pytest.approx(short["created_at"] + 3_600, abs=1)
    usual = created(server, purpose="batch")
    assert usual["expires_at"] == pytest.approx(usual["created_at"] + 30 * 86_400, abs=1)


@pytest.mark.parametrize(
    ("parts", "param", "problem"),
    [
        ([file(CONTENT)], "purpose", "Field required"),
        ([field("purpose", "assistants")], "file", "Field required"),
        ([field("purpose", "nonsense"), file(CONTENT)], "purpose", "Input should be 'assistants'"),
        ([field("purpose", "vision"), field("extra", "1"), file(CONTENT)], "extra", "Extra inputs are not permitted"),
        ([field("purpose", "vision"), field("file", "x")], "file", "must have a file name"),
        ([field("purpose", "vision"), file(CONTENT, "a\tb")], "file", "control characters"),
        ([field("purpose", "vision"), file(CONTENT, "a" * 513)], "file", "at most 512 characters"),
        ([field("purpose", "vision"), file(CONTENT, media_type="t" * 256)], "file", "its Content-Type must have"),
        (
            [field("purpose", "vision"), field("expires_after[seconds]", "3600"), file(CONTENT)],
            None,
            "expires_after[anchor] and expires_after[seconds] go together",
        ),
        *(
            (
                [
                    field("purpose", "vision"),
                    field("expires_after[anchor]", "created_at"),
                    field("expires_after[seconds]", seconds),
                    file(CONTENT),
                ],
                "expires_after[seconds]",
                "Input should be",
            )
            for seconds in ("3599", "2592001", "3600.5", "0x1000", "", " 3600", "3_600", "-3600", "9" * 400)
        ),
        (
            [
                field("purpose", "vision"),
                field("expires_after[anchor]", "now"),
                field("expires_after[seconds]", "3600"),
                file(b""),
            ],
            "expires_after[anchor]",
            "Input should be 'created_at'",
        ),
    ],
)
def test_a_field_that_cannot_be_accepted_is_named(
    server: Served, parts: list[SentPart], param: str | None, problem: str
) -> None:
    before = server.marks()
    answer = sent(server, form(*parts))
    assert answer.status == 400, answer
    error = answer.json()["error"]
    assert problem in error["message"]
    assert error["param"] == param
    assert server.marks() == before


@pytest.mark.parametrize(
    ("content_type", "body", "problem"),
    [
        (b"application/json", b'{"purpose": "assistants"}', "must be multipart/form-data"),
        (b"multipart/form-data", form_of({"purpose": "vision"}, CONTENT), "must be multipart/form-data"),
        (b"multipart/form-data; boundary=other", form_of({"purpose": "vision"}, CONTENT), "not valid multipart"),
        (FORM_TYPE.encode(), form_of({"purpose": "vision"}, CONTENT)[:-9], "ends before its last boundary"),
    ],
)
def test_a_body_that_is_no_form_is_refused(server: Served, content_type: bytes, body: bytes, problem: str) -> None:
    before = server.marks()
    answer = server.client.send(Raw("POST", FILES.encode(), (body,), ((b"content-type", content_type),)))
    assert answer.status == 400, answer
    assert problem in answer.refusal()
    assert server.marks() == before


def test_a_file_over_the_limit_is_refused(server: Served) -> None:
    before = server.marks()
    for size in (2_000_001, 5_000_000):
        answer = sent(server, form_of({"purpose": "vision"}, b"x" * size))
        assert (answer.status, answer.json()["error"]["code"]) == (413, "body_too_large")
        assert "2000000 bytes (TURNSTONE_MAX_FILE_BYTES)" in answer.refusal()
    assert server.marks() == before
    assert created(server, b"x" * 2_000_000)["bytes"] == 2_000_000


def test_a_client_that_leaves_stores_nothing(server: Served) -> None:
    before = server.marks()
    body = form_of({"purpose": "vision"}, b"x" * 500_000)
    for cut in (20, 300_000, len(body) - 1):
        assert server.client.is_unanswered(Raw("POST", FILES.encode(), (body[:cut],), OF_FORM, hangs_up=True))
    assert server.marks() == before


def test_a_list_is_paged_in_either_order(server: Served) -> None:
    purpose = "fine-tune"
    ids = [created(server, purpose=purpose)["id"] for _ in range(5)]
    newest = [each["id"] for each in listed(server, f"?purpose={purpose}")["data"]]
    assert sorted(ids) == newest[::-1]
    for order, expected in (("asc", newest[::-1]), ("desc", newest)):
        found, after, has_more = [], "", True
        while has_more:
            page = listed(server, f"?purpose={purpose}&limit=2&order={order}&after={after}")
            found += [each["id"] for each in page["data"]]
            assert (page["first_id"], page["last_id"]) == (page["data"][0]["id"], page["data"][-1]["id"])
            after, has_more = page["last_id"], page["has_more"]
        assert found == expected
    assert listed(server, "?purpose=unknown") == {
        "object": "list",
        "data": [],
        "first_id": "",
        "last_id": "",
        "has_more": False,
    }
    for query in ("limit=0", "limit=10001", "limit=x", "order=up", "after=file-1", "limit=1&limit=2"):
        refused = server.client.get(f"{FILES}?{query}")
        assert refused.status == 400
        assert refused.json()["error"]["param"] == query.partition("=")[0]


def test_a_request_repeated_with_its_key_is_answered_as_the_first(server: Served) -> None:
    key = (b"idempotency-key", b"a key")
    body = form_of({"purpose": "vision"}, CONTENT)
    first = sent(server, body, key)
    with_another_boundary = form(field("purpose", "vision"), file(CONTENT), boundary="another")
    other_type = (b"content-type", b"multipart/form-data; boundary=another")
    assert sent(server, with_another_boundary, key, other_type) == first
    refused = sent(server, form_of({"purpose": "vision"}, CONTENT + b"!"), key)
    assert (refused.status, refused.json()["error"]["code"]) == (409, "idempotency_key_reused")


def test_an_unknown_id_is_missing(server: Served) -> None:
    for unknown in (MISSING, "x", "%00", "%ED%A0%80", "a" * 5_000):
        for answer in (
            server.client.get(f"{FILES}/{unknown}"),
            server.client.get(f"{FILES}/{unknown}/content"),
            deleted(server, unknown),
        ):
            assert answer.status == 404
            assert answer.refusal()


def test_a_hidden_file_and_a_missing_one_have_the_same_answers(tmp_path: Path) -> None:
    with served(tmp_path, auth="api_keys", owner_only=True) as serving:
        keys = {caller: bearer(key_for(serving, caller)) for caller in (ANN, BEN, FOREIGNER)}
        made = sent(serving, form_of({"purpose": "vision"}, CONTENT), keys[ANN]).json()

        def answer(method: str, target: str, caller: Caller) -> Answered:
            return serving.client.send(Raw(method, target.encode(), (), (keys[caller],)))

        for caller in (BEN, FOREIGNER):
            assert answer("GET", FILES, caller).json()["data"] == []
            for method, target in (("GET", "{}"), ("GET", "{}/content"), ("DELETE", "{}")):
                hidden, missing = (
                    answer(method, f"{FILES}/{target.format(file_id)}", caller) for file_id in (made["id"], MISSING)
                )
                assert hidden.status == 404
                assert hidden.body.replace(made["id"].encode(), MISSING.encode()) == missing.body
                assert hidden.headers.keys() == missing.headers.keys()
        assert answer("GET", f"{FILES}/{made['id']}/content", ANN).body == CONTENT
