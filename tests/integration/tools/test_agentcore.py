"""AgentCoreCode against a loopback AgentCore, through botocore's own reading of event streams.

Covers: adapters/tools/code/agentcore, adapters/tools/code/agentcore_client
"""

from __future__ import annotations

import base64
import gc
from functools import cache

import pytest

from tests.fakes.models import bedrock_frames as frames
from tests.fakes.models.openai_answers import Answer, Pause
from tests.fakes.tools import agentcore_server as fake
from tests.fakes.tools.agentcore_server import AgentCoreServer
from tests.support.models.bedrock_client import REGION, SECRET, BedrockAdapters, bedrock_adapters
from turnstone.adapters.aws.aws_clients import AwsClients
from turnstone.adapters.tools.code.agentcore import AgentCoreCode
from turnstone.adapters.tools.code.agentcore_client import build_agentcore_client
from turnstone.adapters.tools.code.code_runs import CodeRun
from turnstone.domain.errors import ToolFailed
from turnstone.domain.values.cancellation import StopSignal

__all__ = ["bedrock_adapters"]
EMPTY = fake.listing()
cached_clients = cache(AwsClients)  # the service's description is read only once


class Interpreter:
    """Runs code on a server on loopback."""

    def __init__(self, environment: pytest.MonkeyPatch) -> None:
        self._environment = environment

    def at(self, server: AgentCoreServer) -> AgentCoreCode:
        self._environment.setenv("AWS_ENDPOINT_URL_BEDROCK_AGENTCORE", server.url)
        clients = cached_clients()
        return AgentCoreCode(lambda timeout_s: build_agentcore_client(clients, REGION, timeout_s), "aws.interpreter.v1")

    def run(self, server: AgentCoreServer, timeout_s: float = 5, stop: StopSignal | None = None) -> CodeRun:
        return self.at(server).run("print(1)", timeout_s, stop)


@pytest.fixture
def interpreter(bedrock_adapters: BedrockAdapters, monkeypatch: pytest.MonkeyPatch) -> Interpreter:
    return Interpreter(monkeypatch)


def answers(executed: Answer, *, after: Answer = EMPTY, read: Answer = ()) -> dict[str, Answer | list[Answer]]:
    return {"listFiles": [EMPTY, after], "executeCode": executed, "readFiles": read}


def test_code_is_run_in_a_session_of_its_own_which_is_stopped(interpreter: Interpreter) -> None:
    with AgentCoreServer(answers(fake.ran("1\n"))) as server:
        assert interpreter.run(server, timeout_s=7) == CodeRun("completed", "1\n", "", 0)
    assert server.names == ["start", "listFiles", "executeCode", "listFiles", "stop"]
    assert {session_id for _, session_id, _ in server.session_requests} == {"session1"}
    assert server.session_requests[0][2]["sessionTimeoutSeconds"] == 27
    assert server.session_requests[2][2] == {"code": "print(1)", "language": "python"}
    assert all(headers["authorization"].startswith("AWS4-HMAC-SHA256") for headers in server.headers)


def test_no_two_pieces_of_code_share_a_session(interpreter: Interpreter) -> None:
    script = {"listFiles": EMPTY, "executeCode": fake.ran("1\n")}
    with AgentCoreServer(script) as server:
        code = interpreter.at(server)
        code.run("a = 1", 5, None)
        code.run("print(a)", 5, None)
    assert [
        (name, session_id)
        for name, session_id, _ in server.session_requests
        if name in ("start", "executeCode", "stop")
    ] == [(name, session_id) for session_id in ("session1", "session2") for name in ("start", "executeCode", "stop")]


def test_code_that_fails_is_an_answer(interpreter: Interpreter) -> None:
    with AgentCoreServer(answers(fake.ran("a\n", "NameError: x", 1))) as server:
        assert interpreter.run(server) == CodeRun("error", "a\n", "NameError: x", 1)


def test_several_results_are_joined(interpreter: Interpreter) -> None:
    first = fake.result(fake.text("a"), structuredContent={"stdout": "a"})
    with AgentCoreServer(answers((first, *fake.ran("b", "c")))) as server:
        assert interpreter.run(server) == CodeRun("completed", "ab", "c", 0)


@pytest.mark.parametrize("is_error", [False, True])
def test_a_result_of_text_alone_is_returned(interpreter: Interpreter, is_error: bool) -> None:
    executed = (fake.result(fake.text("said"), isError=is_error),)
    expected = CodeRun("error", "", "said") if is_error else CodeRun("completed", "said", "")
    with AgentCoreServer(answers(executed)) as server:
        assert interpreter.run(server) == expected


