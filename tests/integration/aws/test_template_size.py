"""The template has room for the routes of further dialects: its sizes once it is expanded, today's and with more.

Covers: template.yaml, tests/template, tests/integration/rights
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.rights.figures import MOST_RESOURCES, Sizes, path_nodes
from tests.integration.rights.stage import full_template
from tests.support.aws.cloudformation import ROOT, Template
from tests.support.aws.sam_expansion import load_source
from tests.template.definition import ANY_METHOD, Function, functions_of, paths_of, with_definition
from turnstone.http.replies import Reply
from turnstone.http.request import Request
from turnstone.http.route import Route

MOST_RESOURCES_WITH_MORE, MOST_NODES_WITH_MORE = 175, 270  # of 500 and 300
FAMILIES = ("agents", "blocks", "archival", "messages", "runs", "tools")
STREAMING = ("messages",)
PATHS = {
    "": ("GET", "POST"),
    "/{id}": ("GET", "PATCH", "DELETE"),
    "/{id}/items": ("GET", "POST"),
    "/{id}/items/{item_id}": ("GET", "PUT", "DELETE"),
    "/{id}/attach/{other_id}": ("PATCH",),
    "/{id}/export": ("GET",),
    "/{id}/reset": ("POST",),
    "/count": ("GET",),
    "/search": ("POST",),
}
BUFFERED_FUNCTION = """
  {name}:
    Type: AWS::Serverless::Function
    Properties:
      Handler: peer_{family}.family.handler
      Policies: [!Ref ReadRecords, !Ref CreateRecords]
"""
STREAMING_FUNCTION = """
  {name}:
    Type: AWS::Serverless::Function
    Properties:
      Handler: !If [Streams, stream.sh, peer_{family}.family.handler]
      Timeout: 900
      Layers: *Streaming
      Environment:
        Variables:
          TURNSTONE_ROUTE_MODULE: peer_{family}.family
          AWS_LAMBDA_EXEC_WRAPPER: !If [Streams, /opt/bootstrap, !Ref AWS::NoValue]
      Policies: [!Ref ReadRecords, !Ref CreateRecords]
"""


def endpoint(_: Request) -> Reply:
    return Reply(b"{}")


def family(name: str, *, is_greedy: bool = False) -> Function:
    """Return a family of fifteen routes below a prefix of another dialect."""
    below = f"/peer/v1/{name}"
    routes = [Route(method, below + path, endpoint, None) for path, methods in PATHS.items() for method in methods]
    assert len(routes) == 15
    return Function(f"Peer{name.title()}", routes, name in STREAMING, below if is_greedy else None)


def with_more(folder: Path, *, is_greedy: bool) -> Template:
    """Return the template with six families more, made as `make template` makes it."""
    text = (ROOT / "template.yaml").read_text()
    written = "".join(
        (STREAMING_FUNCTION if name in STREAMING else BUFFERED_FUNCTION).format(name=f"Peer{name.title()}", family=name)
        for name in FAMILIES
    )
    before = "\n  # ---- what looks after turns that no request runs\n"
    assert text.count(before) == 1
    functions = [
        *functions_of(load_source(ROOT / "template.yaml")["Resources"]),
        *(family(name, is_greedy=is_greedy) for name in FAMILIES),
    ]
    path = folder / "template.yaml"
    path.write_text(with_definition(text.replace(before, written + before), functions))
    return Template(path, ModelUrl="offline")


def test_the_template_is_within_its_bars() -> None:
    sizes = Sizes.of(full_template(StreamingMode="adapter"))
    assert sizes.fit(MOST_RESOURCES), sizes


@pytest.mark.parametrize("is_greedy", [False, True])
def test_ninety_routes_more_are_within_their_bars(tmp_path: Path, is_greedy: bool) -> None:
    before, made = full_template(StreamingMode="adapter"), with_more(tmp_path, is_greedy=is_greedy)
    sizes = Sizes.of(made)
    assert sizes.fit(MOST_RESOURCES_WITH_MORE, MOST_NODES_WITH_MORE), sizes
    assert sizes.resources == len(before.expanded["Resources"]) + 3 * len(FAMILIES), "function, role and permission"
    new_nodes = path_nodes(made) - path_nodes(before)
    assert len(new_nodes) == 2 + len(FAMILIES) * (2 if is_greedy else 10)
    streams = {
        path.split("/")[3]
        for path, methods in made.body["paths"].items()
        for operation in methods.values()
        if operation["x-amazon-apigateway-integration"].get("responseTransferMode") and path.startswith("/peer/")
    }
    assert streams == set(STREAMING)


def test_a_greedy_family_has_one_resource_with_the_methods_of_its_routes() -> None:
    blocks = family("blocks", is_greedy=True)
    paths = paths_of([blocks])
    assert {path: set(operations) for path, operations in paths.items()} == {
        "/peer/v1/blocks": {"GET", "POST"},
        "/peer/v1/blocks/{proxy+}": {"GET", "POST", "PUT", "PATCH", "DELETE"},
    }


@pytest.mark.parametrize("path", ["/peer/v1/blocks/other", "/peer/v1/blocks"])
def test_a_greedy_family_shares_its_paths_with_no_other_function(path: str) -> None:
    other = Function("Other", [Route("HEAD", path, endpoint, None)], streams=False)
    with pytest.raises(AssertionError, match="is shared"):
        paths_of([family("blocks", is_greedy=True), other])


def test_a_path_beside_a_greedy_family_may_be_of_another_function() -> None:
    other = Function("Other", [Route("GET", "/peer/v1/blocksets", endpoint, None)], streams=False)
    assert paths_of([family("blocks", is_greedy=True), other])["/peer/v1/blocksets"]["GET"].function is other


def test_a_greedy_family_has_no_route_elsewhere() -> None:
    blocks = family("blocks", is_greedy=True)
    with pytest.raises(AssertionError, match="is not below"):
        paths_of([blocks._replace(routes=[*blocks.routes, Route("GET", "/peer/v1/blocksets", endpoint, None)])])


def test_each_path_has_its_methods_and_one_for_all_others() -> None:
    text = (ROOT / "template.yaml").read_text()
    paths = load_source(ROOT / "template.yaml")["Resources"]["Api"]["Properties"]["DefinitionBody"]["paths"]
    assert all(ANY_METHOD in methods for methods in paths.values())
    assert len(re.findall(r"LambdaAdapterLayer\$", text)) == 1, "the adapter's layer is named once"
