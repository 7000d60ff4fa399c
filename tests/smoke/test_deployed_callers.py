"""The built template, deployed with API keys: the gateway calls the authorizer, and the functions trust the gateway.

The emulator answers refusals in words of its own, not in those of the template.

Covers: template.yaml, functions/authorizer
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from tests.smoke.artefact import ROOT
from tests.smoke.conftest import MINISTACK
from tests.smoke.deployment import REQUEST_TIMEOUT_S, Stack, deploy
from tests.support.aws.emulator import EmulatorProcess

AGENT = {"agent_config": {"model": "offline", "instructions": "Be brief."}}


@pytest.fixture(scope="module")
def cloud() -> Iterator[EmulatorProcess]:
    """An emulator that enforces the rights of every caller."""
    with EmulatorProcess(MINISTACK, AUTH="true") as emulator:
        yield emulator


@pytest.fixture(scope="module")
def stack(cloud: EmulatorProcess) -> Stack:
    stack = deploy(cloud, Auth="api_keys")
    stack.service("s3").delete_bucket_policy(Bucket=stack.resources["Bucket"])  # the emulator has no TLS
    return stack


def turnstone(cloud: EmulatorProcess, stack: Stack, *arguments: str) -> str:
    """Return the output of the command on the stack's table."""
    command = [sys.executable, "-m", "turnstone", *arguments]
    environment = {**cloud.environment, "TURNSTONE_TABLE": stack.resources["Table"]}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def response_to(stack: Stack, method: str, path: str, key: str | None) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    body = AGENT if method == "POST" else None
    return httpx.request(method, stack.url + path, headers=headers, json=body, timeout=REQUEST_TIMEOUT_S)


def test_a_key_of_the_command_gives_access_to_its_tenant_only(cloud: EmulatorProcess, stack: Stack) -> None:
    ann = turnstone(cloud, stack, "keys", "create", "ann", "--tenant", "acme", "--role", "admin")
    bob = turnstone(cloud, stack, "keys", "create", "bob", "--tenant", "other")
    created = response_to(stack, "POST", "/v1/agents", ann)
    assert created.status_code == 200, created.text
    path = f"/v1/agents/{created.json()['agent_id']}"
    assert [response_to(stack, "GET", path, key).status_code for key in (ann, bob, ann)] == [200, 404, 200]
    assert not [key for key in (ann, bob) if key.removeprefix("ts_") in cloud.log]


@pytest.mark.parametrize("key", [None, "nonsense", "ts_" + "A" * 43])
def test_a_request_without_a_valid_key_is_refused(stack: Stack, key: str | None) -> None:
    assert response_to(stack, "GET", "/v1/version", key).status_code == 401
    assert response_to(stack, "POST", "/v1/agents", key).status_code == 401


def test_a_signature_does_not_replace_a_key(stack: Stack) -> None:
    with stack.client() as signed:
        assert signed.get("/v1/version").status_code == 401


def test_a_revoked_key_is_refused(cloud: EmulatorProcess, stack: Stack) -> None:
    """A key without earlier requests: the gateway caches the authorizer's answer for a minute."""
    key = turnstone(cloud, stack, "keys", "create", "eve", "--tenant", "eves")
    (line,) = turnstone(cloud, stack, "keys", "list", "--tenant", "eves").splitlines()
    turnstone(cloud, stack, "keys", "revoke", line.split()[0], "--tenant", "eves")
    assert response_to(stack, "GET", "/v1/version", key).status_code == 401


def test_the_authorizer_may_read_keys_and_nothing_without_that_right(cloud: EmulatorProcess, stack: Stack) -> None:
    key = turnstone(cloud, stack, "keys", "create", "fay", "--tenant", "fays")
    iam, role = stack.service("iam"), stack.resources["AuthorizeRole"]
    iam.detach_role_policy(RoleName=role, PolicyArn=stack.resources["ReadApiKeys"])
    assert response_to(stack, "GET", "/v1/version", key).status_code >= 400
    iam.attach_role_policy(RoleName=role, PolicyArn=stack.resources["ReadApiKeys"])
    assert response_to(stack, "GET", "/v1/version", key).status_code == 200
