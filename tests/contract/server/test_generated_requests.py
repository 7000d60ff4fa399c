"""Requests that schemathesis generates from the document of a server are answered as documented.

The server requires API keys, and receives hundreds of requests, valid and invalid, alone and in sequence. Each night it
receives others, under every path that a route has, and all of the cases that cover the schemas instead of some of
every sixth operation; another server, which accepts every caller, then receives the document's examples, and sequences.

Covers: functions, http/document
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Set
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from schemathesis import Case
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema
from schemathesis.generation import GenerationMode
from schemathesis.generation.meta import TestPhase
from starlette.testclient import TestClient

from tests.support.server.asgi_client import key_for, served, strict_json
from tests.support.server.document import DOCUMENT, named_validator
from turnstone.domain.access.caller import Caller

ADDRESS = "http://127.0.0.1:8321"
PHASES = {"examples", "coverage", "fuzzing", "stateful"}
CASES = 800
CASES_AT_NIGHT = 2_500
PHASES_WITHOUT_KEYS = {"examples", "stateful"}
NO_COVERAGE = {"phases": {"coverage": {"enabled": False}}}
EXAMPLES = 2
COVERED = 16  # one in so many cases that cover a schema
WHOSE_SCHEMAS_ARE_COVERED = 6  # one operation in so many: to generate the cases of all takes half the time of a run
EXAMPLES_AT_NIGHT = 32
SEED = 7
SLOWEST_S = 30
ANN = Caller(tenant="acme", principal="ann")
# Every check runs. One of them, `object_level_authorization`, has nothing to compare without logins of several users:
# access of users is the subject of test_two_tenants.py and test_every_route_refuses.py.
CHECKED = {
    "allow_header_conformance",
    "content_type_conformance",
    "ensure_resource_availability",
    "ignored_auth",
    "max_response_time",
    "missing_required_header",
    "negative_data_rejection",
    "not_a_server_error",
    "object_level_authorization",
    "positive_data_acceptance",
    "response_headers_conformance",
    "response_schema_conformance",
    "status_code_conformance",
    "unsupported_method",
    "use_after_free",
}
TOOLS = "choices among tools hold between fields; names, formats and shields are those that this server has"
NAMES = "names have to be printable, and providers those that this server has"
BANKS = "names have to be printable, providers those that this server has, and an overlap below the length of chunks"
DOCUMENTS = "documents are texts of their types, or at addresses that may be fetched; in graph banks they are edges"
QUERIES = "questions are not empty, and each kind of banks has parameters and filters of its own"
LETTA_AGENTS = "fields without an effect are empty, and an agent names a model of this server"
LETTA_BLOCKS = "values are within the limit of their block, and labels differ"
LETTA_TOOLS = "source is Python with a function, a docstring and annotations, and names of tools differ"
LETTA_MESSAGES = "messages are streamed as they are made, and the rules of an agent leave it a tool"
# Operations that may refuse a request that follows the document, with the rule that the document can't express. Their
# refusals have to name it, too.
LETTA_SOURCES = "metadata and embeddings have at most 16,000 bytes"
BEYOND_SCHEMAS = {
    "create_agent": TOOLS,
    "llama_stack_2024_create_agent": TOOLS,
    "llama_stack_2024_create_turn": "attachments are texts or may be fetched, and only a waiting turn takes answers",
    "create_session": "a vector database that is named has to exist",
    "create_turn": TOOLS,
    "get_usage": "days have to be in their order and not too many, and a session needs its agent",
    "list_chat_completion_messages": "a page begins after what was issued",
    "list_runtime_tools": "a toolgroup has to be one whose tools run here",
    "list_tools": "a toolgroup has to be one whose tools run here",
    "register_model": NAMES,
    "register_shield": NAMES,
    "register_toolgroup": NAMES,
    "register_vector_db": NAMES,
    "insert_chunks": "texts are not empty, and vectors have the dimension of their database",
    "query_chunks": "texts are not empty",
    "register_memory_bank": BANKS,
    "register_bank": BANKS,
    "insert_documents": DOCUMENTS,
    "insert_into_bank": DOCUMENTS,
    "insert_rag_documents": DOCUMENTS,
    "query_rag": "questions are not empty, templates hold the content, and models are those that this server has",
    "list_documents": "a page begins after a document that there is",
    "query_memory_bank": QUERIES,
    "query_bank": QUERIES,
    "create_file": "a file has a name without control characters, and its expiry has an anchor",
    "add_upload_part": "a part is no larger than its upload, which has not ended",
    "complete_upload": "the parts have to be those of the upload, which has not ended",
    "cancel_upload": "a completed upload stays",
    "create_vector_store": "chunks overlap by half at most, and models and providers are those that this server has",
    "list_vector_stores": "a page begins and ends at vector stores that there are",
    "search_vector_store": "queries are not empty and not rewritten, and filters have a grammar",
    "add_store_file": "chunks overlap by half at most",
    "list_store_files": "a page begins and ends at files that there are",
    "add_file_batch": "a batch has ids or files, and chunks that overlap by half at most",
    "list_file_batch_files": "a page begins and ends at files of the batch",
    "run_shield": "a shield has the params it was registered with",
    "resume_turn": "the calls answered have to be those the turn waits for",
    "unregister_toolgroup": "what comes with the server stays",
    "chat_completion": TOOLS,
    "create_chat_completion": "some fields are for servers of OpenAI's API, which the offline model is none of",
    "create_completion": "some fields are for servers of OpenAI's API, which the offline model is none of",
    "infer_completion": "the offline model takes no grammar",
    "create_response": "choices among tools hold between fields, and answers have calls",
    "create_conversation": "items have forms that this server passes on to models, and answers have calls",
    "add_items": "items have forms that this server passes on to models, and answers have calls",
    "list_items": "a page begins and ends at items that there are",
    "cancel_response": "only a response of the background is cancelled",
    "get_response": "a stream is continued from a number of it, and without obfuscation",
    "create_webhook": "an address is one that may be called",
    "update_webhook": "an address is one that may be called",
    "resend_delivery": "a disabled webhook receives nothing",
    "send_test_event": "a disabled webhook receives nothing",
    "list_deliveries": "a page begins after a delivery that there is",
    "list_input_items": "a page begins and ends at items that there are",
    "create_embedding": "vectors have the dimensions that the offline model makes, and it takes no user",
    "letta_create_letta_agent": LETTA_AGENTS,
    "letta_export_letta_agent": "files are in the newer schema",
    "letta_import_letta_agent": "a file is an agent file",
    "letta_update_letta_agent": LETTA_AGENTS,
    "letta_add_memory_block": LETTA_BLOCKS,
    "letta_update_memory_block": LETTA_BLOCKS,
    "letta_create_block": LETTA_BLOCKS,
    "letta_update_block": LETTA_BLOCKS,
    "letta_create_letta_tool": LETTA_TOOLS,
    "letta_upsert_letta_tool": LETTA_TOOLS,
    "letta_update_letta_tool": LETTA_TOOLS,
    "letta_delete_letta_tool": "base tools stay",
    "letta_run_letta_tool": LETTA_TOOLS,
    "letta_attach_block": "the blocks of an agent have different labels",
    "letta_detach_block": "a query names an agent",
    "letta_create_passages": "a text is not blank",
    "letta_reset_letta_messages": "an agent begins without messages",
    "letta_send_letta_messages": LETTA_MESSAGES,
    "letta_update_letta_message": "a message keeps its role, and only one of the assistant has calls",
    "letta_stream_letta_messages": LETTA_MESSAGES,
    "letta_start_letta_run": LETTA_MESSAGES,
    "letta_create_source": LETTA_SOURCES,
    "letta_attach_source": "a source is attached to an agent",
    "letta_detach_source": "a source is detached from an agent",
    "letta_update_source": LETTA_SOURCES,
    "letta_upload_source_file": "a file has a name without control characters",
    "embed_contents": "vectors have the dimensions that the offline model makes",
}
STREAMS = {"chat_completion": "ChatCompletionStream", "create_chat_completion": "CreateChatCompletionStream"}
STREAMS |= {"infer_completion": "InferCompletionStream", "create_completion": "CreateCompletionStream"}
STREAMS |= {"create_response": "CreateResponseStream", "letta_stream_letta_messages": "StreamingRequestStream"}
STREAMS |= {"llama_stack_2024_create_turn": "CreateTurn2024Stream"}
# operations that call MCP servers, here at generated addresses without a server
CALL_OTHERS = {"get_tool", "invoke_tool", "list_runtime_tools", "list_tools"}
MAKERS = ("create_agent", "create_session", "create_turn", "register_model", "register_toolgroup")
BELOW_AGENTS = ("create_session", "create_turn")
CONFIG = {"model": "turnstone-offline", "instructions": ""}


class Findings:
    """The outcome of the requests of one run."""

    def __init__(self) -> None:
        self.cases: Counter[str] = Counter()
        self.checks: set[str] = set()
        self.answers: Counter[tuple[str, int]] = Counter()
        self.refused: dict[str, str] = {}
        self.problems: list[str] = []

    def is_failure(self, _: Any, failure: Any, case: Any, response: Any) -> bool:
        """Return whether a failure of a check counts as one.

        Rules beyond schemas may refuse a request that follows the document. And OpenAPI 3.1 does not define the schema
        of a stream: schemathesis takes it for that of an event with its `data`, ours is that of the data.
        """
        if own_operation(case) in CALL_OTHERS and response.status_code == 502:
            return False
        if failure.title == "Created resource not found" and failure.operation.endswith("/chat/completions"):
            return False  # it exists afterwards only if `store` is true, which no document can express
        if failure.title == "SSE event violates schema":
            return not is_stream_as_documented(
                response.content.decode(), STREAMS.get(own_operation(case), "TurnStreamChunk")
            )
        is_of_file = own_operation(case) == "letta_import_letta_agent"  # the document describes no content of files
        is_expected = is_beyond_schemas(response) or (is_of_file and response.status_code == 422)
        if failure.checks != ("positive_data_acceptance",) or not is_expected:
            return True
        self.refused[own_operation(case)] = f"{case.query}: {response.content.decode()}"
        return False

    def note(self, event: events.EngineEvent) -> None:
        if isinstance(event, events.NonFatalError | events.FatalError):
            self.problems.append(str(event))
        if not isinstance(event, events.ScenarioFinished):
            return
        recorder = event.recorder
        self.cases[event.phase.value] += len(recorder.interactions)
        for case_id, exchange in recorder.interactions.items():
            assert exchange.response is not None
            self.answers[own_operation(recorder.cases[case_id].value), exchange.response.status_code] += 1
        for check in (check for checks in recorder.checks.values() for check in checks):
            self.checks.add(check.name)
            if check.failure_info:
                failure = check.failure_info.failure
                self.problems.append(
                    f"{failure.operation}: {failure.title}\n{failure.message}\n{check.failure_info.code_sample}"
                )


def uncovered_operations() -> list[str]:
    """Return the operations whose schemas are covered by the nightly run only."""
    ids = sorted(operation["operationId"] for path in DOCUMENT["paths"].values() for operation in path.values())
    return [each for number, each in enumerate(ids) if number % WHOSE_SCHEMAS_ARE_COVERED]


def is_beyond_schemas(response: Any) -> bool:
    match response.status_code, strict_json(response.content.decode()):
        case 400, {"detail": str()}:
            return True
        case 422, {"detail": list(problems)}:
            return all(problem["type"] == "value_error" for problem in problems)
        case 400, {"error": {"message": str(message)}}:
            return not re.search("Input should|Extra inputs|Field required", message)
        case 400, {"error": {"detail": {"errors": problems}}}:
            return all(problem["type"] == "value_error" for problem in problems)
    return False


def is_stream_as_documented(stream: str, schema: str) -> bool:
    payloads = [event.rpartition("data: ")[2] for event in stream.split("\n\n")[:-1]]
    chunks = [strict_json(data) for data in payloads if data != "[DONE]"]
    return all(map(named_validator(schema).is_valid, chunks))


def own_operation(case: Any) -> str:
    """Return the operation's id; an alias counts as the operation that it repeats."""
    raw = case.operation.definition.raw
    return str(raw.get("x-same-as", raw["operationId"]))


