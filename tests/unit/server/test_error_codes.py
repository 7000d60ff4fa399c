"""Every error has a code beside its text, from one table, which the reference prints.

Covers: domain/errors, http/errors, http/envelopes, docs/reference/errors.md
"""

import ast
import json
import pkgutil
import re
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from functions.local.routes import ROUTES
from tests.docs.error_reference import FILE, gateway_answers, page, statuses_of
from turnstone.dialects.llama_stack.completions import InferCompletionEncoder
from turnstone.dialects.llama_stack.inference_replies import InferChatCompletionEncoder
from turnstone.dialects.llama_stack.turns.stream import TurnStream
from turnstone.dialects.llama_stack_2024.stream import TurnStream2024
from turnstone.dialects.openai.errors import DOCUMENTED, openai_codes
from turnstone.domain import errors
from turnstone.domain.errors.code_table import CODES, NOT_FOUND, code_of
from turnstone.domain.errors.codes import ErrorCode
from turnstone.domain.errors.problem_sentences import field_of, sentence_of
from turnstone.domain.errors.root import TurnstoneError
from turnstone.domain.turns.events import Numbered, TurnFailed
from turnstone.domain.turns.failures import FAILURE_CODES, Failure, FailureKind, turn_failure
from turnstone.http.dialects import LETTA, OPENAI, RESPONSES, SHARED
from turnstone.http.envelopes import DETAIL
from turnstone.http.errors import FAILURE_STATUS, REFUSED, error_reply, failure_reply, refusal_reply

PRODUCT = [Path(errors.__file__).parents[2], Path(__file__).parents[3] / "functions"]
# never raised themselves, only as one of their subclasses
BASES = {TurnstoneError, errors.TurnConflict, errors.LimitReached, errors.ModelError, errors.MemoryProviderError}
KINDS: tuple[FailureKind, ...] = get_args(FailureKind)


def classes() -> set[type[TurnstoneError]]:
    """Return every class of the tree."""
    for module in pkgutil.walk_packages(errors.__path__, "turnstone.domain.errors."):
        __import__(module.name)
    found, grown = {TurnstoneError}, 0
    while len(found) > grown:
        grown = len(found)
        found |= {kind for each in found for kind in each.__subclasses__()}
    return {kind for kind in found if kind.__module__.startswith("turnstone.domain.errors")}


@cache
def calls() -> tuple[ast.Call, ...]:
    """Return every call in the product."""
    return tuple(
        node
        for folder in PRODUCT
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
    )


