"""The layer has what the package needs, in the versions it is tested with.

Covers: template.yaml, shared
"""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib.metadata import requires
from pathlib import Path

import botocore
import botocore.session
import pytest
from botocore.exceptions import BotoCoreError
from botocore.loaders import Loader
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.cases import rest_at_night

ROOT = Path(__file__).parents[3]
SHARED = ROOT / "shared"
BOTOCORE = Path(botocore.__file__).parent / "data"
NOT_ON_LAMBDA = {"uvloop"}  # uvicorn does without; a function's only request gains less than loading it takes
SOME_REGIONS = frozenset({"eu-central-1", "cn-north-1"})
MORE_REGIONS = frozenset({"us-east-1", "us-gov-west-1", "xx-nowhere-1"})
LAMBDA = {"python_version": "3.13", "python_full_version": "3.13.0", "sys_platform": "linux", "extra": ""}


def pins(path: Path) -> dict[str, str]:
    """Return the versions by the names of the packages."""
    lines = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
    named = [line.split("==") for line in lines if line]
    return {canonicalize_name(name): version for name, version in named}


def needed(requirements: list[str]) -> set[str]:
    """Return the names of the packages required on a Lambda."""
    parsed = map(Requirement, requirements)
    return {canonicalize_name(r.name) for r in parsed if r.marker is None or r.marker.evaluate(LAMBDA)}


def test_versions_are_those_of_the_tests() -> None:
    tested = pins(ROOT / "constraints.txt")
    shipped = pins(SHARED / "requirements.txt")
    assert {name: tested.get(name) for name in shipped} == shipped


def test_no_required_package_is_missing() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    shipped = set(pins(SHARED / "requirements.txt"))
    ours = needed([*project["dependencies"], *project["optional-dependencies"]["aws"]])
    assert ours - NOT_ON_LAMBDA <= shipped
    for name in shipped:
        assert needed(requires(name) or []) <= shipped, f"{name} needs more"


def kept_services() -> list[str]:
    kept = re.search(r"^SERVICES := (.*)$", (SHARED / "Makefile").read_text(), re.MULTILINE)
    assert kept is not None
    return kept[1].split()


def test_botocore_can_describe_every_service_that_is_called() -> None:
    called = {
        argument.value
        for path in SHARED.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in ("client", "lazy_client", "create_client")
        for argument in node.args[:1]
        if isinstance(argument, ast.Constant)
    }
    assert "dynamodb" in called
    assert called <= set(kept_services())


@pytest.mark.parametrize(
    "regions", rest_at_night((SOME_REGIONS, MORE_REGIONS), always=(SOME_REGIONS,)), ids=("some", "more")
)
def test_clients_are_the_same_with_the_few_endpoints_that_the_layer_keeps(
    tmp_path: Path, regions: frozenset[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for source in (file for file in BOTOCORE.iterdir() if file.is_file() or file.name in kept_services()):
        (data / source.name).symlink_to(source)
    (data / "endpoints.json").unlink()
    shutil.copy(BOTOCORE / "endpoints.json", data)
    ran = subprocess.run([sys.executable, SHARED / "trim_endpoints.py", data, *kept_services()], capture_output=True)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert (data / "endpoints.json").stat().st_size < (BOTOCORE / "endpoints.json").stat().st_size / 10
    for service in kept_services():
        for region in sorted(regions):
            assert client_settings(service, region, [data]) == client_settings(service, region, []), (service, region)


def client_settings(service: str, region: str, data: Sequence[Path]) -> tuple[object, ...]:
    """Return the endpoint and the signing of a client, with the descriptions of that folder alone if there is one."""
    session = botocore.session.get_session()
    if data:
        loader = Loader(extra_search_paths=[str(path) for path in data], include_default_search_paths=False)
        session.register_component("data_loader", loader)
    try:
        client = session.create_client(service, region, aws_access_key_id="testing", aws_secret_access_key="testing")
    except BotoCoreError as error:
        return (type(error), str(error))
    meta, signer = client.meta, client._request_signer
    return (meta.endpoint_url, meta.region_name, signer.signature_version, signer.signing_name, signer.region_name)