def test_files_that_were_made_are_read_and_others_are_not(interpreter: Interpreter) -> None:
    chart = {"type": "blob", "uri": "file:///a%20chart.png", "blob": base64.b64encode(b"\x89PNG").decode()}
    table = {"type": "text", "uri": "file:///t.csv", "text": "ü,1"}
    read = (fake.result(*({"type": "resource", "resource": resource} for resource in (chart, table))),)
    script: dict[str, Answer | list[Answer]] = {
        "listFiles": [
            fake.listing("theirs.txt", folders=("log",)),
            fake.listing("theirs.txt", "t.csv", "a chart.png", ".x", folders=("log", "new")),
        ],
        "executeCode": fake.ran(),
        "readFiles": read,
    }
    with AgentCoreServer(script) as server:
        run = interpreter.run(server)
    assert server.session_requests[-2][2] == {"paths": ["a chart.png", "t.csv"]}
    assert [(file.name, file.mime_type, file.body) for file in run.files] == [
        ("a_chart.png", "image/png", b"\x89PNG"),
        ("t.csv", "text/csv", "ü,1".encode()),
    ]


def test_images_that_are_shown_are_files(interpreter: Interpreter) -> None:
    image = {"type": "image", "mimeType": "image/jpeg", "data": base64.b64encode(b"\xff\xd8").decode()}
    with AgentCoreServer(answers((fake.result(image), *fake.ran("x")))) as server:
        (file,) = interpreter.run(server).files
    assert (file.name, file.mime_type, file.body) == ("image-1.jpeg", "image/jpeg", b"\xff\xd8")


def test_files_that_are_too_many_or_too_large_are_left_out(interpreter: Interpreter) -> None:
    names = [f"{number:02}.txt" for number in range(20)]
    large = base64.b64encode(bytes(5 << 20)).decode()
    resources = [{"type": "blob", "uri": f"file:///{name}", "blob": large} for name in names[:2]]
    read = (fake.result(*({"type": "resource", "resource": resource} for resource in resources)),)
    with AgentCoreServer(answers(fake.ran("x"), after=fake.listing(*names), read=read)) as server:
        run = interpreter.run(server)
    assert server.session_requests[-2][2] == {"paths": names[:16]}
    assert [file.name for file in run.files] == ["00.txt"]
    assert run.note == "19 more files were left out: too many, or too large"


def test_output_is_returned_even_if_the_files_can_not_be_listed(interpreter: Interpreter) -> None:
    broken = (frames.exception("internalServerException", "x"),)
    with AgentCoreServer(answers(fake.ran("1"), after=broken)) as server:
        run = interpreter.run(server)
    assert (run.stdout, run.note) == ("1", "the files it made can't be listed: EventStreamError")
    gc.collect()  # an unclosed connection would warn now
    assert server.names[-1] == "stop"


def test_code_that_takes_too_long_times_out_and_its_session_is_stopped(interpreter: Interpreter) -> None:
    with AgentCoreServer(answers((Pause(3), *fake.ran("1")))) as server:
        assert interpreter.run(server, timeout_s=1).status == "timed out"
    assert server.names == ["start", "listFiles", "executeCode", "stop"]


@pytest.mark.parametrize(
    ("executed", "error_text"),
    [
        (frames.refusal(429, "ThrottlingException", SECRET), "AgentCore refused to run the code: ThrottlingException"),
        ((frames.exception("accessDeniedException", SECRET),), "AgentCore refused to run the code: accessDenied"),
        ((fake.ran("x")[0][:-1] + b"\x00",), "AgentCore can't be reached: ChecksumMismatch"),
    ],
)
def test_a_refusal_is_a_failure_and_the_session_is_stopped(
    interpreter: Interpreter, executed: Answer, error_text: str
) -> None:
    with AgentCoreServer(answers(executed)) as server, pytest.raises(ToolFailed, match=error_text) as failed:
        interpreter.run(server)
    assert SECRET not in str(failed.value)
    assert server.names[-1] == "stop"


def test_a_session_that_can_not_be_started_is_a_failure(interpreter: Interpreter) -> None:
    refusal = frames.refusal(402, "ServiceQuotaExceededException", "x")
    with AgentCoreServer({}, refusal) as server, pytest.raises(ToolFailed, match="ServiceQuotaExceeded"):
        interpreter.run(server)
    assert server.names == ["start"]


def test_nothing_is_run_for_a_cancelled_call(interpreter: Interpreter) -> None:
    stop = StopSignal()
    stop.set()
    with AgentCoreServer(answers(fake.ran())) as server, pytest.raises(ToolFailed, match="was cancelled"):
        interpreter.run(server, stop=stop)
    assert "executeCode" not in server.names
