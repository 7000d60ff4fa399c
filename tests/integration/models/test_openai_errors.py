"""Errors on paths of OpenAI's clients, in the envelope whose message they show.

Covers: dialects/openai/errors, http/errors, http/server/app
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Answer, BreakOff, HttpAnswer, Pause, error_answer, text_answer, text_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.server.asgi_client import Answered, Raw, Served, bearer, key_for, served
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import StoreUnavailable
from turnstone.http.server.app import NO_PATH

CHAT, EMBED = "/v1/openai/v1/chat/completions", "/v1/openai/v1/embeddings"
REQUEST = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
MOST_BYTES = 5_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("errors"), max_body_bytes=MOST_BYTES) as serving:
        yield serving


def error_in(answer: Answered, kind: str, *, beside: bool = False) -> Mapping[str, Any]:
    """Return the error, which is OpenAI's alone or accompanied by Llama Stack's."""
    body = answer.json()
    assert set(body) == ({"error", "detail", "code"} if beside else {"error"})
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"] == body.get("detail", body["error"]["message"])
    assert body["error"]["type"] == kind
    error: Mapping[str, Any] = body["error"]
    return error


@pytest.mark.parametrize(
    ("request_line", "status", "kind", "beside"),
    [
        (("GET", "/v1/openai/v1/nothing"), 404, "invalid_request_error", False),
        (("GET", "/v1/openai/"), 404, "invalid_request_error", False),
        (("POST", "/v1/fine_tuning/nothing"), 404, "invalid_request_error", True),
        (("GET", "/v1/models/none%0A"), 404, "invalid_request_error", True),
        (("DELETE", "/v1/openai/v1/models"), 405, "invalid_request_error", False),
        (("PUT", "/v1/chat/completions"), 405, "invalid_request_error", False),
        (("PUT", "/v1/models"), 405, "invalid_request_error", True),
        (("POST", "/v1/openai/v1/audio/speech"), 501, "server_error", False),
        (("POST", "/v1/audio/speech"), 501, "server_error", True),
        (("GET", "/v1/openai/v1/models/none"), 404, "invalid_request_error", False),
        (("GET", "/v1/models/none"), 404, "invalid_request_error", True),
    ],
)
def test_a_path_is_refused_as_its_clients_read_it(
    server: Served, request_line: tuple[str, str], status: int, kind: str, beside: bool
) -> None:
    method, path = request_line
    answer = server.client.send(Raw(method, path.encode(), (b"{}",)))
    assert answer.status == status
    error = error_in(answer, kind, beside=beside)
    codes = {404: "path_not_found", 405: "method_not_allowed", 501: "not_implemented"}
    assert error["code"] == ("model_not_found" if path.endswith("/models/none") else codes[status])
    assert answer.json().get("code", error["code"]) == error["code"]


@pytest.mark.parametrize("path", ["/v2/agents", "/agents/nothing", "/v1alpha/nothing"])
def test_other_paths_are_refused_as_ever(server: Served, path: str) -> None:
    assert server.client.get(path).json() == {"detail": NO_PATH, "code": "path_not_found"}


@pytest.mark.parametrize("path", [CHAT, "/v1/chat/completions", EMBED, "/v1/embeddings"])
def test_a_body_is_refused_by_field_and_by_size(server: Served, path: str) -> None:
    invalid, large = server.client.post(path, {}), server.client.post(path, {"model": "x" * MOST_BYTES})
    assert (invalid.status, error_in(invalid, "invalid_request_error")["param"]) == (400, "model")
    assert large.status == 413
    assert error_in(large, "invalid_request_error")["param"] is None


@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings", "/v1/models", "/v1/openai/v1/models"])
def test_a_page_of_another_site_is_refused_in_the_envelope_of_the_path(server: Served, path: str) -> None:
    method = "GET" if path.endswith("models") else "POST"
    answer = server.client.send(Raw(method, path.encode(), (b"{}",), ((b"origin", b"http://example.com"),)))
    assert answer.status == 403
    error_in(answer, "permission_error", beside=path == "/v1/models")


def test_requests_without_a_key_are_refused_and_those_with_one_are_accepted(tmp_path: Path) -> None:
    with served(tmp_path, auth="api_keys") as serving:
        key = bearer(key_for(serving, Caller(tenant="acme", principal="ann")))
        for path in (CHAT, "/v1/chat/completions", "/v1/openai/v1/models", "/v1/models"):
            method = "GET" if path.endswith("models") else "POST"
            refused = serving.client.send(Raw(method, path.encode(), (json.dumps(REQUEST).encode(),)))
            assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
            error = error_in(refused, "authentication_error", beside=path == "/v1/models")
            assert error["code"] == "invalid_api_key"
            assert (
                serving.client.send(Raw(method, path.encode(), (json.dumps(REQUEST).encode(),), (key,))).status == 200
            )


def test_an_unavailable_store_and_a_full_server_are_503(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(server.server.core.inferring._routing._directory, "refresh", fail)
    answer = server.client.post(CHAT, REQUEST)
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    error_in(answer, "server_error")


BUSY = HttpAnswer(429, {"error": {"message": "slow down"}}, {"Retry-After": "17"})


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("path", [CHAT, "/v1/inference/chat-completion"])
def test_a_busy_model_is_429_with_its_own_wait(tmp_path: Path, path: str, stream: bool) -> None:
    name = "model" if path == CHAT else "model_id"
    with ModelServer(lambda _: BUSY) as model, served(tmp_path, model_url=model.url) as serving:
        answer = serving.client.post(path, {name: "m", "messages": REQUEST["messages"], "stream": stream})
    assert (answer.status, answer.headers["retry-after"]) == (429, "17")
    assert "x-should-retry" not in answer.headers
    assert "slow down" in answer.refusal()
    if path == CHAT:
        assert error_in(answer, "rate_limit_error")["code"] == "rate_limit_exceeded"
    assert len(model.requests) == 1


def test_busy_embeddings_and_a_busy_list_of_models_are_429(tmp_path: Path) -> None:
    with (
        ModelServer(embed=lambda _: BUSY, listed=BUSY) as model,
        served(tmp_path, model_url=model.url) as serving,
    ):
        answers = [serving.client.post(EMBED, {"model": "m", "input": "x"}), serving.client.get("/v1/openai/v1/models")]
    assert [(answer.status, answer.headers["retry-after"]) for answer in answers] == [(429, "17")] * 2
    assert {error_in(answer, "rate_limit_error")["code"] for answer in answers} == {"rate_limit_exceeded"}


@pytest.mark.parametrize("retry_after", ["17", None])
def test_a_turn_with_a_busy_model_is_429_also_when_it_is_read(tmp_path: Path, retry_after: str | None) -> None:
    busy = HttpAnswer(429, {"error": {"message": "slow down"}}, {"Retry-After": retry_after or "9" * 5_000})
    with ModelServer(lambda _: busy) as model, served(tmp_path, model_url=model.url) as serving:
        answer = turn(serving, stream=False)
        streamed = turn(serving, stream=True)
        agent = serving.client.get("/v1/agents").json()["data"][0]["agent_id"]
        session = serving.client.get(f"/v1/agents/{agent}/sessions").json()["data"][0]["session_id"]
        read = serving.client.get(f"/v1/agents/{agent}/session/{session}").json()["turns"][0]["failure"]
    assert (answer.status, answer.headers.get("retry-after")) == (429, retry_after)
    assert answer.headers["x-should-retry"] == "false"
    assert (answer.headers["x-turn-status"], "slow down" in answer.refusal()) == ("failed", True)
    assert b"takes no more requests now; try again later (HTTP 429): slow down" in streamed.body
    assert read["kind"] == "model_busy"
    assert read["message"].endswith("its model's server takes no more requests now (HTTP 429)")


def test_a_model_that_its_provider_does_not_have_is_404(tmp_path: Path) -> None:
    with (
        ModelServer(lambda _: error_answer(404, "The model `m` does not exist")) as model,
        served(tmp_path, model_url=model.url) as serving,
    ):
        answer = serving.client.post(CHAT, REQUEST)
        other = serving.client.post("/v1/inference/chat-completion", {"model_id": "m", "messages": REQUEST["messages"]})
    assert (answer.status, answer.headers["x-should-retry"]) == (404, "false")
    assert error_in(answer, "invalid_request_error")["code"] == "model_not_found"
    assert other.status == 502


@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_request_that_a_provider_does_not_accept_is_400(tmp_path: Path, status: int, stream: bool) -> None:
    refused = error_answer(status, "Unrecognized request argument supplied: top_k")
    with ModelServer(lambda _: refused) as model, served(tmp_path, model_url=model.url) as serving:
        answer = serving.client.post(CHAT, {**REQUEST, "top_k": 3, "stream": stream})
        other = serving.client.post(
            "/v1/inference/chat-completion", {"model_id": "m", "messages": REQUEST["messages"], "stream": stream}
        )
    assert answer.status == 400
    error = error_in(answer, "invalid_request_error")
    assert (error["param"], "Unrecognized request argument" in error["message"]) == (None, True)
    assert other.status == 400
    assert other.refusal() == error["message"]


def test_a_list_of_models_that_is_refused_is_no_fault_of_the_caller(tmp_path: Path) -> None:
    refused = HttpAnswer(400, {"error": "no"})
    with ModelServer(listed=refused) as model, served(tmp_path, model_url=model.url) as serving:
        assert [serving.client.get(path).status for path in ("/v1/models", "/v1/openai/v1/models")] == [502, 502]


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_failure_between_this_server_and_a_provider_is_502(tmp_path: Path, status: int) -> None:
    with ModelServer(lambda _: error_answer(status, "no")) as model, served(tmp_path, model_url=model.url) as serving:
        answer = serving.client.post(CHAT, REQUEST)
    assert answer.status == 502
    error_in(answer, "server_error")


FAILING: tuple[tuple[str, Answer], ...] = (
    ("refused", error_answer(500, "upstream http://{at} is gone")),
    ("broken", (text_chunk("Once"), Pause(0.05), BreakOff())),
    ("failed", (text_chunk("Once"), Pause(0.05), {"error": {"message": "lost {at}"}})),
)


@pytest.mark.parametrize("answer", [answer for _, answer in FAILING], ids=[name for name, _ in FAILING])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_no_error_names_the_address_of_the_model_server(tmp_path: Path, answer: Any, stream: bool) -> None:
    def reply(_: Any) -> Answer:
        at = f"127.0.0.1:{model.port}"
        if isinstance(answer, HttpAnswer):
            return HttpAnswer(answer.status, json.loads(json.dumps(answer.body).replace("{at}", at)))
        return tuple(json.loads(json.dumps(i).replace("{at}", at)) if isinstance(i, dict) else i for i in answer)

    with ModelServer(reply) as model, served(tmp_path, model_url=model.url) as serving:
        answers = [
            serving.client.post(CHAT, {**REQUEST, "stream": stream}),
            serving.client.post(
                "/v1/inference/chat-completion", {"model_id": "m", "messages": REQUEST["messages"], "stream": stream}
            ),
            turn(serving, stream),
        ]
    for each in answers:
        assert b"error" in each.body or b"detail" in each.body
        assert b"127.0.0.1" not in each.body
        assert str(model.port).encode() not in each.body


def turn(serving: Served, stream: bool) -> Answered:
    made = serving.client.post("/v1/agents", {"agent_config": {"model": "m", "instructions": ""}}).json()
    path = f"/v1/agents/{made['agent_id']}/session"
    session = serving.client.post(path, {"session_name": "s"}).json()["session_id"]
    return serving.client.post(f"{path}/{session}/turn", {"messages": REQUEST["messages"], "stream": stream})


def test_the_address_of_an_unreachable_model_server_is_not_shown(tmp_path: Path) -> None:
    with ModelServer() as model:
        url, port = model.url, str(model.port).encode()
    with served(tmp_path, model_url=url) as serving:
        answers = [
            serving.client.post(CHAT, REQUEST),
            serving.client.post(EMBED, {"model": "m", "input": "x"}),
            serving.client.get("/v1/models"),
            serving.client.get("/v1/openai/v1/models/m"),
            turn(serving, stream=False),
        ]
    assert {answer.status for answer in answers} == {502}
    assert not [answer for answer in answers if port in answer.body or b"127.0.0.1" in answer.body]


def test_an_error_within_a_stream_is_openais_too(tmp_path: Path) -> None:
    broken = (text_chunk("Once"), Pause(0.05), BreakOff())
    with ModelServer(lambda _: broken) as model, served(tmp_path, model_url=model.url) as serving:
        answer = serving.client.post(CHAT, {**REQUEST, "stream": True})
    last = json.loads(answer.body.decode().strip().split("\n\n")[-1].removeprefix("data: "))
    assert last["error"]["type"] == "server_error"
    assert set(last["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("headers", "is_done_sent"),
    [
        ((), True),
        (((b"user-agent", b"OpenAI/Python 3.54.0"),), True),
        (((b"user-agent", b"Agents/Python 0.24.0"),), True),
        (((b"user-agent", b"LlamaStackClient/JS 0.3.0"),), False),
        (((b"user-agent", b"LlamaStackClient/Python 0.2.12"), (b"x-llamastack-client-version", b"0.2.12")), False),
        (((b"user-agent", b"mine"), (b"x-llamastack-client-version", b"0.3.5")), False),
    ],
)
def test_done_is_sent_to_clients_that_expect_it(
    tmp_path: Path, headers: tuple[tuple[bytes, bytes], ...], is_done_sent: bool
) -> None:
    with ModelServer(lambda _: text_answer("o", "k")) as model, served(tmp_path, model_url=model.url) as serving:
        body = json.dumps({**REQUEST, "stream": True}).encode()
        answer = serving.client.send(Raw("POST", CHAT.encode(), (body,), headers))
    assert (b"[DONE]" in answer.body) is is_done_sent
