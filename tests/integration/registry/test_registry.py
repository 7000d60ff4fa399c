"""Registered resources exist once, as they were defined, for their tenant; on both stores.

Covers: services/models/registry, services/shields/shields, services/tools/toolgroups, store/registry/registry,
  services/tools/lookup, services/tools/tool_answers
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import botocore.session
import pytest
from moto import mock_aws

import tests.fakes.aws.moto_tables  # noqa: F401 - transactions that take no time
from tests.fakes.models.scripted import ScriptedToolbox, ScriptedTools
from tests.support.aws.aws_events import AT
from tests.support.aws.dynamo_table import create_table
from tests.support.cases import NIGHTLY
from tests.support.engine.harness import FakeClock, attempt, together
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import (
    AlreadyRegistered,
    IdempotencyMismatch,
    InvalidRequest,
    NotFound,
    ToolgroupUnavailable,
    Unsupported,
)
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.registry.registry import BUILTIN, Model, Shield, Toolgroup
from turnstone.domain.tools.tool_runs import ToolAsker
from turnstone.domain.tools.tools import ToolDef
from turnstone.ports.records import Operation
from turnstone.ports.storage import RangeStore
from turnstone.services.threads.executor import TurnExecutor
from turnstone.services.tools.lookup import ToolgroupLookup
from turnstone.services.tools.tool_answers import ToolAnswers
from turnstone.services.tools.toolboxes import Toolboxes
from turnstone.services.tools.toolgroups import Toolgroups
from turnstone.store.files.attachments import AttachmentStore
from turnstone.store.layout.oversize import OversizeStore
from turnstone.store.registry.registry import RegistryStore
from turnstone.store.registry.snapshot import RegistrySnapshot

SLOW_S = 1.0  # long compared with the start of a few threads on a busy machine

NAMES = ["b", "a", "meta-llama/Llama-3.3-70B", "builtin::x", "a|b#%3A", "Zoë", "~", "x" * 256]


@pytest.fixture(params=["sqlite", pytest.param("dynamodb", marks=NIGHTLY)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RangeStore]:
    blobs = FileBlobStore(tmp_path / "blobs")
    if request.param == "sqlite":
        sqlite = SqliteRangeStore(tmp_path / "turnstone.db")
        yield OversizeStore(sqlite, blobs)
        sqlite.close()
        return
    with mock_aws():
        session = botocore.session.Session()
        session.set_credentials("testing", "testing")
        client, name = session.create_client("dynamodb", region_name="eu-central-1"), f"t-{uuid4().hex}"
        create_table(client, name)
        table = DynamoRangeStore(client, name)
        yield OversizeStore(table, blobs)
        table.close()


def models(store: RangeStore) -> RegistryStore[Model]:
    return RegistryStore(store, "model", Model)


def model(identifier: str, **metadata: Any) -> Model:
    return Model(identifier=identifier, provider_resource_id=identifier, metadata=metadata)


class Interrupted:
    """A store that runs an action before its first write."""

    def __init__(self, inner: RangeStore, act: Any) -> None:
        self._inner = inner
        self._act = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, operations: Sequence[Operation], nonce: str | None = None) -> None:
        act, self._act = self._act, lambda: None
        act()
        self._inner.write(operations, nonce)


def test_everything_registered_is_found_by_its_name_and_listed_for_its_tenant_only(store: RangeStore) -> None:
    for name in NAMES:
        models(store).register("one", model(name, of=name), attempt(), AT)
    RegistryStore(store, "shield", Shield).register(
        "one", Shield(identifier="a", provider_resource_id="a"), attempt(), AT
    )
    assert {found.identifier for found in models(store).list("one")} == set(NAMES)
    assert [models(store).find("one", name) for name in NAMES] == [model(name, of=name) for name in NAMES]
    assert models(store).list("two") == models(store).list("on") == ()
    assert [models(store).find("two", name) for name in NAMES] == [None] * len(NAMES)
    with pytest.raises(NotFound):
        models(store).remove("two", "a")
    assert models(store).find("one", "a") is not None


def test_an_equal_definition_is_accepted_again_and_another_is_refused(store: RangeStore) -> None:
    for _ in range(2):
        models(store).register("t", model("m", window=[1, 2.5, None]), attempt(), AT)
    with pytest.raises(AlreadyRegistered) as raised:
        models(store).register("t", model("m", window=8_000), attempt(), AT)
    assert (raised.value.kind, raised.value.identifier, raised.value.may_be_repeated) == ("model", "m", False)
    assert models(store).list("t") == (model("m", window=[1, 2.5, None]),)


def test_a_removed_resource_is_gone_and_may_be_defined_again(store: RangeStore) -> None:
    models(store).register("t", model("m"), attempt(), AT)
    models(store).remove("t", "m")
    assert models(store).find("t", "m") is None
    with pytest.raises(NotFound):
        models(store).remove("t", "m")
    models(store).register("t", model("m", anew=True), attempt(), AT)
    assert models(store).list("t") == (model("m", anew=True),)


def test_of_two_definitions_at_once_one_is_refused(store: RangeStore) -> None:
    def rival() -> None:
        models(store).register("t", model("m", by="rival"), attempt(), AT)

    interrupted: Any = Interrupted(store, rival)
    with pytest.raises(AlreadyRegistered):
        models(interrupted).register("t", model("m", by="us"), attempt(), AT)
    assert models(store).list("t") == (model("m", by="rival"),)


def test_concurrent_equal_registrations_are_not_refused(store: RangeStore) -> None:
    interrupted: Any = Interrupted(store, lambda: models(store).register("t", model("m"), attempt(), AT))
    models(interrupted).register("t", model("m"), attempt(), AT)
    assert models(store).list("t") == (model("m"),)


def test_many_at_once_register_one(tmp_path: Path) -> None:
    sqlite = SqliteRangeStore(tmp_path / "turnstone.db")
    registry = models(sqlite)

    def register(number: int) -> bool:
        try:
            registry.register("t", model("m", by=number), attempt(), AT)
        except AlreadyRegistered:
            return False
        return True

    won = together(*(lambda number=number: register(number) for number in range(8)))
    assert won.count(True) == 1
    assert registry.list("t") == (model("m", by=won.index(True)),)
    sqlite.close()


def test_a_request_with_a_key_is_done_once(store: RangeStore) -> None:
    keyed = attempt("body", key="k")
    models(store).register("t", model("m"), keyed, AT)
    models(store).remove("t", "m")
    models(store).register("t", model("m"), keyed, AT)
    assert models(store).list("t") == ()
    with pytest.raises(IdempotencyMismatch):
        models(store).register("t", model("other"), attempt("another body", key="k"), AT)
    models(store).register("t", model("m", by="another"), attempt(), AT)
    models(store).register("t", model("m"), keyed, AT)
    assert models(store).list("t") == (model("m", by="another"),)
    models(store).remove("t", "m")
    models(store).register("t", model("m"), keyed, AT + timedelta(hours=25))
    assert models(store).list("t") == (model("m"),)


def test_a_key_is_remembered_where_there_was_nothing_to_do(store: RangeStore) -> None:
    models(store).register("t", model("m"), attempt(), AT)
    models(store).register("t", model("m"), attempt("body", key="k"), AT)
    with pytest.raises(IdempotencyMismatch):
        models(store).register("t", model("other"), attempt("another body", key="k"), AT)


class SilentToolbox(ScriptedToolbox):
    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:
        raise ToolgroupUnavailable("silent", "it can't be reached")


class PartlySilentTools(ScriptedTools):
    """Scripted tools, beside which an unreachable group `silent` may be registered."""

    def build(self, group: Toolgroup) -> ScriptedToolbox:
        return SilentToolbox(self, ()) if group.identifier == "silent" else super().build(group)


@pytest.fixture
def tools() -> ScriptedTools:
    return PartlySilentTools(
        {"dice": {"roll": lambda _: "4", "flip": lambda _: "heads"}, "clock": {"now": lambda _: "noon"}}
    )


@pytest.fixture
def toolgroups(tmp_path: Path, tools: ScriptedTools) -> Iterator[Toolgroups]:
    sqlite = SqliteRangeStore(tmp_path / "turnstone.db")
    clock = FakeClock()
    directory = RegistrySnapshot(sqlite, clock)
    answers = ToolAnswers(AttachmentStore(sqlite), max_characters=1_000)
    boxes = Toolboxes(ToolgroupLookup(directory, tools, {}), tools, answers, timeout_s=5)
    yield Toolgroups(RegistryStore(sqlite, "toolgroup", Toolgroup, directory.forget), boxes, clock, TurnExecutor(8))
    sqlite.close()


def group(identifier: str, provider_id: str = "model-context-protocol") -> Toolgroup:
    return Toolgroup(identifier=identifier, provider_resource_id=identifier, provider_id=provider_id)


def test_built_in_resources_are_listed_before_registered_ones(toolgroups: Toolgroups) -> None:
    for name in ("zebra", "ape"):
        toolgroups.register(LOCAL_CALLER, group(name), attempt())
    toolgroups.register(LOCAL_CALLER, group("dice", "builtin"), attempt())
    expected = (group("dice", "builtin"), group("clock", "builtin"), group("ape"), group("zebra"))
    assert toolgroups.list(LOCAL_CALLER) == expected
    assert tuple(toolgroups.get(LOCAL_CALLER, found.identifier) for found in expected) == expected
    with pytest.raises(NotFound, match="toolgroup 'lion' not found"):
        toolgroups.get(LOCAL_CALLER, "lion")


def test_a_built_in_resource_is_not_redefined_and_stays_when_it_is_unregistered(
    toolgroups: Toolgroups,
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        toolgroups.register(LOCAL_CALLER, group("dice"), attempt())
    assert refused.value.location == ("toolgroup_id",)
    assert "toolgroup_id: 'dice' comes with the server" in str(refused.value)
    before = toolgroups.list(LOCAL_CALLER)
    toolgroups.unregister(LOCAL_CALLER, "dice")
    assert toolgroups.list(LOCAL_CALLER) == before


def test_a_group_that_the_server_does_not_have_is_refused_with_those_it_has(toolgroups: Toolgroups) -> None:
    with pytest.raises(Unsupported) as refused:
        toolgroups.register(LOCAL_CALLER, group("chess", "builtin"), attempt())
    assert refused.value.location == ("toolgroup_id",)
    assert str(refused.value) == "toolgroup_id: nobody wrote the tools of 'chess'"


def test_tools_are_listed_with_their_groups_and_found_by_name(toolgroups: Toolgroups) -> None:
    def names_of(*groups: str, named_by: str = "") -> list[tuple[str, str]]:
        listed = toolgroups.tools(LOCAL_CALLER, NO_PROVIDER_DATA, groups, named_by)
        return [(group.identifier, tool.name) for group, tools in listed for tool in tools]

    assert names_of() == [("dice", "roll"), ("dice", "flip"), ("clock", "now")]
    assert names_of("clock") == [("clock", "now")]
    assert names_of("dice/flip") == [("dice", "flip")]
    found, tool = toolgroups.tool(LOCAL_CALLER, "now")
    assert (found.identifier, tool.name) == ("clock", "now")
    for name in ("fly", "/now", "dice/now", "clock//now"):
        with pytest.raises(NotFound, match=f"tool '{name}' not found"):
            toolgroups.tool(LOCAL_CALLER, name)
    with pytest.raises(Unsupported, match="there is no toolgroup 'chess'") as refused:
        names_of("chess", named_by="toolgroup_id")
    assert refused.value.location == ("toolgroup_id",)


def test_the_refusal_of_an_operators_group_does_not_suggest_to_register_it(toolgroups: Toolgroups) -> None:
    with pytest.raises(Unsupported, match="nobody wrote the tools of 'builtin::chess'"):
        toolgroups.tools(LOCAL_CALLER, NO_PROVIDER_DATA, ("builtin::chess",), "toolgroup_id")


def test_a_tool_of_an_unreachable_group_is_not_reported_as_missing(toolgroups: Toolgroups) -> None:
    toolgroups.register(LOCAL_CALLER, group("silent"), attempt())
    for name in ("silent/roar", "roar"):
        with pytest.raises(ToolgroupUnavailable):
            toolgroups.tool(LOCAL_CALLER, name)
        with pytest.raises(ToolgroupUnavailable):
            toolgroups.invoke(LOCAL_CALLER, name, {}, attempt())
    found, _ = toolgroups.tool(LOCAL_CALLER, "now")
    assert found == group("clock", "builtin")
    assert [one.identifier for one, _ in toolgroups.tools(LOCAL_CALLER, NO_PROVIDER_DATA)] == ["dice", "clock"]


def test_a_tool_that_is_run_outside_of_turns_has_its_groups_arguments_and_no_session(toolgroups: Toolgroups) -> None:
    _, result, has_failed = toolgroups.invoke(LOCAL_CALLER, "dice/roll", {"sides": 6}, attempt())
    assert (result.content, has_failed) == ("4", False)


def test_a_call_has_the_idempotency_key_of_the_same_request_of_the_same_tenant_only(
    toolgroups: Toolgroups, tools: ScriptedTools
) -> None:
    other = Caller(tenant="b", principal=LOCAL_CALLER.principal)
    for caller, by in (
        (LOCAL_CALLER, attempt("roll", key="k")),
        (LOCAL_CALLER, attempt("roll", key="k", is_retry=True)),
        (LOCAL_CALLER, attempt("another roll", key="k")),
        (LOCAL_CALLER, attempt("roll", key="l")),
        (LOCAL_CALLER, attempt("roll")),
        (LOCAL_CALLER, attempt("roll")),
        (other, attempt("roll", key="k")),
    ):
        toolgroups.invoke(caller, "dice/roll", {}, by)
    first, *others = [invocation.idempotency_key for invocation in tools.invocations]
    assert [key == first for key in others] == [True, False, False, False, False, False]
    assert len(set(others)) == len(others)


class SlowTools(ScriptedTools):
    """Kinds whose registered groups take a while to list their tools."""

    def build(self, group: Toolgroup) -> ScriptedToolbox:
        made = super().build(group)
        if group.provider_id != BUILTIN:
            time.sleep(SLOW_S)
        return made


def test_several_groups_are_read_at_the_same_time(tmp_path: Path) -> None:
    sqlite = SqliteRangeStore(tmp_path / "turnstone.db")
    clock, kinds = FakeClock(), SlowTools({"dice": {"roll": lambda _: "4"}})
    directory = RegistrySnapshot(sqlite, clock)
    registered = {name: group(name) for name in "abcd"}
    answers = ToolAnswers(AttachmentStore(sqlite), max_characters=1_000)
    boxes = Toolboxes(ToolgroupLookup(directory, kinds, registered), kinds, answers, timeout_s=5)
    began = time.monotonic()
    offered = boxes.of_tenant(ToolAsker("a")).offered(["dice", *registered])
    assert time.monotonic() - began < 2 * SLOW_S
    assert [tool.definition.name for tool in offered] == ["roll"]
    with pytest.raises(Unsupported, match="nobody's"):
        boxes.of_tenant(ToolAsker("a")).offered(["a", "nobody's"])
    sqlite.close()