def name_of(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def test_every_class_of_the_tree_has_a_code() -> None:
    assert classes() - BASES == set(CODES)


def test_a_base_is_never_raised_itself() -> None:
    made = {name_of(call) for call in calls()}
    assert not made & {kind.__name__ for kind in BASES}


def test_every_kind_of_missing_object_has_a_code() -> None:
    named = {
        call.args[0].value
        for call in calls()
        if name_of(call) == "NotFound" and call.args and isinstance(call.args[0], ast.Constant)
    }
    assert named >= {"agent", "session", "turn", "model"}
    assert named <= set(NOT_FOUND)


def test_every_kind_of_failure_has_a_code() -> None:
    assert set(FAILURE_CODES) == set(FAILURE_STATUS) == set(KINDS)


def test_every_code_is_sent_and_explained() -> None:
    assert [code for code in ErrorCode if not statuses_of(code)] == []
    for code in ErrorCode:
        assert re.fullmatch(r"[a-z]+(_[a-z0-9]+)*", code)
        assert re.fullmatch(r"[A-Z`].*\.", code.when)
        assert re.fullmatch(r"[A-Z`].*\.", code.remedy)
        assert "|" not in code.when + code.remedy


def test_the_reference_prints_the_table() -> None:
    assert FILE.read_text() == page(), "run: python -m tests.docs.error_reference"


def test_the_gateway_sends_codes_of_the_table() -> None:
    answers = list(gateway_answers())
    assert {status for status, _ in answers} >= {"401", "403", "405", "413", "429", "503", "504"}
    for _, body in answers:
        assert set(body) == {"detail", "code", "error"}
        assert body["code"] in list(ErrorCode)


@pytest.mark.parametrize("kind", KINDS)
def test_a_failed_turn_has_the_same_code_in_every_reply(kind: FailureKind) -> None:
    failure = Failure(kind=kind, message="why")
    ended = Numbered(TurnFailed(turn_id="t", failure=failure), 1)
    streamed = [json.loads(stream.encode(ended).removeprefix(b"data: ")) for stream in (TurnStream(), TurnStream2024())]
    whole = json.loads(failure_reply(failure).body)
    read = json.loads(turn_failure("t", "failed", failure).model_dump_json())
    assert {event["error"]["code"] for event in streamed} == {whole["code"]} == {read["code"]} == {FAILURE_CODES[kind]}


@pytest.mark.parametrize("encoder", [InferChatCompletionEncoder(), InferCompletionEncoder()])
def test_the_end_of_a_model_s_stream_has_a_code(encoder: Any) -> None:
    event = json.loads(encoder.failed("why", ErrorCode.MODEL_FAILED).removeprefix(b"data: "))
    assert event == {"error": {"message": "why", "code": "model_failed"}}


def test_a_code_stands_beside_the_text_in_every_envelope() -> None:
    missing = errors.NotFound("agent", "a")
    assert json.loads(error_reply(missing).body) == {"detail": "agent 'a' not found", "code": "agent_not_found"}
    wrong = errors.Unsupported("documents: leave the list empty", ("documents",))
    detail = json.loads(error_reply(wrong).body)["error"]["detail"]
    assert (detail["code"], [problem["loc"] for problem in detail["errors"]]) == ("not_supported", [["documents"]])
    for code, status in REFUSED.items():
        reply = refusal_reply(code, "why")
        assert (reply.status, json.loads(reply.body)) == (status, {"detail": "why", "code": code})
    assert json.loads(error_reply(ZeroDivisionError()).body)["code"] == "internal_error"


def test_openai_s_clients_read_openai_s_own_codes() -> None:
    def code(error: Exception) -> tuple[int, str]:
        reply = error_reply(error, OPENAI)
        return reply.status, json.loads(reply.body)["error"]["code"]

    assert code(errors.Unauthenticated("Bearer")) == (401, "invalid_api_key")
    assert code(errors.ModelBusy("why")) == (429, "rate_limit_exceeded")
    assert code(errors.UnknownModel("m")) == (404, "model_not_found")
    assert code(errors.ModelNotFound("why")) == (404, "model_not_found")
    assert code(errors.NotFound("model", "m")) == (404, "model_not_found")
    assert code(errors.NotFound("chat completion", "c")) == (404, "completion_not_found")
    assert code(errors.InvalidRequest("n: why", ("n",))) == (400, "invalid_request")
    assert code(errors.StoreUnavailable("why")) == (503, "store_unavailable")
    assert set(DOCUMENTED.values()) <= set(openai_codes())
    both = json.loads(error_reply(errors.Unauthenticated("Bearer"), SHARED).body)
    assert (both["code"], both["error"]["code"]) == ("unauthenticated", "invalid_api_key")


def test_a_code_of_a_subclass_elsewhere_is_its_base_s() -> None:
    class Full(errors.StoreUnavailable):
        pass

    assert code_of(Full("why")) is ErrorCode.STORE_UNAVAILABLE


def test_every_route_writes_errors_in_an_envelope_with_a_code() -> None:
    assert {type(r.dialect.envelope) for r in ROUTES} == {
        type(DETAIL),
        type(OPENAI.envelope),
        type(RESPONSES.envelope),
        type(SHARED.envelope),
        type(LETTA.envelope),
    }
    for envelope in {route.dialect.envelope for route in ROUTES}:
        envelope_body = json.loads(envelope.refusal(404, "why", ErrorCode.PATH_NOT_FOUND))
        assert "path_not_found" in (envelope_body.get("code"), envelope_body.get("error", {}).get("code"))


@pytest.mark.parametrize(
    ("problems", "sentence"),
    [
        ([{"loc": ("query", "after"), "msg": "after: not issued by this API"}], "after: not issued by this API"),
        ([{"loc": (), "msg": "Invalid JSON"}], "Invalid JSON"),
        ([{"loc": ("a", 0, "b"), "msg": "a.0.b: is wrong"}], "a.0.b: is wrong"),
        ([{"loc": ("a", "b"), "msg": "b: is wrong"}], "a.b: is wrong"),
        ([{"loc": ("a",), "msg": "abc: is wrong"}], "a: abc: is wrong"),
        ([{"loc": ("a",), "msg": "One"}, {"loc": ("a",), "msg": "Two"}], "a: One, or two"),
        ([{"loc": ("a",), "msg": "One"}, {"loc": ("b",), "msg": "Two"}], "a: One; b: Two"),
        ([{"loc": (), "msg": "One"}, {"loc": (), "msg": "Two"}], "One; Two"),
    ],
)
def test_a_sentence_names_each_field_once(problems: list[dict[str, Any]], sentence: str) -> None:
    assert sentence_of(problems) == sentence


def test_a_parameter_of_the_url_is_named_alone() -> None:
    assert field_of(("query", "after")) == "after"
    assert field_of(("query",)) == "query"
