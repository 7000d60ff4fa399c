"""Addition of files to a bank: each is there wholly or not at all, and once, however often the command is run.

The bank keeps path and digest of each file. A new content is inserted beside the earlier one, which is removed once the
new one is complete, so that a search finds one of them at any time.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, NamedTuple
from uuid import uuid4

from ..client import Refused
from ..wire import Json
from .banks import BankFile, RemoteBank
from .deferred_interrupts import DeferredInterrupts
from .local_files import LocalFile
from .progress import AdditionProgress
from .uploading import FileChanged, sent_file

SHORTEST_WAIT_S, LONGEST_WAIT_S = 0.1, 1.0
AdditionResult = Literal["added", "replaced", "unchanged", "failed"]


class FileOutcome(NamedTuple):
    """The result for one file.

    Attributes:
        file_id: None if the bank has no such file.
        error: the reason of a failure.
    """

    path: str
    result: AdditionResult
    file_id: str | None = None
    error: str | None = None

    @property
    def row(self) -> Json:
        row = {"path": self.path, "status": self.result, "file_id": self.file_id}
        return row if self.error is None else {**row, "error": self.error}


@dataclass(frozen=True)
class PendingFile:
    """A file that is being inserted, and the bank's earlier files of its path."""

    file_id: str
    path: str
    earlier: Sequence[BankFile]


class FileAddition:
    """One run of the command.

    Attributes:
        outcomes: of the files that have ended.
    """

    def __init__(
        self, bank: RemoteBank, progress: AdditionProgress, interrupts: DeferredInterrupts, timeout_s: float
    ) -> None:
        self.outcomes: list[FileOutcome] = []
        self._bank = bank
        self._client = bank.client
        self._progress = progress
        self._interrupts = interrupts
        self._timeout_s = timeout_s
        self._pending: list[PendingFile] = []

    def add(self, files: Sequence[LocalFile]) -> None:
        """Add the files.

        Raises:
            CommandFailed: the server is gone, or refuses the caller.
            KeyboardInterrupt: `withdraw` ends the run.
        """
        kept: dict[str, list[BankFile]] = {}
        for each in self._bank.files():
            if each.sha256 is not None:
                kept.setdefault(each.path, []).append(each)
        for file in files:
            self._interrupts.check()
            self._progress.at(file.path, "sending")
            try:
                self._begin(file, kept.get(file.path, []))
            except (Refused, FileChanged) as problem:
                self._end(FileOutcome(file.path, "failed", error=str(problem)))
            except OSError as problem:
                self._end(FileOutcome(file.path, "failed", error=f"can't be read: {problem.strerror or problem}"))
        while self._pending:
            pending = self._pending[0]
            try:
                self._follow(pending)
            except Refused as problem:  # such as for a file that another client has removed
                self._end(FileOutcome(pending.path, "failed", error=str(problem)))
            del self._pending[0]

    def withdraw(self) -> None:
        """Remove incomplete files after an interrupt. Raises CommandFailed."""
        for pending in self._pending:
            with suppress(Refused):
                file = self._bank.file(pending.file_id)
                if file.status == "completed":
                    self._complete(pending)
                else:
                    self._bank.remove(file)

    def _begin(self, file: LocalFile, kept: Sequence[BankFile]) -> None:
        """Send the file and begin to insert it, unless the bank has it."""
        digest = file.digest()
        same = [each for each in kept if each.sha256 == digest]
        for status in ("completed", "in_progress"):
            if found := next((each for each in same if each.status == status), None):
                others = [each for each in kept if each != found]
                if status == "completed":
                    self._drop(others)
                    self._end(FileOutcome(file.path, "unchanged", found.file_id))
                else:
                    self._pending.append(PendingFile(found.file_id, file.path, others))
                return
        file_id = self._inserted(file, digest)
        self._progress.sent()
        earlier = [each for each in kept if each.file_id != file_id]
        self._pending.append(PendingFile(file_id, file.path, earlier))

    def _inserted(self, file: LocalFile, digest: str) -> str:
        """Return the id of the sent file. An earlier run may have sent it, and the file may have been removed since."""
        lasting = sha256("\n".join([self._bank.bank_id, file.path, digest]).encode()).hexdigest()
        for key in (lasting, uuid4().hex):
            file_id = sent_file(self._client, file, digest, key, self._interrupts.check)
            try:
                self._bank.insert(file_id, file.path, digest)
            except Refused as refusal:
                if refusal.status != 404 or key != lasting:
                    self._client.delete(f"/files/{file_id}")
                    raise
            else:
                break
        return file_id

    def _follow(self, pending: PendingFile) -> None:
        """Wait until the file is inserted."""
        ends_at, wait_s = time.monotonic() + self._timeout_s, SHORTEST_WAIT_S
        while True:
            self._interrupts.check()
            file = self._bank.file(pending.file_id)
            self._progress.at(pending.path, "inserting", file.error if file.status == "in_progress" else None)
            if file.status == "completed":
                self._complete(pending)
                return
            if file.status != "in_progress":
                self._bank.remove(file)
                reason = file.error or f"the insertion was {file.status}"
                note = "; the bank keeps the earlier content" if _has_content(pending.earlier) else ""
                self._end(FileOutcome(pending.path, "failed", error=reason + note))
                return
            if time.monotonic() + wait_s > ends_at:
                cause = f" ({file.error})" if file.error else ""
                reason = f"is not inserted after {self._timeout_s:g} s{cause}; the server continues"
                note = "`turnstone memory list --bank` shows the status, and this command can be run again"
                self._end(FileOutcome(pending.path, "failed", pending.file_id, f"{reason}; {note}"))
                return
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    def _complete(self, pending: PendingFile) -> None:
        """Remove the earlier contents of a file that is complete."""
        self._drop(pending.earlier)
        result: AdditionResult = "replaced" if _has_content(pending.earlier) else "added"
        self._end(FileOutcome(pending.path, result, pending.file_id))

    def _drop(self, files: Sequence[BankFile]) -> None:
        for file in files:
            self._bank.remove(file)

    def _end(self, outcome: FileOutcome) -> None:
        self.outcomes.append(outcome)
        self._progress.ended(outcome.path, outcome.result)


def _has_content(files: Sequence[BankFile]) -> bool:
    return any(file.status == "completed" for file in files)