def made_for(case: Any, client: TestClient) -> dict[str, str]:
    """Return the ids of the operation's path, of objects made just now: no object has a generated id."""
    made = client.post("/v1/agents", json={"agent_config": CONFIG}).json()
    if "session_id" in case.path_parameters:
        made |= client.post(f"/v1/agents/{made['agent_id']}/session", json={"session_name": "made"}).json()
    return {name: made[name] for name in case.path_parameters}


def findings(app: Any, headers: dict[str, str], phases: Set[str], seed: int | None) -> Findings:
    """Send the app requests generated from its document, nearly the same in every run without a seed."""
    config = SchemathesisConfig.from_dict(
        {
            "seed": SEED if seed is None else seed,
            "phases": {phase: {"enabled": phase in phases} for phase in PHASES},
            "base-url": ADDRESS,
            "headers": headers,
            "continue-on-failure": True,
            "cache": {"enabled": False},  # else a run would repeat the failures of the last one
            # how many examples are filtered out depends on the modules that are loaded, whose constants are tried
            "suppress-health-check": ["filter_too_much"],
            "checks": {"max_response_time": SLOWEST_S},
            "operations": [] if seed is not None else [{"include-operation-id": uncovered_operations(), **NO_COVERAGE}],
            "output": {"sanitization": {"enabled": False}},
            "generation": {
                "max-examples": EXAMPLES if seed is None else EXAMPLES_AT_NIGHT,
                "deterministic": seed is None,
                "database": "none",
                "no-shrink": True,
            },
        }
    )
    request_headers = {**headers, "host": ADDRESS.removeprefix("http://")}
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=config, headers=request_headers)
    if seed is None:  # aliases are answered by the same functions
        schema = schema.exclude(lambda context: "x-same-as" in context.operation.definition.raw)
    found = Findings()

    def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
        return found.is_failure(context, failure, case, response)

    def before_call(_: Any, case: Any, __: Any) -> None:
        is_right = case.meta.generation.mode is GenerationMode.POSITIVE
        if is_right and case.meta.phase.name is TestPhase.FUZZING and own_operation(case) in BELOW_AGENTS:
            case.path_parameters = made_for(case, TestClient(app, ADDRESS, headers=headers))

    in_turn: dict[str, Iterator[bool]] = {}

    def filter_case(_: Any, case: Case) -> bool:
        if seed is not None or case.meta is None or case.meta.phase.name is not TestPhase.COVERAGE:
            return True
        some = (number % COVERED == 0 for number in count())
        return next(in_turn.setdefault(own_operation(case), some))

    schema.hook(filter_failure)
    schema.hook(filter_case)
    schemathesis.hook(before_call)
    try:
        for event in from_schema(schema).execute():
            found.note(event)
    finally:
        schemathesis.hooks.unregister(before_call)
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)  # half a minute on a machine that does nothing else
def test_every_answer_is_as_documented(tmp_path: Path) -> None:
    assert_whole(found_on(tmp_path, "api_keys"), CASES)


