"""The provider of a model's name, before and after its registration.

Covers: adapters/sqlite/sqlite, services/models/registry, services/models/routing, store/registry/snapshot,
  store/registry/registry
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.fakes.models.scripted import ScriptedInference
from tests.support.engine.harness import CountingStore, FakeClock, attempt
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.domain.models.local_embeddings import LocalEmbeddingChoice
from turnstone.domain.models.routing import DEFAULT_PROVIDER, ConfiguredModels, Target
from turnstone.domain.registry.registry import Model
from turnstone.services.models.registry import Models
from turnstone.services.models.routing import Routing
from turnstone.store.registry.registry import RegistryStore
from turnstone.store.registry.snapshot import RegistrySnapshot

OPEN = ConfiguredModels({"here": "offline", "there": "openai"}, "here")
CLOSED = ConfiguredModels(OPEN.providers, None)
TENANT = LOCAL_CALLER.tenant


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CountingStore]:
    with closing(SqliteRangeStore(tmp_path / "turnstone.db")) as sqlite:
        yield CountingStore(sqlite)


def routing(store: CountingStore, configured: ConfiguredModels) -> Routing:
    """Return the routing of a process of its own."""
    return Routing(configured, RegistrySnapshot(store, FakeClock()))


def register(store: CountingStore, configured: ConfiguredModels, provider_id: str = "there") -> Model:
    """Register the model `new` in another process than those that route."""
    model = Model(identifier="new", provider_resource_id="new", provider_id=provider_id)
    models = Models(RegistryStore(store, "model", Model), configured, ScriptedInference([]), FakeClock())
    return models.register(LOCAL_CALLER, model, attempt("register"))


def test_a_closed_registry_reads_at_once_a_model_that_another_process_registered(store: CountingStore) -> None:
    routes = routing(store, CLOSED)
    with pytest.raises(InvalidRequest, match="'new'"):
        routes.route(TENANT, "new")
    register(store, CLOSED)
    assert routes.route(TENANT, "new").targets == (Target("there", "new"),)


def test_an_open_registry_reads_registrations_once_in_ten_seconds(store: CountingStore) -> None:
    routes = routing(store, OPEN)
    assert {routes.route(TENANT, name).targets[0].provider_id for name in ("new", "other")} == {"here"}
    assert [call.verb for call in store.calls] == ["get"]


@pytest.mark.parametrize(
    ("configured", "provider_id"),
    [(OPEN, "here"), (ConfiguredModels({**OPEN.providers, DEFAULT_PROVIDER: "openai"}, "here"), DEFAULT_PROVIDER)],
)
def test_a_registration_without_a_provider_has_the_default_one(
    store: CountingStore, configured: ConfiguredModels, provider_id: str
) -> None:
    assert register(store, configured, DEFAULT_PROVIDER).provider_id == provider_id
    assert routing(store, configured).route(TENANT, "new").targets == (Target(provider_id, "new"),)


def test_a_closed_registry_has_no_default_provider(store: CountingStore) -> None:
    with pytest.raises(Unsupported, match="it has: here, there"):
        register(store, CLOSED, DEFAULT_PROVIDER)


@pytest.mark.parametrize(
    ("configured", "missing", "listed"),
    [
        (OPEN, "ghost", "static, offline"),
        (OPEN, "minilm", "static, offline"),
        (CLOSED, "ghost", "static"),
        (CLOSED, "minilm", "static"),
    ],
)
def test_a_bank_needs_an_embedding_model_that_is_here(
    store: CountingStore, configured: ConfiguredModels, missing: str, listed: str
) -> None:
    routes = routing(store, LocalEmbeddingChoice().added_to(configured, ["static"]))
    with pytest.raises(InvalidRequest, match=f"no embedding model '{missing}'; choose one of {listed}$"):
        routes.route_of_bank(TENANT, missing)
    for here in ("static", "hashed-words"):
        assert routes.route_of_bank(TENANT, here).model_id == here


def test_a_model_server_may_have_an_embedding_model_that_is_not_listed(store: CountingStore) -> None:
    open_server = ConfiguredModels({"there": "openai"}, "there")
    assert routing(store, open_server).route_of_bank(TENANT, "any").targets == (Target("there", "any"),)


def test_a_server_without_embedding_models_names_the_lack(store: CountingStore) -> None:
    with pytest.raises(InvalidRequest, match="no embedding model 'any'; it has none; register one"):
        routing(store, CLOSED).route_of_bank(TENANT, "any")
