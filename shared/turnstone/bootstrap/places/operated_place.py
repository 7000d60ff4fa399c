"""Where an operator's commands look for a server's records: a table of DynamoDB, else the data directory."""

from pathlib import Path

from turnstone.settings.auth_settings import TableSettings
from turnstone.settings.config import InvalidSettings, load_settings, names_a_table
from turnstone.settings.local_settings import LocalSettings

DATABASE = "turnstone.db"


def operated_place() -> str:
    """Return where that is, for a person. Raises InvalidSettings."""
    if names_a_table():
        return f"table {load_settings(TableSettings).table}"
    return f"data directory {load_settings(LocalSettings).data_dir.absolute()}"


def operated_database(data_dir: Path, *, may_begin: bool = False) -> Path:
    """Return the database of that data directory, which is there already unless the command may begin it.

    Raises InvalidSettings.
    """
    database = data_dir / DATABASE
    if not may_begin and _is_missing(database):
        looked = f"there is no server data in {data_dir.absolute()}"
        raise InvalidSettings(f"{looked}; TURNSTONE_DATA_DIR names another directory")
    return database


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # whatever else is the matter, opening it tells that
    return False