@pytest.mark.nightly
def test_every_answer_is_as_documented_where_no_key_is_required(tmp_path: Path) -> None:
    found = found_on(tmp_path, "off", phases=PHASES_WITHOUT_KEYS)
    assert_as_documented(found)
    assert (+found.cases).keys() == PHASES_WITHOUT_KEYS


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("auth", ["off", "api_keys"])
def test_every_other_answer_is_as_documented(tmp_path: Path, auth: str, fresh_seed: int) -> None:
    assert_whole(found_on(tmp_path, auth, seed=fresh_seed), CASES_AT_NIGHT)


def found_on(folder: Path, auth: str, phases: Set[str] = PHASES, seed: int | None = None) -> Findings:
    with served(folder, auth=auth) as serving:
        headers = {} if auth == "off" else {"Authorization": f"Bearer {key_for(serving, ANN)}"}

        async def app(scope: Any, receive: Any, send: Any) -> None:
            assert scope["type"] == "http"  # the fixture starts and stops it
            await serving.client.app(scope, receive, send)

        return findings(app, headers, phases, seed)


def assert_as_documented(found: Findings) -> None:
    load_all_checks()
    assert {*CHECKS.get_all_names(), "max_response_time"} == CHECKED
    assert "\n\n".join(found.problems[:5]) == ""
    assert {name: refusal for name, refusal in found.refused.items() if name not in BEYOND_SCHEMAS} == {}


def assert_whole(found: Findings, cases: int) -> None:
    """Assert that every answer of a run of all phases is as documented, and that there were enough of them."""
    assert_as_documented(found)
    assert (+found.cases).keys() == PHASES
    assert found.cases.total() >= cases
    assert found.checks == CHECKED
    assert {name for name in MAKERS if not found.answers[name, 200]} == set()
