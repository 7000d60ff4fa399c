"""A secret of this user on this machine, for names that other users can't predict."""

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from tempfile import NamedTemporaryFile

SECRET_BYTES = 16


def machine_secret() -> str:
    """Return the secret, created at the first call; a new one for each call if it can't be stored."""
    secret = token_hex(SECRET_BYTES)
    with suppress(OSError, RuntimeError, UnicodeDecodeError):  # no home, no permission, or another content
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
