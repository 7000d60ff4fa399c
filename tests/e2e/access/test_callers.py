"""Keys made by the command admit the official client until they are revoked; a caller without a key is refused.

Covers: functions/command, services/access/authentication
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import httpx
import pytest

from tests.fakes.web.issuer import AUDIENCE, ISSUER, Issuer
from tests.support.cases import rest_at_night
from tests.support.clients.client_script import VERSIONS, ClientScript
from tests.support.server.servers import HOST, ServerProcess, free_port, server_environment, wait_until
from tests.support.starts.commands import run_command, start

CACHE_S = 1.0
SLACK_S = 2.0
TIMEOUT_S = 30.0


def turnstone(data_dir: Path, *arguments: str) -> str:
    """Return the output of the command."""
    ended = run_command(*arguments, environment=server_environment({"data_dir": data_dir}))
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.mark.parametrize("version", rest_at_night(VERSIONS, always=VERSIONS[-1:]))
def test_a_key_admits_the_official_client_until_it_is_revoked(version: str, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    key = turnstone(data_dir, "keys", "create", "ann", "--tenant", "acme", "--role", "admin")
    others_key = turnstone(data_dir, "keys", "create", "bob", "--tenant", "other")
    settings = {"auth": "api_keys", "auth_cache_seconds": CACHE_S}
    with (
        ServerProcess(tmp_path, authorization=f"Bearer {key}", **settings) as server,
        ClientScript(version, "with_key", server.url, key, others_key) as script,
    ):
        replies = [script.next_report() for _ in range(3)]
        assert replies[0]["kinds"][0] == "turn_start"
        assert replies[0]["kinds"][-1] == "turn_complete"
        assert replies[0]["whole"]["is_over"]
        assert replies[1] == {"to_a_stranger": 404}
        assert replies[2]["without"] == [401, "Bearer", "0"]
        listed = turnstone(data_dir, "keys", "list", "--tenant", "acme")
        turnstone(data_dir, "keys", "revoke", listed.split()[0], "--tenant", "acme")
        script.go_on()
        last = script.whole_report()
        assert last["revoked"] == 401
        assert last["after_s"] < CACHE_S + SLACK_S
        assert (
            httpx.get(f"{server.url}/v1/version", headers={"authorization": f"Bearer {others_key}"}).status_code == 200
        )
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert "POST /v1/agents 401" in server.log
    for secret in (key, others_key):
        assert secret.removeprefix("ts_").encode() not in stored  # neither the database nor the log


def test_a_key_made_while_the_server_runs_is_accepted_at_once(tmp_path: Path) -> None:
    first = turnstone(tmp_path / "data", "keys", "create", "ann")
    with ServerProcess(tmp_path, authorization=f"Bearer {first}", auth="api_keys") as server:
        second = turnstone(tmp_path / "data", "keys", "create", "ann")
        answer = httpx.get(f"{server.url}/v1/version", headers={"authorization": f"Bearer {second}"})
        assert answer.status_code == 200


def test_a_token_of_an_issuer_is_accepted(tmp_path: Path) -> None:
    with Issuer() as issuer:
        issuer.add("one")
        good, late = (f"Bearer {issuer.token('one', **changed)}" for changed in ({}, {"exp": 1}))
        settings = {
            "auth": "jwt",
            "jwt_issuer": ISSUER,
            "jwt_audience": AUDIENCE,
            "jwt_jwks_url": issuer.url,
            "jwt_claims": "tenant=org",
        }
        with ServerProcess(tmp_path, authorization=good, **settings) as server:
            url = f"{server.url}/v1/version"
            assert httpx.get(url, headers={"authorization": late}).status_code == 401
            assert httpx.get(url, headers={"authorization": good}).status_code == 200
        assert issuer.fetches == 1
        assert good.split(".")[1] not in server.log


def test_a_server_that_listens_on_the_network_without_keys_requires_allow_open(tmp_path: Path) -> None:
    port = free_port()
    with ServerProcess(tmp_path, port=port, host="0.0.0.0", allow_open="true"):
        named = {"host": "turnstone.example"}
        assert httpx.get(f"http://{HOST}:{port}/v1/version", headers=named).status_code == 200


def test_a_server_may_listen_on_the_other_loopback(tmp_path: Path) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    port = free_port()
    environment = server_environment({"port": port, "data_dir": tmp_path, "host": "::1"})
    with open(os.devnull, "r+b") as nothing:
        server = start("serve", environment=environment, streams=[nothing.fileno()] * 3)
    try:
        wait_until(lambda: answers(f"http://[::1]:{port}/v1/version"), TIMEOUT_S, "the server did not answer")
    finally:
        server.kill()
        server.wait()


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.ConnectError:
        return False
