"""Records that the commands of an operator open beside running servers: a DynamoDB table, else the data folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from turnstone.settings.auth_settings import TableSettings
from turnstone.settings.config import InvalidSettings, Settings, load_settings, names_a_table
from turnstone.settings.local_settings import LocalSettings

if TYPE_CHECKING:
    from turnstone.ports.storage import RangeStore
    from turnstone.ports.supervision import Supervisor
    from turnstone.services.access.api_keys import ApiKeys
    from turnstone.services.operations.open_turns import OpenTurns

DATABASE = "turnstone.db"


def operated_location() -> str:
    """Return the location of the records, for a person. Raises InvalidSettings."""
    if names_a_table():
        return f"table {load_settings(TableSettings).table}"
    return f"data folder {load_settings(LocalSettings).data_dir.absolute()}"


def keys_are_required() -> bool:
    """Return whether the server of these settings requires API keys or tokens. Raises InvalidSettings."""
    return names_a_table() or load_settings(LocalSettings).auth != "off"


def operated_database(data_dir: Path, *, may_begin: bool = False) -> Path:
    """Return the database of the data folder. Raises InvalidSettings if it is missing and not `may_begin`."""
    database = data_dir / DATABASE
    if not may_begin and _is_missing(database):
        missing = f"there is no server data in {data_dir.absolute()}"
        raise InvalidSettings(f"{missing}; TURNSTONE_DATA_DIR names another folder")
    return database


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # opening it reports any other problem
    return False


@contextmanager
def operated_turns() -> Iterator[OpenTurns]:
    """Lend the turns of the table that TURNSTONE_TABLE names, else of the data folder.

    Raises InvalidSettings, StoreUnavailable.
    """
    if names_a_table():
        settings = load_settings(TableSettings)
        yield _open_turns(*_on_aws(settings), settings)
        return
    from turnstone.adapters.machine.local_supervisor import LocalSupervisor
    from turnstone.adapters.machine.system import SystemClock
    from turnstone.adapters.sqlite.files import FileBlobStore
    from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
    from turnstone.adapters.sqlite.sqlite_failures import PAYLOADS
    from turnstone.store.layout.oversize import OversizeStore

    local = load_settings(LocalSettings)
    records = SqliteRangeStore(operated_database(local.data_dir), local.store_wait_seconds)
    try:
        store = OversizeStore(records, FileBlobStore(local.data_dir / PAYLOADS))
        yield _open_turns(store, LocalSupervisor(SystemClock()), local)
    finally:
        records.close()


def _open_turns(store: RangeStore, supervisor: Supervisor, settings: Settings) -> OpenTurns:
    from turnstone.adapters.machine.local_jobs import LocalJobs
    from turnstone.adapters.machine.system import RandomIds, SystemClock
    from turnstone.adapters.models.offline.offline import OfflineInference
    from turnstone.adapters.models.offline.offline_embeddings import OfflineEmbeddings
    from turnstone.adapters.tools.none import NoTools
    from turnstone.adapters.vectors.configured import ConfiguredProviders
    from turnstone.adapters.webhooks.guarded_sender import GuardedSender
    from turnstone.bootstrap.core import Core
    from turnstone.bootstrap.places.local_shields import local_shields
    from turnstone.bootstrap.services.adapters import Ports
    from turnstone.services.operations.open_turns import OpenTurns

    clock = SystemClock()
    # no turn runs here and nothing is deleted, so models, tools, shields and jobs are never used
    inference = OfflineInference()
    ports = Ports(
        store=store,
        inference=inference,
        tools=NoTools(),
        supervisor=supervisor,
        clock=clock,
        ids=RandomIds(),
        jobs=LocalJobs(),
        shields=local_shields(inference),
        embeddings=OfflineEmbeddings(),
        bank_providers=ConfiguredProviders({}, {}),
        webhook_sender=GuardedSender(settings.fetch_allow),
    )
    core = Core(ports, settings)
    return OpenTurns(core.turn_store, core.cancelling)


def _on_aws(settings: TableSettings) -> tuple[RangeStore, Supervisor]:
    if settings.bucket is None:
        raise InvalidSettings("TURNSTONE_BUCKET: must be set, a turn may be too large for the table")
    from turnstone.adapters.machine.system import SystemClock

    try:
        from turnstone.adapters.aws.aws_clients import AwsClients
        from turnstone.adapters.aws.dynamodb import DynamoRangeStore
        from turnstone.adapters.aws.s3 import S3BlobStore
        from turnstone.adapters.aws.step_functions import StepFunctionsSupervisor
    except ModuleNotFoundError as missing:
        raise InvalidSettings(
            f"TURNSTONE_TABLE: needs the package {missing.name}, pip install -e '.[aws]'"
        ) from missing
    from turnstone.store.layout.keys import turn_key_of
    from turnstone.store.layout.oversize import AHEAD_BYTES, OversizeStore

    clients = AwsClients()
    table = DynamoRangeStore(clients.client("dynamodb"), settings.table)
    machine = settings.state_machine_arn or ""  # to wake an execution its token is enough
    supervisor = StepFunctionsSupervisor(clients.lazy_client("stepfunctions"), machine, SystemClock(), turn_key_of)
    return OversizeStore(table, S3BlobStore(clients.lazy_client("s3"), settings.bucket), AHEAD_BYTES), supervisor


@contextmanager
def operated_keys(*, may_begin: bool = False) -> Iterator[ApiKeys]:
    """Lend the API keys of the table that TURNSTONE_TABLE names, else of the data folder.

    With `may_begin` a missing data folder is created. Raises InvalidSettings, StoreUnavailable.
    """
    from turnstone.bootstrap.callers import api_keys_in, table_named

    if names_a_table():
        yield api_keys_in(table_named(load_settings(TableSettings).table))
        return
    from turnstone.adapters.sqlite.sqlite import SqliteRangeStore

    local = load_settings(LocalSettings)
    store = SqliteRangeStore(operated_database(local.data_dir, may_begin=may_begin), local.store_wait_seconds)
    try:
        yield api_keys_in(store)
    finally:
        store.close()
