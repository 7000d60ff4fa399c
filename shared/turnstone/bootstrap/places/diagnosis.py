"""Checks of a server on one machine before or while it runs. They create and change nothing."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from turnstone.adapters.embedding.files import local_choice, missing_model
from turnstone.adapters.machine.system import SystemClock
from turnstone.adapters.sqlite.sqlite_backup import check_database
from turnstone.bootstrap.places.embedding_files import damaged_files
from turnstone.bootstrap.places.local_models import local_models, read_catalogue
from turnstone.bootstrap.places.memory_check import bank_stores, unusable_default
from turnstone.bootstrap.places.model_check import model_servers
from turnstone.bootstrap.places.operator import DATABASE, operated_keys
from turnstone.bootstrap.tools import local_tool_kinds
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import (
    CredentialsMissing,
    CredentialsRefused,
    IssuerUnavailable,
    StoreUnavailable,
    ToolFailed,
    TurnstoneError,
)
from turnstone.domain.tools.tool_runs import ToolAsker
from turnstone.settings.auth_settings import TableSettings
from turnstone.settings.config import OFFLINE, InvalidFile, InvalidSettings, load_settings, variable_of
from turnstone.settings.local_settings import LocalSettings

if TYPE_CHECKING:
    from turnstone.adapters.tools.code.code_subprocess import JailedCode
    from turnstone.domain.registry.catalogue import Catalogue
    from turnstone.ports.tools import Toolbox

LITTLE_SPACE_BYTES = 200_000_000
FOLDER = "make it a folder that this user may write to, or set {variable} to another one"
CREATE_KEY = "create one: turnstone keys create NAME"
NO_CODE = 'set runs to "off" or "agentcore" in [tools.{kind}], or use a machine that can isolate code'
IN_TABLE = "check the table's name, its region, and the AWS credentials of this process"


class Finding(NamedTuple):
    """Result of one check.

    Attributes:
        check: its subject.
        status: `failed` if the server can't start or serve its callers, `warning` for a setting to reconsider.
        remedy: what to do; empty if nothing.
    """

    check: Literal["settings", "address", "data", "table", "models", "vectors", "memory", "keys", "tools"]
    status: Literal["ok", "warning", "failed"]
    message: str
    remedy: str = ""


def local_findings(tenant: str) -> Iterator[Finding]:
    """Yield the findings of the server that would start in the working folder.

    Args:
        tenant: the tenant with the counted API keys.
    """
    try:
        settings = load_settings(LocalSettings)
        settings.refuse_unused_key()
        catalogue = read_catalogue(settings)
        local_models(settings)
        local_tool_kinds(settings, catalogue, SystemClock()).close()
    except InvalidFile as problem:
        yield Finding("settings", "failed", problem.of(settings.models_file), f"correct {settings.models_file}")
        return
    except InvalidSettings as problem:
        yield Finding("settings", "failed", str(problem), "correct or unset the variable")
        return
    yield _settings(settings)
    yield from _data(settings)
    yield from _models(settings, catalogue)
    yield _vectors(catalogue)
    yield from _memory(settings, catalogue)
    yield _callers(settings, tenant)
    yield from _tools(settings, catalogue)


def table_findings(tenant: str) -> Iterator[Finding]:
    """Yield the findings of the commands that work on the table of TURNSTONE_TABLE."""
    try:
        settings = load_settings(TableSettings)
    except InvalidSettings as problem:
        yield Finding("settings", "failed", str(problem), "correct or unset the variable")
        return
    yield Finding("settings", "ok", "commands work on a table of DynamoDB; a server on this machine can't")
    try:
        keys = _good_keys(tenant)
    except (InvalidSettings, StoreUnavailable) as problem:
        yield Finding("table", "failed", f"table {settings.table}: {problem}", IN_TABLE)
        return
    yield Finding("table", "ok", f"table {settings.table} can be read; tenant {tenant!r} has {keys} valid API keys")
    if settings.bucket is None:
        yield Finding("table", "warning", "`turnstone turns` needs a bucket", f"set {variable_of('bucket')}")


def _settings(settings: LocalSettings) -> Finding:
    file = "no operator's file" if settings.models_file is None else f"operator's file {settings.models_file}"
    return Finding("settings", "ok", f"variables are valid; {file}")


def _data(settings: LocalSettings) -> Iterator[Finding]:
    folder = settings.data_dir.absolute()
    remedy = FOLDER.format(variable=variable_of("data_dir"))
    existing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if unusable := _unusable_name(folder):
        yield Finding("data", "failed", f"{folder} can't be a folder: {unusable}", remedy)
        return
    if not existing.is_dir():
        yield Finding("data", "failed", f"{existing} is not a folder", remedy)
        return
    if not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        yield Finding("data", "failed", f"this user may not write to {existing}", remedy)
        return
    if existing != folder:
        yield Finding("data", "ok", f"{folder} does not exist; the first start creates it")
    else:
        yield _database(settings, folder / DATABASE)
    free_bytes = shutil.disk_usage(existing).free
    if free_bytes < LITTLE_SPACE_BYTES:
        free = f"{free_bytes / 1e6:.0f} MB are free on the disk of {existing}"
        yield Finding("data", "warning", free, "free some space: without it, writes are refused")


def _unusable_name(folder: Path) -> str:
    """Return why no folder can have this name, empty if one can."""
    try:
        os.lstat(folder)
    except OSError as problem:
        return os.strerror(problem.errno) if problem.errno == errno.ENAMETOOLONG else ""
    return ""


def _database(settings: LocalSettings, database: Path) -> Finding:
    try:
        if not os.path.lexists(database) and not any(database.parent.iterdir()):
            return Finding("data", "ok", f"{database.parent} is empty; the first start creates the database")
        check_database(database, settings.store_wait_seconds)
    except (StoreUnavailable, OSError) as problem:
        return Finding("data", "failed", str(problem), "restore a backup: turnstone restore PATH --replace")
    return Finding("data", "ok", f"{database} is intact, {database.stat().st_size / 1e6:.1f} MB")


def _models(settings: LocalSettings, catalogue: Catalogue | None) -> Iterator[Finding]:
    providers = {} if catalogue is None else catalogue.providers
    is_offline = settings.model_url == OFFLINE if catalogue is None else OFFLINE in {p.type for p in providers.values()}
    if is_offline:
        yield Finding("models", "ok", f"the offline model needs no server; {variable_of('model_url')} sets a real one")
    for checked in model_servers(settings):
        server = f"model server {checked.provider} at {checked.url}"
        if checked.problem:
            yield Finding("models", "failed", f"{server} lists no models", checked.problem)
        elif checked.missing:
            remedy = f"load them there, or correct their names in {settings.models_file}"
            yield Finding("models", "warning", f"{server} does not list {checked.missing}", remedy)
        else:
            yield Finding("models", "ok", f"{server} lists {checked.number} models")
    for name, entry in providers.items():
        if entry.type == "bedrock":
            yield Finding("models", "ok", f"provider {name} is Amazon Bedrock, which is not checked")


def _vectors(catalogue: Catalogue | None) -> Finding:
    choice = local_choice(catalogue)
    if unusable := unusable_default(catalogue):
        return Finding("vectors", "failed", *unusable)
    if choice.local == "off":
        message = f"this server has no model of its own; the default is {choice.default or 'none'}"
        return Finding("vectors", "ok", message)
    if missing := missing_model(choice):
        return Finding("vectors", "warning", *missing)
    if damaged := damaged_files(choice):
        remedy = f"`turnstone embeddings fetch {choice.local}` fetches them again"
        return Finding("vectors", "failed", f"files of the model {choice.local!r} are damaged: {damaged}", remedy)
    return Finding("vectors", "ok", f"the files of the model {choice.local!r} are intact")


def _memory(settings: LocalSettings, catalogue: Catalogue | None) -> Iterator[Finding]:
    for store in bank_stores(settings, catalogue):
        if store.problem:
            yield Finding("memory", "failed", store.problem, store.remedy)
        else:
            yield Finding("memory", "ok", f"provider {store.provider} is {store.found}")


def _callers(settings: LocalSettings, tenant: str) -> Finding:
    match settings.auth:
        case "off" if settings.allow_open:
            remedy = f"set {variable_of('auth')}=api_keys if others can reach {settings.host}"
            return Finding("keys", "warning", "no authentication, and requests of other machines are accepted", remedy)
        case "off":
            return Finding("keys", "ok", "no authentication: the server accepts requests of this machine only")
        case "jwt":
            return _issuer(settings)
    try:
        number = _good_keys(tenant)
    except (InvalidSettings, StoreUnavailable):  # the check of the data names the reason
        number = 0
    if not number:
        return Finding("keys", "warning", f"tenant {tenant!r} has no valid API key", CREATE_KEY)
    return Finding("keys", "ok", f"tenant {tenant!r} has {number} valid API keys")


def _issuer(settings: LocalSettings) -> Finding:
    from turnstone.adapters.tokens.issuer_keys import IssuerKeys

    try:
        IssuerKeys(settings.jwt_jwks_url or "").key("")
    except IssuerUnavailable as problem:
        remedy = f"check {variable_of('jwt_jwks_url')}, and that this machine reaches it"
        return Finding("keys", "failed", f"{settings.jwt_jwks_url}: {problem}", remedy)
    return Finding("keys", "ok", f"the keys of {settings.jwt_issuer} can be fetched")


def _good_keys(tenant: str) -> int:
    now = datetime.now(UTC)
    with operated_keys() as keys:
        return sum(key.is_good(now) for key in keys.list(tenant))


def _tools(settings: LocalSettings, catalogue: Catalogue | None) -> Iterator[Finding]:
    kinds = local_tool_kinds(settings, catalogue, SystemClock())
    try:
        yield Finding("tools", "ok", f"toolgroups of this server: {', '.join(kinds.builtin())}")
        if catalogue is None:
            return
        for kind in ("code_interpreter", "python_tools"):
            configured = getattr(catalogue.tools, kind)
            if configured.runs == "here":
                from turnstone.adapters.tools.code.code_subprocess import JailedCode

                yield _code(kind, JailedCode(configured.memory_mb, (settings.data_dir,)))
        for name, group in catalogue.configured_toolgroups().items():
            yield _toolgroup(kinds.build(group), name, settings)
    finally:
        kinds.close()


def _code(kind: str, code: JailedCode) -> Finding:
    try:
        code.check()
    except ToolFailed as problem:
        return Finding("tools", "failed", f"{kind}: {problem}", NO_CODE.format(kind=kind))
    return Finding("tools", "ok", f"{kind}: this machine can isolate code")


def _toolgroup(toolbox: Toolbox, name: str, settings: LocalSettings) -> Finding:
    try:
        number = len(toolbox.tools(ToolAsker(LOCAL_CALLER.tenant)))
    except (CredentialsMissing, CredentialsRefused):
        return Finding("tools", "ok", f"toolgroup {name}: its server requires credentials of the caller")
    except TurnstoneError as problem:
        remedy = f"check toolgroups.{name}.mcp_endpoint in {settings.models_file}, and that its server runs"
        return Finding("tools", "failed", f"toolgroup {name}: {problem}", remedy)
    return Finding("tools", "ok", f"toolgroup {name}: {number} tools")
