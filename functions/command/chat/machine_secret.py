"""A secret of this user on this machine, from which a name can be made that nobody else can foresee."""

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from tempfile import NamedTemporaryFile

SECRET_BYTES = 16


def machine_secret() -> str:
    """Return the secret, made the first time; one for this call alone where none can be kept."""
    secret = token_hex(SECRET_BYTES)
    with suppress(OSError, RuntimeError, UnicodeDecodeError):  # no home, no right to write there, or no text of ours
        folder = Path.home() / ".local" / "state" / "turnstone"
        kept = folder / "chat-secret"
        if not kept.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with NamedTemporaryFile("w", dir=folder) as made:  # readable by its owner alone
                made.write(secret)
                made.flush()
                with suppress(FileExistsError):  # another chat was faster
                    os.link(made.name, kept)
        found = kept.read_text().strip()
        if len(found) >= len(secret):
            return found
    return secret
