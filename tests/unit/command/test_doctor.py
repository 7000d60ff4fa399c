"""`turnstone doctor` finds the obstacles to a start or to serving, and changes nothing.

Covers: bootstrap/places/diagnosis, bootstrap/places/memory_check, bootstrap/places/model_check,
functions/command/doctor
"""

from __future__ import annotations

import http.server
import json
import os
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from functions.command.main import main
from tests.fakes.models.openai_answers import HttpAnswer, listed
from tests.fakes.models.openai_server import ModelServer
from tests.fakes.web.issuer import Issuer
from tests.support.needs import need_embeddings
from tests.support.server.servers import HOST, free_port
from tests.support.stores.postgres import postgres_server
from turnstone.adapters.embedding.files import NAMES
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.adapters.tools.code.code_subprocess import JailedCode
from turnstone.bootstrap import memory_providers
from turnstone.domain.errors import ToolFailed
from turnstone.ports.records import Key, Put

SECRET = "sk-0123456789"
FILE = """
[providers.p]
type = "openai"
url = "{url}"
[models.clever]
provider = "p"
"""


class Report(NamedTuple):
    """The findings by their checks, and the exit status."""

    findings: list[dict[str, str]]
    status: int

    def of(self, check: str) -> list[str]:
        return [each["status"] for each in self.findings if each["check"] == check]

    def failed(self) -> dict[str, str]:
        """Return the message and the remedy of each failed check."""
        return {
            each["check"]: f"{each['message']} {each['remedy']}" for each in self.findings if each["status"] == "failed"
        }


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("TURNSTONE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TURNSTONE_PORT", str(free_port()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doctor:
    return Doctor(monkeypatch, capsys)


class Doctor:
    """Runs the command with these settings."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str, **settings: object) -> Report:
        for name, value in settings.items():
            self._monkeypatch.setenv(f"TURNSTONE_{name.upper()}", str(value))
        status = 0
        try:
            main(["doctor", "--json", *arguments])
        except SystemExit as ended:
            status = int(str(ended.code))
        found = json.loads(self._capsys.readouterr().out)
        assert found["ok"] is (status == 0)
        assert all(each["remedy"] for each in found["findings"] if each["status"] != "ok")
        return Report(found["findings"], status)


def database(folder: Path) -> Path:
    path = folder / ".turnstone" / "turnstone.db"
    with closing(SqliteRangeStore(path)) as store:
        for number in range(50):
            store.write([Put(Key("p", f"{number:02}"), b"x" * 700)])
    return path


def test_a_fresh_folder_is_fine_and_stays_empty(doctor: Doctor, folder: Path) -> None:
    report = doctor()
    assert report.status == 0
    checks = ["settings", "address", "data", "models", "vectors", "keys", "tools"]
    assert [each["check"] for each in report.findings] == checks
    assert {each["status"] for each in report.findings if each["check"] != "vectors"} == {"ok"}
    assert list(folder.iterdir()) == []


def test_lines_for_people_name_the_remedy(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TURNSTONE_COLOUR", "blue")
    with pytest.raises(SystemExit) as ended:
        main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert ended.value.code == 1
    assert lines[0].startswith("failed   settings  TURNSTONE_COLOUR")
    assert lines[1].strip() == "→ correct or unset the variable"
    assert lines[-1] == "1 check failed"


def test_missing_vectors_are_a_warning_and_damaged_ones_a_failure(doctor: Doctor, folder: Path) -> None:
    need_embeddings("static")
    assert doctor().of("vectors") == ["ok"]
    vectors = folder / "vectors"
    vectors.mkdir()
    (folder / "turnstone.toml").write_text('[embeddings]\nfolder = "vectors"')
    report = doctor()
    assert (report.of("vectors"), report.status) == (["warning"], 0)
    (warning,) = [each for each in report.findings if each["check"] == "vectors"]
    assert "hashed words" in warning["message"]
    assert "turnstone embeddings fetch" in warning["remedy"]
    for name in NAMES["static"]:
        (vectors / name).write_bytes(b"x")
    assert "static.f16, vocabulary.json" in doctor().failed()["vectors"]
    (folder / "turnstone.toml").write_text('[embeddings]\nlocal = "off"')
    assert doctor().of("vectors") == ["ok"]


def test_a_folder_whose_name_is_too_long_fails(doctor: Doctor) -> None:
    assert "File name too long" in doctor(data_dir="a" * 400).failed()["data"]


def test_settings_that_stop_a_start_fail(doctor: Doctor, folder: Path) -> None:
    assert "TURNSTONE_API_KEY" in doctor(api_key=SECRET).failed()["settings"]
    (folder / "turnstone.toml").write_text('[tools.websearch]\napi_key_env = "NOT_SET_HERE"')
    failed = doctor(auth="api_keys").failed()
    assert "NOT_SET_HERE is not set correct turnstone.toml" in failed["settings"]


def test_a_port_in_use_fails_unless_a_turnstone_server_answers(doctor: Doctor) -> None:
    with answering(404, b"no") as port:
        assert "TURNSTONE_PORT" in doctor(port=port).failed()["address"]
    for status, body in ((200, b'{"status": "OK"}'), (401, b'{"detail": "no", "code": "unauthenticated"}')):
        with answering(status, body) as port:
            assert doctor(port=port).of("address") == ["ok"]


@contextmanager
def answering(status: int, body: bytes) -> Iterator[int]:
    """A server that gives every request this answer; yields its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer((HOST, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_data_that_are_fine_stay_as_they_are(doctor: Doctor, folder: Path) -> None:
    before = database(folder).read_bytes()
    assert doctor().of("data") == ["ok"]
    assert database(folder).parent.is_dir()
    assert (folder / ".turnstone" / "turnstone.db").read_bytes()[100:] == before[100:]


def test_data_that_no_server_can_use_fail(doctor: Doctor, folder: Path) -> None:
    path = database(folder)
    with path.open("r+b") as file:
        file.seek(8 * 4096)
        file.write(bytes(4096))
    assert "is damaged" in doctor().failed()["data"]
    path.write_bytes(b"")
    assert "is empty" in doctor().failed()["data"]
    path.unlink()
    (path.parent / "turnstone.db-wal").write_bytes(b"left")
    assert "is missing" in doctor().failed()["data"]
    (folder / "file").write_text("")
    assert "is not a folder" in doctor(data_dir=folder / "file").failed()["data"]
    assert "is not a folder" in doctor(data_dir=folder / "file" / "below").failed()["data"]


def test_a_folder_of_another_user_fails(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    assert "may not write" in doctor().failed()["data"]


def test_each_model_server_is_checked(doctor: Doctor, folder: Path) -> None:
    nowhere = f"http://{HOST}:{free_port()}/v1"
    report = doctor(model_url=nowhere)
    assert "is it running, and is TURNSTONE_MODEL_URL right?" in report.failed()["models"]
    with ModelServer(listed=listed("a", "b")) as model:
        assert doctor(model_url=model.url).of("models") == ["ok"]
        (folder / "turnstone.toml").write_text(FILE.format(url=model.url))
        report = doctor(model_url="offline")
        assert (report.of("models"), report.status) == (["ok", "warning"], 0)
        assert any("does not list clever" in each["message"] for each in report.findings)
    with ModelServer(listed=HttpAnswer(401, {"error": "no"})) as model:
        (folder / "turnstone.toml").write_text(FILE.format(url=model.url))
        assert "it requires a key" in doctor(model_url="offline", model_api_key="").failed()["models"]


def test_keys_are_counted_and_never_shown(doctor: Doctor, capsys: pytest.CaptureFixture[str]) -> None:
    report = doctor(auth="api_keys")
    assert (report.of("keys"), report.status) == (["warning"], 0)
    main(["keys", "create", "ann"])
    key = capsys.readouterr().out.strip()
    report = doctor()
    assert report.of("keys") == ["ok"]
    assert key not in str(report)
    assert doctor("--tenant", "another").of("keys") == ["warning"]
    main(["keys", "revoke", only_key_id(capsys)])
    capsys.readouterr()
    assert doctor().of("keys") == ["warning"]


def only_key_id(capsys: pytest.CaptureFixture[str]) -> str:
    main(["keys", "list", "--json"])
    return str(json.loads(capsys.readouterr().out)[0]["key_id"])


def test_a_server_open_to_others_is_a_warning(doctor: Doctor) -> None:
    assert doctor(allow_open="true").of("keys") == ["warning"]


def test_an_issuer_whose_keys_can_not_be_fetched_fails(doctor: Doctor) -> None:
    claims = {"auth": "jwt", "jwt_issuer": "https://i.example", "jwt_audience": "a", "jwt_tenant": "t"}
    with Issuer() as issuer:
        issuer.add("k")
        assert doctor(**claims, jwt_jwks_url=issuer.url).of("keys") == ["ok"]
        issuer.answer = (500, b"no")
        assert "TURNSTONE_JWT_JWKS_URL" in doctor(jwt_jwks_url=issuer.url).failed()["keys"]


def test_stores_of_banks_are_reached_or_named_with_a_remedy(
    doctor: Doctor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert doctor().of("memory") == []
    file = folder / "turnstone.toml"
    file.write_text('[memory.pg]\ntype = "pgvector"\nurl_env = "BANKS_URL"')
    monkeypatch.delenv("BANKS_URL", raising=False)
    report = doctor()
    assert "BANKS_URL is not set set BANKS_URL to the URL" in report.failed()["memory"]
    assert report.of("tools") != []
    monkeypatch.setenv("BANKS_URL", f"postgresql://a:{SECRET}@{HOST}:{free_port()}/b")
    failed = doctor().failed()["memory"]
    assert "the database can't be reached check that the database runs, and the URL in BANKS_URL" in failed
    with postgres_server() as server:
        monkeypatch.setenv("BANKS_URL", server.url())
        assert doctor().of("memory") == ["ok"]
        monkeypatch.setenv("BANKS_URL", server.url(password=SECRET))
        failed = doctor().failed()["memory"]
        assert "refuses the server's credentials" in failed
        assert SECRET not in failed
    monkeypatch.setattr(memory_providers, "find_spec", lambda _: None)
    assert "needs the package psycopg pip install -e '.[pgvector]'" in doctor().failed()["memory"]


def test_a_store_on_aws_without_region_or_credentials_is_named(
    doctor: Doctor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(folder / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    entry = '[memory.large]\ntype = "s3-vectors"\nbucket = "some-vectors"\n'
    (folder / "turnstone.toml").write_text(entry)
    assert "region set memory.large.region" in doctor().failed()["memory"].replace(".", "", 1)
    (folder / "turnstone.toml").write_text(f'{entry}region = "eu-central-1"')
    assert "the server has no AWS credentials" in doctor().failed()["memory"]


def test_a_default_embedding_model_that_no_provider_has_is_named(doctor: Doctor, folder: Path) -> None:
    file = folder / "turnstone.toml"
    file.write_text('[embeddings]\ndefault = "statics"')
    failed = doctor().failed()["vectors"]
    assert "'statics' of [embeddings] is no model of this server" in failed
    assert "choose one that it has: " in failed
    assert failed.endswith("offline")
    for configured in ("offline", "hashed-words"):
        file.write_text(f'[embeddings]\ndefault = "{configured}"')
        assert "failed" not in doctor().of("vectors")
    (folder / "none").mkdir()
    file.write_text('[embeddings]\ndefault = "static"\nfolder = "none"')
    assert "turnstone embeddings fetch" in doctor().failed()["vectors"]
    with ModelServer(listed=listed("a", "clever")) as model:
        of_provider = 'default_provider = "p"\n' + FILE.format(url=model.url)
        file.write_text(f'{of_provider}[embeddings]\ndefault = "b"')
        report = doctor()
        assert any("does not list b" in each["message"] for each in report.findings), report
        file.write_text(f'{of_provider}[embeddings]\ndefault = "a"')
        assert "warning" not in doctor().of("models")


def test_tools_of_the_file_are_tried(doctor: Doctor, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = f"http://{HOST}:{free_port()}/mcp"
    (folder / "turnstone.toml").write_text(
        '[tools.code_interpreter]\nruns = "here"\n[tools.python_tools]\nruns = "here"\n'
        f'[toolgroups."mcp::here"]\nmcp_endpoint = "{endpoint}"'
    )
    monkeypatch.setattr(JailedCode, "check", lambda _: None)
    report = doctor()
    assert report.of("tools") == ["ok", "ok", "ok", "failed"]
    assert "toolgroups.mcp::here.mcp_endpoint" in report.failed()["tools"]

    def refuse(_: JailedCode) -> None:
        raise ToolFailed("no namespaces")

    monkeypatch.setattr(JailedCode, "check", refuse)
    refused = doctor()
    assert refused.of("tools") == ["ok", "failed", "failed", "failed"]
    assert any("[tools.python_tools]" in str(each) for each in refused.findings)


def test_a_table_that_can_not_be_read_fails(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNSTONE_PORT")
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{HOST}:{free_port()}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_MAX_ATTEMPTS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    report = doctor(table="turns")
    assert (report.of("settings"), report.of("table"), report.status) == (["ok"], ["failed"], 1)
