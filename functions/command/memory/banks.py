"""Banks of documents on the server: vector stores, whose files have their path and digest as attributes."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from ..client import Client, CommandFailed, Refused
from ..wire import Json

PAGE = 100
PATH, DIGEST = "path", "sha256"
COUNTS = ("in_progress", "completed", "failed", "cancelled", "total")


class BankFile(NamedTuple):
    """A file of a bank.

    Attributes:
        path: of the machine that added it; the file's id if another client did.
        sha256: None if another client added it.
    """

    file_id: str
    path: str
    sha256: str | None
    status: str
    size_bytes: int
    error: str | None

    @property
    def row(self) -> Json:
        row = {"path": self.path, "status": self.status, "size_bytes": self.size_bytes, "file_id": self.file_id}
        return row if self.error is None else {**row, "error": self.error}


class OtherBank(NamedTuple):
    """A bank of the kind keyword, keyvalue or graph."""

    bank_id: str
    name: str
    kind: str


class FoundText(NamedTuple):
    """A result of a search.

    Attributes:
        source: the path of the file, or its name if another client added it.
    """

    text: str
    score: float
    source: str
    file_id: str
    attributes: Mapping[str, Any]


class RemoteBank:
    """A bank of the server."""

    def __init__(self, client: Client, state: Json) -> None:
        self.client = client
        self.bank_id: str = state["id"]
        self.name: str = state["name"] or state["id"]
        self.counts: Json = {name: state["file_counts"][name] for name in COUNTS}
        self._path = f"/vector_stores/{quote(self.bank_id, safe='')}"

    def files(self) -> Iterator[BankFile]:
        """Yield the files, the oldest first. Raises CommandFailed."""
        return map(_file, _listed(self.client, f"{self._path}/files"))

    def file(self, file_id: str) -> BankFile:
        """Return the file as it is now. Raises CommandFailed."""
        return _file(self.client.get(self._file_path(file_id))[0])

    def insert(self, file_id: str, path: str, digest: str) -> None:
        """Begin to insert a file of the server. Raises CommandFailed."""
        body = {"file_id": file_id, "attributes": {PATH: path, DIGEST: digest}}
        self.client.post(f"{self._path}/files", body)

    def remove(self, file: BankFile) -> None:
        """Remove a file from the bank, and from the server if this command added it. Raises CommandFailed."""
        if file.sha256 is not None:  # first, because the bank's entry names the path to a later run
            self.client.delete(f"/files/{quote(file.file_id, safe='')}")
        self.client.delete(self._file_path(file.file_id))

    def delete(self) -> None:
        """Delete the bank, and of its files on the server those that this command added. Raises CommandFailed."""
        for file in self.files():
            if file.sha256 is not None:
                self.client.delete(f"/files/{quote(file.file_id, safe='')}")
        self.client.delete(self._path)

    def results(self, question: str, limit: int) -> list[FoundText]:
        """Return the results of a search, the best first. Raises CommandFailed."""
        answer = self.client.post(f"{self._path}/search", {"query": question, "max_num_results": limit})
        return [
            FoundText(
                text="\n".join(part["text"] for part in result["content"]),
                score=result["score"],
                source=str(result["attributes"].get(PATH) or result["filename"]),
                file_id=result["file_id"],
                attributes=result["attributes"],
            )
            for result in answer["data"]
        ]

    def _file_path(self, file_id: str) -> str:
        return f"{self._path}/files/{quote(file_id, safe='')}"


def all_banks(client: Client) -> Iterator[RemoteBank]:
    """Yield the banks that the caller may see, the oldest first. Raises CommandFailed."""
    return (RemoteBank(client, state) for state in _listed(client, "/vector_stores"))


def other_banks(client: Client) -> list[OtherBank]:
    """Return the banks of other kinds, which have no files. Raises CommandFailed."""
    listed = client.get("/memory-banks")[0]["data"]
    others = [bank for bank in listed if bank["memory_bank_type"] != "vector"]
    return [
        OtherBank(bank["identifier"], bank["name"] or bank["identifier"], bank["memory_bank_type"]) for bank in others
    ]


def bank_named(client: Client, name: str) -> RemoteBank | None:
    """Return the bank of that id, or else of that name. Raises CommandFailed if several have the name."""
    try:
        return RemoteBank(client, client.get(f"/vector_stores/{quote(name, safe='')}")[0])
    except Refused as refusal:
        if refusal.status != 404:
            raise
    found = [bank for bank in all_banks(client) if bank.name == name]
    if len(found) > 1:
        ids = ", ".join(bank.bank_id for bank in found)
        raise CommandFailed(f"{len(found)} banks have the name {name!r}. Name one by its id: {ids}.")
    return found[0] if found else None


def made_bank(client: Client, name: str) -> RemoteBank:
    """Return a new bank, the same one for commands that create it at the same time. Raises CommandFailed."""
    body = {"name": name}
    made = RemoteBank(client, client.post("/vector_stores", body, sha256(f"bank {name}".encode()).hexdigest()))
    try:
        return RemoteBank(client, client.get(f"/vector_stores/{made.bank_id}")[0])
    except Refused as refusal:
        if refusal.status != 404:  # the bank of that key has been deleted
            raise
    return RemoteBank(client, client.post("/vector_stores", body))


def _listed(client: Client, path: str) -> Iterator[Json]:
    """Yield the entries of all pages."""
    query = {"limit": str(PAGE), "order": "asc"}
    while True:
        page = client.get(f"{path}?{urlencode(query)}")[0]
        yield from page["data"]
        if not page["has_more"] or not page["data"]:
            return
        query["after"] = page["last_id"]


def _file(entry: Json) -> BankFile:
    attributes, error = entry["attributes"] or {}, entry["last_error"]
    is_ours = isinstance(attributes.get(PATH), str) and isinstance(attributes.get(DIGEST), str)
    return BankFile(
        file_id=entry["id"],
        path=attributes[PATH] if is_ours else entry["id"],
        sha256=attributes[DIGEST] if is_ours else None,
        status=entry["status"],
        size_bytes=entry["usage_bytes"],
        error=None if error is None else error["message"],
    )
