"""The operator's file: its keys, and the errors that stop a start, each with the location in the file.

Covers: adapters/aws/aws_clients, bootstrap/catalogue, bootstrap/models, bootstrap/places/local_models,
  settings/config, settings/local_settings
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from turnstone.adapters.aws.aws_clients import AwsClients
from turnstone.bootstrap.catalogue import build_catalogue
from turnstone.bootstrap.models import ProviderDeps, build_inference
from turnstone.bootstrap.places.local_models import local_models
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.models.routing import ModelRoute, Target
from turnstone.domain.registry.catalogue import Catalogue, details_of, listed_model, registered_route
from turnstone.domain.registry.memory_settings import default_providers
from turnstone.domain.registry.providers import providers
from turnstone.domain.registry.registry import Model
from turnstone.domain.usage.prices import Prices
from turnstone.settings.config import InvalidSettings
from turnstone.settings.local_settings import LocalSettings

P = '[providers.p]\ntype = "openai"\nurl = "http://127.0.0.1:1/v1"\n'
OPEN = f'default_provider = "p"\n{P}'
KEY = "api_key_env"
EMBEDDED = '[memory.e]\ntype = "embedded"\nkinds = ["graph", "keyvalue"]\n'


def test_a_model_is_listed_under_all_its_names_with_its_targets_in_order() -> None:
    text = f"""{OPEN}
    [providers.q]
    type = "offline"
    [models.m]
    provider = "p"
    model = "at-p"
    aliases = ["also/m"]
    fallbacks = [{{provider = "q"}}, {{provider = "p", model = "small"}}]
    context_tokens = 100
    prices = {{input = 1, output = 2.5}}
    """
    configured = build_catalogue(text, None, KEY).configured_models()
    targets = (Target("p", "at-p"), Target("q", "at-p"), Target("p", "small"))
    prices = Prices(input=1, output=2.5)
    assert configured.routes == {name: ModelRoute(name, targets, 100, prices) for name in ("m", "also/m")}
    assert (configured.default, dict(configured.providers)) == ("p", {"p": "openai", "q": "offline"})
    shown = listed_model(configured.routes["also/m"])
    assert (shown.identifier, shown.provider_resource_id, shown.model_type) == ("also/m", "at-p", "llm")


def test_banks_of_each_kind_go_to_the_provider_that_claims_it() -> None:
    text = f'{OPEN}{EMBEDDED}[memory.p]\ntype = "s3-vectors"\nbucket = "some"\nkinds = ["vector"]\n'
    memory = build_catalogue(text, None, KEY).memory
    assert default_providers(memory) == {"graph": "e", "keyvalue": "e", "vector": "p"}
    listed = {each.provider_id: each.provider_type for each in providers({}, {n: e.type for n, e in memory.items()})}
    assert listed["turnstone-memory"] == listed["e"] == "inline::turnstone-memory"
    assert listed["p"] == "remote::s3-vectors"


def test_the_environment_adds_a_provider_beside_those_of_the_file() -> None:
    configured = build_catalogue(P, "http://127.0.0.1:2/v1", KEY).configured_models()
    assert (configured.default, dict(configured.providers)) == ("default", {"p": "openai", "default": "openai"})
    assert dict(build_catalogue(P, "offline", KEY).configured_models().providers)["default"] == "offline"


WRONG = [
    ("[", "is not valid TOML"),
    (P, "no provider is set"),
    (f'{OPEN}\nspeed = "fast"\n', "providers.p.speed: there is no such key (known: api_key_env, "),
    ('registry = "ajar"', "registry: must be open or closed"),
    (f'{OPEN}\nulr = "x"', "providers.p.ulr: there is no such key; did you mean url? (known: "),
    (f"{OPEN}\ntimeout_seconds = 0", "providers.p.timeout_seconds: must be a number above 0 and at most 86,400"),
    ('[model.m]\nprovider = "p"', "model: there is no such key; did you mean models? (known: default_provider, "),
    ('[tools.websearch]\nengine = "google"', "tools.websearch.engine: must be brave, bing or tavily"),
    ('[tools.code_interpreter]\nrun = "here"', "tools.code_interpreter.run: there is no such key; did you mean runs?"),
    (
        f'{OPEN}\n[models.m]\nprovider = "p"\nfallbacks = [{{provder = "p"}}]',
        "models.m.fallbacks.0.provider: must be set",
    ),
    (f'default_provider = "q"\n{P}', "no provider 'q'"),
    (f'{OPEN}\n[models.m]\nprovider = "q"', "models.m: there is no provider 'q'"),
    (f'{OPEN}\n[models.m]\nprovider = "p"\nfallbacks = [{{provider = "q"}}]', "models.m: there is no provider 'q'"),
    (f'{OPEN}\n[models.m]\nprovider = "p"\naliases = ["m"]', "models.m: 'm' is the name of another"),
    (f'{OPEN}\n[models."a b"]\nprovider = "p"', "must not contain spaces"),
    (f'{OPEN}\n[models.m]\nprovider = "p"\nprices = {{input = -1, output = 0}}', "models.m.prices.input"),
    (f'{OPEN}\n[models.m]\nprovider = "p"\ncontext_tokens = 0', "models.m.context_tokens"),
    ('[providers.p]\ntype = "openai"', "url: must be set"),
    ('[providers.p]\ntype = "openai"\nurl = "ftp://x"', "providers.p.url: must be a URL that begins with http"),
    ('[providers.p]\ntype = "openai"\nurl = "http://x"\nregion = "r"', "region: has no effect"),
    ('[providers.p]\ntype = "openai"\nauth = "sigv4"\ncaller_key = "k"', "take no key"),
    (f'{OPEN}api_key_env = "A"\napi_key_secret = "b"', "not both"),
    (f'{OPEN}api_key_secret = "b"', "its key is named by api_key_env here"),
    ('[providers.P]\ntype = "offline"', "providers.P: this name can't be used: "),
    ('[providers.p]\ntype = "magic"', "providers.p.type: must be bedrock, offline or openai"),
    ('[providers.p]\nurl = "http://h"', "providers.p.type: must be bedrock, offline or openai"),
    ('providers = "p"', "providers: must be a table"),
    ('[providers.default]\ntype = "offline"\n', "unset that"),
    ('[memory.m]\ntype = "magic"', "memory.m.type: must be embedded, pgvector or s3-vectors"),
    ('[memory.m]\ntype = "pgvector"', "memory.m: url_env: name the variable"),
    ('[memory.m]\ntype = "pgvector"\nurl_env = "A"\nurl_secret = "b"', "not both"),
    (f'{OPEN}[memory.m]\ntype = "pgvector"\nurl_secret = "b"', "memory.m: its URL is named by url_env here"),
    ('[memory.m]\ntype = "pgvector"\nurl_env = "A"\nkinds = ["graph"]', "memory.m.kinds.0: must be vector"),
    ('[memory.m]\ntype = "pgvector"\nurl_env = "A"\nschema = "a;b"', "memory.m.schema: must be a name of small"),
    ('[memory.m]\ntype = "s3-vectors"\nbucket = "A"', "memory.m.bucket: must be the name of a bucket"),
    ('[memory.turnstone-memory]\ntype = "embedded"', "is the name of this server's own store"),
    (f'{EMBEDDED}[memory.m]\ntype = "embedded"\nkinds = ["graph"]', "'graph' banks go to 'e' already"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_an_error_stops_the_start_and_is_named(text: str, message: str) -> None:
    model_url = "offline" if "providers.default" in text else None
    with pytest.raises(InvalidSettings, match=r"^TURNSTONE_CONFIG: ") as raised:
        build_catalogue(text, model_url, KEY)
    assert message in str(raised.value)


def test_a_closed_registry_has_no_default_provider_for_unregistered_models() -> None:
    assert build_catalogue(f'registry = "closed"\n{P}', None, KEY).configured_models().default is None


def test_a_file_that_can_not_be_read_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"TURNSTONE_CONFIG: .*can't be read"):
        local_models(LocalSettings(config=tmp_path / "none.toml"))


def test_a_key_that_is_not_in_the_environment_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "models.toml"
    file.write_text(f'{OPEN}api_key_env = "SOME_KEY"\n')
    monkeypatch.delenv("SOME_KEY", raising=False)
    with pytest.raises(InvalidSettings, match=r"providers.p.api_key_env: SOME_KEY is not set"):
        local_models(LocalSettings(config=file))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('url = "http://["', r"providers.p: Failed to parse: '\['"),
        ('url = "http://h:99999/v1"', r"providers.p: Failed to parse"),
        (
            'url = "http://h/v1"\napi_key_env = "SOME_KEY"',
            r"providers.p: the model's API key .* not valid in an HTTP header",
        ),
    ],
)
def test_a_provider_that_can_not_be_made_stops_the_start_and_is_named(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "models.toml"
    file.write_text(f'default_provider = "p"\n[providers.p]\ntype = "openai"\n{text}\n')
    monkeypatch.setenv("SOME_KEY", "a\nb")
    with pytest.raises(InvalidSettings, match=message):
        local_models(LocalSettings(config=file))


def test_a_file_that_is_nested_too_deep_stops_the_start() -> None:
    with pytest.raises(InvalidSettings, match="nested too deep"):
        build_catalogue("x = " + "[" * 3_000 + "]" * 3_000, None, KEY)


def test_the_usual_file_is_read_where_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_models(LocalSettings())[1] is None
    (tmp_path / "turnstone.toml").write_text(OPEN)
    catalogue = local_models(LocalSettings())[1]
    assert catalogue is not None
    assert set(catalogue.providers) == {"p"}, "the offline model exists only if it is configured"


def test_registered_metadata_with_an_effect_are_checked_and_others_are_left_alone() -> None:
    model = Model(
        identifier="m",
        provider_resource_id="at-p",
        provider_id="p",
        metadata={"mine": [1], "context_tokens": 9, "fallbacks": [{"provider": "q"}], "embedding_dimension": 3},
    )
    route = registered_route(model.model_dump(mode="json"))
    assert route == ModelRoute("m", (Target("p", "at-p"), Target("q", "at-p")), 9, None, 3)
    with pytest.raises(InvalidRequest, match=r"^metadata\.context_tokens: ") as raised:
        details_of(model.model_copy(update={"metadata": {"context_tokens": "many"}}))
    assert raised.value.location == ("metadata", "context_tokens")


@pytest.mark.parametrize(("options", "capabilities"), [({"grammar": "vllm"}, {"grammar"}), ({}, set())])
def test_a_provider_takes_grammars_if_the_file_names_its_server(options: Any, capabilities: set[str]) -> None:
    entry = {"type": "openai", "url": "http://localhost:8000/v1", **options}
    catalogue = Catalogue.model_validate({"providers": {"p": entry}, "default_provider": "p"})
    inference = build_inference(catalogue, ProviderDeps(10, lambda *_: None, AwsClients))
    assert inference.capabilities() == capabilities


def test_a_file_of_tools_only_leaves_the_models_as_they_are_without_it(tmp_path: Path) -> None:
    file = tmp_path / "tools.toml"
    file.write_text('[tools.code_interpreter]\nruns = "here"\n')
    catalogue = local_models(LocalSettings(config=file))[1]
    assert catalogue is not None
    assert (catalogue.configured_models().default, dict(catalogue.configured_models().providers)) == (
        "default",
        {"default": "offline"},
    )
    file.write_text(f'[tools.code_interpreter]\nruns = "here"\n{P}')
    with pytest.raises(InvalidSettings, match="no provider is set"):
        local_models(LocalSettings(config=file))
